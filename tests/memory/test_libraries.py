"""A job within a limit goes as well where all of every library is resident: Linux maps as much as its cache has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_BYTES = 200_000_000
PROGRAM = """
import ctypes
import re
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from pathlib import Path

import exoshuffle as xs

POPULATE_READ = 22
libc = ctypes.CDLL(None, use_errno=True)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def touch_libraries():
    for line in Path("/proc/self/maps").read_text().splitlines():
        part = re.match(r"(\\w+)-(\\w+) r-.p .*[.]so", line)
        if part:
            start, end = (int(number, 16) for number in part.groups())
            libc.madvise(start, end - start, POPULATE_READ)


def resident():
    return int(re.search(r"RssFile:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024


touch_libraries()
before = resident()
path = sys.argv[1]
pa.parquet.write_table(pa.table({"k": list(range(1000)) * 20, "v": range(20_000)}), path)
xs.init(memory_limit=LIMIT, num_cpus=2)
after = resident()
made = xs.read_parquet(path).filter("v % 2 = 0").group_by("k").agg(total=("v", "sum")).to_arrow()
sys.stdout.write(f"{before} {after} {made.num_rows}")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident by file only Linux tells")
def test_all_of_every_library_is_resident(tmp_path: Path) -> None:
    program = PROGRAM.replace("LIMIT", str(LIMIT_BYTES))
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "in.parquet")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    before, after, groups = map(int, done.stdout.split())
    assert groups == 500
    assert after < before / 2
