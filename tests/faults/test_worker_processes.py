"""Worker processes and the system: what tasks do to them, what they share, and how many there may be."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import exoshuffle as xs
from benchmarks.driver_memory import anonymous_bytes
from exoshuffle.engines.local import LocalEngine, limits, pool, processes
from exoshuffle.engines.local.pool import WORKER_BYTES
from exoshuffle.engines.local.processes import WorkerProcess
from exoshuffle.errors import MemoryLimitError, ProtocolError, TaskError, WorkerDiedError
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, Gate, Log, helper, pass_gate
from exoshuffle.testing.programs import Servant, double, nest
from tests.faults import programs
from tests.faults.leftovers import checked_engine
from tests.faults.programs import Wrapped, payload

#: Workers that the engine of these tests has room for.
NUM_WORKERS = 3


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine with room for three workers; checks that nothing is left."""
    with checked_engine(NUM_WORKERS * WORKER_BYTES * 4 // 3 + 1_000_000, tmp_path) as made:
        yield made


def assert_workers_work() -> None:
    tasks = [xs.remote(double, max_retries=0).remote(number) for number in range(4)]
    assert [xs.get(task, timeout=PATIENCE_SECONDS) for task in tasks] == [0, 2, 4, 6]


# --- what tasks do --------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_a_task_that_closes_the_connection_has_died() -> None:
    with pytest.raises(TaskError) as caught:
        xs.get(xs.remote(programs.close_everything, max_retries=0).remote())
    assert isinstance(caught.value.__cause__, WorkerDiedError)
    assert_workers_work()


@pytest.mark.usefixtures("engine")
def test_forked_processes_are_no_workers() -> None:
    assert xs.get(xs.remote(programs.fork_and_use_the_engine).remote()) == "EngineError"
    assert xs.get(xs.remote(programs.fork_and_return).remote()) == 5
    assert_workers_work()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("how", ["fork", "start"])
def test_children_of_a_dead_worker_do_not_hide_its_death(how: str) -> None:
    pids = helper(Log)
    task = xs.remote(programs.leave_a_child_and_die, max_retries=0).remote(how, pids)
    try:
        with pytest.raises(TaskError) as caught:
            xs.get(task, timeout=PATIENCE_SECONDS)
    finally:
        for pid in xs.get(pids.items.remote()):
            os.kill(pid, signal.SIGKILL)
    assert isinstance(caught.value.__cause__, WorkerDiedError)


@pytest.mark.usefixtures("engine")
def test_what_is_cancelled_as_it_ends_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    run, cancelled = WorkerProcess.run, []

    def run_and_be_cancelled(self: WorkerProcess, task: Any, *args: Any) -> Any:
        stored = run(self, task, *args)
        if task.name == "victim":
            cancelled.append(xs.cancel(victim))
        return stored

    monkeypatch.setattr(WorkerProcess, "run", run_and_be_cancelled)
    gate = Gate()
    victim = xs.remote(pass_gate, name="victim").remote(gate)
    gate.open()
    with contextlib.suppress(xs.errors.TaskCancelledError):
        xs.get(victim, timeout=PATIENCE_SECONDS)
    assert_workers_work()
    assert cancelled == [True]


# --- what they share ------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_what_a_task_gets_cannot_be_written() -> None:
    data = xs.put(Wrapped(payload(3, 1_000_000)))
    told = xs.get(xs.remote(programs.write_to).remote(data))
    assert told == "cannot modify read-only memory"
    with pytest.raises(TaskError, match="SIGSEGV"):
        xs.get(xs.remote(programs.write_behind_pythons_back, max_retries=0).remote(data))
    assert bytes(xs.get(data).data) == payload(3, 1_000_000)


def own_bytes(members: Sequence[int | str]) -> int:
    """What processes have for themselves."""
    return sum(map(anonymous_bytes, members))


def test_readers_in_two_processes_share_memory(tmp_path: Path) -> None:
    size = 100_000_000
    # Room for the object and its source, whatever pytest has resident.
    limit = limits.limit_for(3 * size + NUM_WORKERS * WORKER_BYTES)
    xs.init(memory_limit=limit, spill_dirs=str(tmp_path), num_cpus=2)
    readers = [xs.remote(programs.Reader).remote() for _ in range(2)]
    members = ["self", *xs.get([reader.process.remote() for reader in readers])]
    data = Wrapped(payload(5, size))
    ref, checksum = xs.put(data), zlib.crc32(data.data)
    del data
    own, resident = (
        own_bytes(members),
        [psutil.Process(pid).memory_info().rss for pid in members[1:]],
    )
    assert xs.get([reader.read.remote(ref) for reader in readers]) == [checksum] * 2
    # All of it is resident in both, and none of it is theirs alone.
    for pid, before in zip(members[1:], resident, strict=True):
        assert psutil.Process(pid).memory_info().rss - before > 0.9 * size
    assert own_bytes(members) - own < size // 10
    xs.shutdown()


# --- how many there may be ------------------------------------------------------------------------


def test_more_nested_tasks_than_workers_fail(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_STANDSTILL_SECONDS", 0.3)
    assert xs.get(xs.remote(nest).remote(NUM_WORKERS - 1)) == NUM_WORKERS - 1
    with pytest.raises(TaskError, match="room for 3") as caught:
        xs.get(xs.remote(nest).remote(NUM_WORKERS), timeout=PATIENCE_SECONDS)
    cause: BaseException | None = caught.value
    while isinstance(cause, TaskError):
        cause = cause.__cause__
    assert isinstance(cause, MemoryLimitError)
    assert len(engine.pool._all) <= NUM_WORKERS
    assert_workers_work()


@pytest.mark.usefixtures("engine")
def test_actors_that_take_all_workers_and_wait_for_tasks_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "_STANDSTILL_SECONDS", 0.3)
    servants = [xs.remote(Servant).remote() for _ in range(NUM_WORKERS)]
    with pytest.raises(TaskError, match="room for 3"):
        xs.get(servants[0].by_task.remote(4), timeout=PATIENCE_SECONDS)
    del servants[1:]
    assert xs.get(servants[0].by_task.remote(4), timeout=PATIENCE_SECONDS) == 8


@pytest.mark.usefixtures("engine")
def test_waiting_for_threads_is_no_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_STANDSTILL_SECONDS", 0.5)
    counter = helper(Counter)

    def report(number: int) -> int:
        # All workers wait nearly all of the time, and a task for one of them: longer than a standstill may last.
        begun = time.monotonic()
        while time.monotonic() - begun < 1:
            xs.get(counter.add.remote())
        return number

    numbers = list(range(2 * NUM_WORKERS))
    assert xs.get([xs.remote(report).remote(number) for number in numbers]) == numbers


# --- versions -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_a_worker_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(processes, "PROTOCOL", -1)
        with pytest.raises(TaskError, match="protocol -1") as caught:
            xs.get(xs.remote(double).remote(1))
    assert isinstance(caught.value.__cause__, ProtocolError)
    assert psutil.Process().children() == []
    assert_workers_work()
