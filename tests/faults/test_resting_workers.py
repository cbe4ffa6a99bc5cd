"""Workers take no more processor time than their tasks: between tasks they rest, and they import what tasks use."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs

#: The thread of a worker that looks at its memory, as the system names it.
LOOKING = "exoshuffle-idle"


def wakes(process: int) -> int:
    """How often the thread that looks at the worker's memory has begun to wait."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        if (thread / "comm").read_text().strip() == LOOKING:
            lines = (thread / "status").read_text().splitlines()
            (found,) = (line for line in lines if line.startswith("voluntary_ctxt_switches:"))
            return int(found.split()[1])
    raise AssertionError(f"process {process} has no thread {LOOKING}")


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of the threads of others")
@pytest.mark.usefixtures("engine")
def test_nobody_looks_at_the_memory_of_a_worker_between_tasks() -> None:
    worker = xs.get(xs.remote(pid_after).remote(0.2))
    time.sleep(0.5)
    resting = wakes(worker)
    time.sleep(0.5)
    assert wakes(worker) - resting <= 2
    # The next task is looked after again.
    ran = xs.get(xs.remote(pid_after).remote(0.5))
    assert ran == worker
    assert wakes(worker) - resting > 10


def with_modules(_: pa.Table) -> pa.Table:
    return pa.table({"module": list(sys.modules)})


@pytest.mark.usefixtures("engine")
def test_workers_have_the_modules_of_tasks_and_not_those_of_programs() -> None:
    rows = xs.from_pydict({"a": [1, 2, 3]}).filter("a > 1").map_batches(with_modules)
    modules = set(rows.to_pydict()["module"])
    assert "exoshuffle.operators.steps.functions" in modules
    programs = {"exoshuffle.dataset.names", "exoshuffle.dataset.dataset", "exoshuffle.dataset.read"}
    assert not programs & modules
