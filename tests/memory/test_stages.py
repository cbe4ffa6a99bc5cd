"""Objects of classes keep memory while they live; pipelines of them stay within the limit, or are refused at once."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.memory.measuring import measured
from tests.memory.tables import write_table

PROGRAM = """
import sys, time
import pyarrow as pa
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError

class Eightfold:
    def __call__(self, rows):
        return pa.concat_tables([rows] * 8)

class Large:
    def __init__(self):
        self.weights = bytearray(b"x") * 30_000_000

    def __call__(self, rows):
        return rows

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.read_parquet({source!r} + "/*.parquet")
begun = time.monotonic()
try:
    made = {made}.write_parquet({folder!r} + "/out").rows
except MemoryLimitError as error:
    made = f"{{error}} after {{time.monotonic() - begun:.0f}} s"
sys.stdout.write(str(made))
"""
#: Requests, limits, and outcomes.
WAYS = {
    "two objects": ("rows.map_batches(Large, concurrency=2, memory='45MB')", 500, "240000"),
    "fewer objects than asked for": (
        "rows.map_batches(Large, concurrency=2, memory='45MB')",
        380,
        "240000",
    ),
    "classes that take turns": (
        "rows.map_batches(Eightfold, concurrency=1).map_batches(Large, concurrency=1, memory='45MB')",
        355,
        "1920000",
    ),
    "no object": (
        "rows.map_batches(Large, concurrency=1, memory='45MB')",
        250,
        r"a task of Large needs .* MB, and .* of 250 MB leaves .*; raise memory_limit to (29|30)\d MB after [0-2] s",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_classes_stay_within_memory(way: str, tmp_path: Path) -> None:
    made, megabytes, wanted = WAYS[way]
    limit = megabytes * 1_000_000
    source = write_table(tmp_path / "in", 2, 120_000, 192)
    program = PROGRAM.format(limit=limit, folder=str(tmp_path), source=str(source), made=made)
    printed, peak_bytes = measured(program)
    assert re.fullmatch(wanted, printed), printed
    assert peak_bytes <= limit


def test_the_limit_that_a_class_without_memory_is_told_does(tmp_path: Path) -> None:
    made, megabytes, _ = WAYS["no object"]
    source = write_table(tmp_path / "in", 2, 120_000, 192)
    program = functools.partial(PROGRAM.format, folder=str(tmp_path), source=str(source), made=made)
    told, _ = measured(program(limit=megabytes * 1_000_000))
    named = re.search(r"raise memory_limit to (\d+) MB", told)
    assert named is not None, told
    limit = int(named[1]) * 1_000_000
    printed, peak_bytes = measured(program(limit=limit))
    assert printed == "240000"
    assert megabytes * 1_000_000 < limit
    assert peak_bytes <= limit
