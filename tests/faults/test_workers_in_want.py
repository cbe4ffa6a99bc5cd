"""A task that wants one worker more than there are CPUs does not wait for memory while a worker is idle."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.workers.home import reserved_bytes
from exoshuffle.engines.local.workers.processes import WorkerProcess
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Gate, pass_gate, poll
from tests.support.worker_processes import worker_processes


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine of one CPU and two GPUs, with room for three workers."""
    limit = limits.limit_for(reserved_bytes(3) * 4 // 3 + 1_000_000)
    made = xs.init(memory_limit=limit, spill_dirs=str(tmp_path), num_cpus=1, num_gpus=2)
    assert isinstance(made, LocalEngine)
    yield made
    xs.shutdown()


@pytest.mark.usefixtures("engine")
def test_an_idle_worker_of_another_gpu_makes_way() -> None:
    # It has seen the first GPU, which is taken when the next task comes.
    first = xs.get(xs.remote(os.getpid, num_gpus=1).remote())
    gate = Gate()
    taken = xs.remote(pass_gate, executor="thread", num_cpus=0, num_gpus=1).remote(gate)
    second = xs.get(xs.remote(os.getpid, num_gpus=1).remote(), timeout=PATIENCE_SECONDS)
    assert second != first
    assert [one.pid for one in worker_processes()] == [second]
    gate.open()
    xs.get(taken, timeout=PATIENCE_SECONDS)


def test_a_wait_for_memory_ends_with_an_idle_worker(engine: LocalEngine) -> None:
    pool = engine.pool
    busy = pool.take()
    rest = engine.budget.reserve(engine.budget_bytes)
    got: list[WorkerProcess] = []
    waiting = threading.Thread(target=lambda: got.append(pool.take()))
    waiting.start()
    try:
        poll(lambda: bool(pool._in_want))
        pool.give_back(busy)
        waiting.join(PATIENCE_SECONDS)
        assert got == [busy]
    finally:
        rest.release()
        waiting.join()
        for worker in {*got, busy}:
            pool.give_back(worker)
