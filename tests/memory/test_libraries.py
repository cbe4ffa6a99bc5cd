"""A job within a limit works also where all of every library is resident: Linux maps as much as its cache has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

LIMIT_BYTES = 220_000_000
TOUCHING = """
import ctypes
import re
import sys

from pathlib import Path

import exoshuffle as xs

POPULATE_READ = 22
libc = ctypes.CDLL(None, use_errno=True)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def touch_libraries():
    for line in Path("/proc/self/maps").read_text().splitlines():
        part = re.match(r"(\\w+)-(\\w+) r-.p .*(?:arrow|duckdb|_native).*[.]so", line)
        if part:
            start, end = (int(number, 16) for number in part.groups())
            libc.madvise(start, end - start, POPULATE_READ)


def resident():
    return int(re.search(r"RssFile:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

"""
LOADING = """
import duckdb
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

"""
PROGRAM = """
touch_libraries()
before = resident()
path = sys.argv[1]
pa.parquet.write_table(pa.table({"k": list(range(1000)) * 20, "v": range(20_000)}), path)
xs.init(memory_limit=LIMIT, num_cpus=2)
after = resident()
made = xs.read_parquet(path).filter("v % 2 = 0").group_by("k").agg(total=("v", "sum")).to_arrow()
sys.stdout.write(f"{before} {after} {made.num_rows}")
"""


#: The libraries are loaded, and had the program beyond the limit for a moment, before that is refused.
REFUSED = """
# Again and again: what is released before the guard has looked was not seen.
while xs.futures.current_engine().guard.peak()[0] <= LIMIT * 1.02:
    touch_libraries()
try:
    xs.read_parquet(sys.argv[1]).group_by("k").agg(n="count").to_arrow()
except xs.errors.MemoryLimitError as error:
    sys.stdout.write(str(error))
xs.shutdown()
"""

only_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="what is resident by file only Linux tells"
)


def printed(program: str, limit_bytes: int, path: Path) -> str:
    program = program.replace("LIMIT", str(limit_bytes))
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@only_linux
def test_all_of_every_library_is_resident(tmp_path: Path) -> None:
    out = printed(TOUCHING + LOADING + PROGRAM, LIMIT_BYTES, tmp_path / "in.parquet")
    before, after, groups = map(int, out.split())
    assert groups == 500
    assert after < before / 2


@only_linux
def test_loading_libraries_is_nothing_that_the_program_keeps(tmp_path: Path) -> None:
    """Checks for no warning behind the error; there was one, of a table that the program keeps."""
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "in.parquet")
    starting = "xs.init(memory_limit=LIMIT, num_cpus=2)\n"
    out = printed(TOUCHING + starting + LOADING + REFUSED, 150_000_000, tmp_path / "in.parquet")
    assert "memory limit 150 MB is too small" in out
