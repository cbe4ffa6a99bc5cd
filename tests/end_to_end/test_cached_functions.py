"""Functions with caches, as programs and notebooks write them, reach workers by value, without what is cached."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

import exoshuffle as xs

PROGRAM = """
import functools, sys
import exoshuffle as xs

xs.init(memory_limit="400MB", num_cpus=1, spill_dirs=[sys.argv[1]])

@functools.cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

@functools.lru_cache(maxsize=7, typed=True)
def above(n):
    return n + 1

class Doubles:
    @functools.lru_cache
    def double(self, n):
        return 2 * n

    def __call__(self, batch):
        return {"v": [self.double(n.as_py()) for n in batch["id"]]}

above(1)
rows = xs.range(20)
parameters = xs.remote(lambda f: (f(3), f.cache_info()))
print(rows.map(lambda row: {"v": fibonacci(row["id"])}).sum("v"))
print(rows.map_batches(Doubles()).sum("v"), rows.map_batches(Doubles).sum("v"))
print(xs.get(xs.remote(above).remote(4)), xs.get(parameters.remote(above)))
"""


def test_functions_of_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "10945",
        "380 380",
        "5 (4, CacheInfo(hits=0, misses=1, maxsize=7, currsize=1))",
    ]


@pytest.mark.usefixtures("roomy_engine")
def test_functions_of_functions() -> None:
    @functools.cache
    def doubled(n: int) -> int:
        return 2 * n

    rows = xs.range(20)
    assert rows.map(lambda row: {"v": doubled(row["id"])}).sum("v") == 380
