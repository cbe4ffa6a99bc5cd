"""Functions run in processes of their own, whose memory counts: around a limit, and when they have nothing to do."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.conftest import SAMPLE_SECONDS
from tests.memory.test_resident import write_table

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
    """Writes 120 MB."""
    return write_table(tmp_path_factory.mktemp("functions") / "in", FILES, ROWS, 192)


def shared_out_bytes(process: psutil.Process) -> int:
    """Returns the resident memory of a process and its descendants, with shared pages shared out among them.

    A worker shares the libraries and the blocks with the program, so a sum of resident sizes would count them once for
    each.
    """
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        for member in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                total += member.memory_full_info().pss
    return total


@pytest.mark.parametrize("way", WAYS)
def test_around_a_limit_they_stay_within_memory(way: str, source: Path, tmp_path: Path) -> None:
    program = PROGRAM.format(
        limit=LIMIT_BYTES, folder=str(tmp_path), source=str(source), made=WAYS[way]
    )
    command = [sys.executable, "-c", program]
    peak_bytes = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        process = psutil.Process(running.pid)
        while running.poll() is None:
            peak_bytes = max(peak_bytes, shared_out_bytes(process))
            time.sleep(SAMPLE_SECONDS)
        out, err = running.communicate()
    assert running.returncode == 0, err.decode()
    assert int(out) == FILES * ROWS
    assert peak_bytes <= LIMIT_BYTES


IDLE_PROGRAM = """
import exoshuffle as xs
from benchmarks.driver_memory import anonymous_bytes
from exoshuffle.testing.meeting import poll
from tests.worker_processes import worker_processes

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
    """Runs in a program of its own: the memory that earlier tests took would count against the limit."""
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
    peak_bytes = 0
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        process = psutil.Process(running.pid)
        while running.poll() is None:
            peak_bytes = max(peak_bytes, shared_out_bytes(process))
        out, err = running.communicate()
    assert out == b"20000", err.decode()
    assert peak_bytes <= 300_000_000
