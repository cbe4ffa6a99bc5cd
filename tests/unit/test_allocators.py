"""Freed memory that allocators keep is bounded, and the user's choice stays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import exoshuffle as xs
from exoshuffle.engines.allocators import environment
from exoshuffle.observe.memory import private_bytes
from exoshuffle.testing.meeting import poll

#: Frees blocks of 8 MB and takes them again, and prints how many pages are touched by that.
PROGRAM = """
import ctypes, resource
import exoshuffle as xs
engine = xs.init(memory_limit="{limit}", num_cpus=1)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def use():
    block = libc.malloc(8_000_000)
    ctypes.memset(block, 1, 8_000_000)
    libc.free(block)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def touched_pages(limit: str, **variables: str) -> int:
    known = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(limit=limit)],
        env=known | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return int(done.stdout)


#: Of one block.
PAGES = 8_000_000 // 4096


@pytest.mark.skipif(
    "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="the C library is not glibc"
)
def test_freed_memory_is_used_again() -> None:
    assert touched_pages("4GB") < PAGES // 2


def test_not_more_than_a_share_of_a_small_limit() -> None:
    assert touched_pages("300MB") >= 10 * PAGES


def test_the_users_choice_stays() -> None:
    assert touched_pages("4GB", MALLOC_MMAP_THRESHOLD_="100000") >= 10 * PAGES


def touch(num_bytes: int) -> int:
    """Fills pieces of Arrow's memory, which are free again when it returns the process."""
    import pyarrow as pa

    pieces = [pa.array([bytes(20_000)]) for _ in range(num_bytes // 20_000)]
    del pieces
    return os.getpid()


@pytest.mark.usefixtures("roomy_engine")
def test_idle_workers_keep_no_memory_of_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    fill = xs.remote(touch).options(memory=30_000_000)
    worker = xs.get(fill.remote(1))
    before = private_bytes(worker)
    assert xs.get(fill.remote(20_000_000)) == worker
    poll(lambda: private_bytes(worker) < before + 3_000_000)


def test_the_users_choice_stays_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    assert environment()["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"
