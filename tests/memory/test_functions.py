"""Functions run in processes of their own, whose memory counts: around a limit, and when they have nothing to do."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured
from tests.memory.tables import write_table

ROWS, FILES = 300_000, 2
LIMIT_BYTES = 250_000_000
PROGRAM = """
import sys
import exoshuffle as xs

def same(rows):
    return rows

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.read_parquet({source!r})
sys.stdout.write(str({made}.write_parquet({folder!r} + "/out").rows))
"""
#: Functions whose results are many blocks, and functions that read such.
WAYS = {
    "before": "rows.map_batches(same).limit(10**9)",
    "behind": "rows.limit(10**9).map_batches(same)",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 MB."""
    return write_table(tmp_path_factory.mktemp("functions") / "in", FILES, ROWS, 192)


@pytest.mark.parametrize("way", WAYS)
def test_around_a_limit_they_stay_within_memory(way: str, source: Path, tmp_path: Path) -> None:
    program = PROGRAM.format(
        limit=LIMIT_BYTES, folder=str(tmp_path), source=str(source), made=WAYS[way]
    )
    printed, peak_bytes = measured(program)
    assert int(printed) == FILES * ROWS
    assert peak_bytes <= LIMIT_BYTES


#: A limit of which libraries leave too little for workers and groups at once.
TIGHT_BYTES = 235_000_000
AFTER_PROGRAM = """
import sys
import exoshuffle as xs

def same(rows):
    return rows

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
for turn in "ab":
    rows = xs.range(300_000).select(k="id * 7919 % 75000", v="id")
    few = xs.range(1000).map_batches(same).write_parquet({folder!r} + "/few" + turn).rows
    made = {made}.write_parquet({folder!r} + "/out" + turn)
    sys.stdout.write(f"{{few}} {{made.rows}} ")
"""
SHUFFLES = {
    "groups": ("rows.group_by('k').agg(n='count(*)', s='sum(v)', every=('v', 'list'))", 75_000),
    "join": ("rows.join(rows, on='k', strategy='simple').select('k')", 1_200_000),
}


@pytest.mark.parametrize("way", SHUFFLES)
def test_later_shuffles_have_the_memory_of_idle_workers(way: str, tmp_path: Path) -> None:
    made, num_rows = SHUFFLES[way]
    program = AFTER_PROGRAM.format(limit=TIGHT_BYTES, folder=str(tmp_path), made=made)
    out, peak_bytes = measured(program)
    assert out.split() == ["1000", str(num_rows)] * 2
    assert peak_bytes <= TIGHT_BYTES


IDLE_PROGRAM = """
import exoshuffle as xs
from benchmarks.driver_memory import anonymous_bytes
from exoshuffle.testing.meeting import poll
from tests.support.worker_processes import worker_processes

def same(rows):
    return rows

xs.init(memory_limit="500MB", num_cpus=1, spill_dirs=[{folder!r}])
xs.read_parquet({small!r}).map_batches(same).write_parquet({folder!r} + "/first")
(worker,) = worker_processes()
before = anonymous_bytes(worker.pid)
xs.read_parquet({source!r}).map_batches(same).write_parquet({folder!r} + "/out")
poll(lambda: anonymous_bytes(worker.pid) < before + 6_000_000)
"""


def test_idle_they_keep_nothing(source: Path, tmp_path: Path) -> None:
    """In a program of its own: the memory that the tests before this one took would count against the limit."""
    small = write_table(tmp_path / "small", 1, 100, 8)
    program = IDLE_PROGRAM.format(folder=str(tmp_path), small=str(small), source=str(source))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_function_does_not_take_is_not_its_fault(tmp_path: Path) -> None:
    """Workers that wrote 5 MB of 300 columns had 88-100 MB, of which they needed half, and were stopped for it."""
    rng = random.Random(5)
    column = [pa.py_buffer(rng.randbytes(160_000)) for _ in range(300)]
    table = pa.table(
        {
            f"c{n}": pa.Array.from_buffers(pa.int64(), 20_000, [None, one])
            for n, one in enumerate(column)
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    program = """
import sys
import exoshuffle as xs
xs.init(memory_limit="300MB", num_cpus=2, spill_dirs=sys.argv[1])
rows = xs.read_parquet(sys.argv[1] + "/in.parquet").map_batches(lambda batch: batch)
sys.stdout.write(str(rows.sort("c0").write_parquet(sys.argv[1] + "/out").rows))
"""
    printed, peak_bytes = measured(program, str(tmp_path))
    assert printed == "20000"
    assert peak_bytes <= 300_000_000


def test_pandas_is_in_memory_once(tmp_path: Path) -> None:
    """Arrow imports it where it is installed: 36 MB in each worker, for which functions were stopped."""
    package = tmp_path / "path" / "pandas"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"""
import os
with open({str(tmp_path / "imported")!r}, "a") as file:
    file.write(f"{{os.getpid()}} ")
KEPT = b"x" * 36_000_000
"""
    )
    pq.write_table(pa.table({"x": range(1000)}), tmp_path / "in.parquet")
    program = f"""
import os, sys
sys.path.insert(0, {str(package.parent)!r})
import exoshuffle as xs

def converts(batch):
    import pandas, pyarrow as pa
    worker = [os.getpid()] * len(pandas.KEPT[:len(batch)])
    return pa.table({{"x": batch["x"], "worker": pa.array(worker, pa.int64())}})

xs.init(memory_limit="300MB", num_cpus=2, spill_dirs={str(tmp_path)!r})
rows = xs.read_parquet([{str(tmp_path / "in.parquet")!r}] * 4).map_batches(converts)
sys.stdout.write(" ".join(map(str, {{os.getpid(), *rows.sort("x").to_arrow()["worker"].to_pylist()}})))
"""
    out, peak_bytes = measured(program)
    program_and_workers = out.split()
    imported = (tmp_path / "imported").read_text().split()
    assert len(program_and_workers) >= 2
    assert len([pid for pid in imported if pid not in program_and_workers]) == 1
    assert len(imported) <= 2
    assert peak_bytes <= 300_000_000
