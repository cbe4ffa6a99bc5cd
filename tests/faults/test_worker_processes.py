"""Worker processes and the system: what tasks do to them, what they share, and how many there may be."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pyarrow as pa
import pytest

import exoshuffle as xs
from benchmarks.driver_memory import anonymous_bytes
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.workers import pool, processes
from exoshuffle.engines.local.workers.home import reserved_bytes
from exoshuffle.engines.local.workers.processes import WorkerProcess
from exoshuffle.errors import MemoryLimitError, ProtocolError, TaskError, WorkerDiedError
from exoshuffle.futures import slice_bytes
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, Gate, Log, helper, pass_gate, poll
from exoshuffle.testing.programs import Servant, double, fill, nest, positions
from tests.faults import programs
from tests.faults.leftovers import checked_engine
from tests.faults.programs import Wrapped, payload
from tests.support.worker_processes import worker_processes

#: Workers that the engine of these tests has room for.
NUM_WORKERS = 3


class Keeper:
    """An actor that returns what it gets."""

    def again(self, value: Any) -> Any:
        return value


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine with room for three workers; checks that nothing is left."""
    with checked_engine(reserved_bytes(NUM_WORKERS) * 4 // 3 + 1_000_000, tmp_path) as made:
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
    assert xs.get(xs.remote(programs.fork_and_use_the_engine).remote()) == "ForkedEngineError"
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


def test_what_is_cancelled_as_it_ends_harms_no_other(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, cancelled = WorkerProcess.run, []

    def run_and_be_cancelled(self: WorkerProcess, task: Any, *args: Any) -> Any:
        stored = run(self, task, *args)
        if task.name == "victim":
            cancelled.append(xs.cancel(victim))
        return stored

    monkeypatch.setattr(WorkerProcess, "run", run_and_be_cancelled)
    gate = Gate()
    victim = xs.remote(pass_gate, name="victim").remote(gate, payload(1, 300_000))
    gate.open()
    # It was said to be, so the result that came all the same is dropped.
    with pytest.raises(xs.errors.TaskCancelledError):
        xs.get(victim, timeout=PATIENCE_SECONDS)
    # The error may come before the answer.
    poll(lambda: cancelled == [True])
    poll(lambda: engine.stats()["num_blocks"] == 0)
    assert_workers_work()


def test_what_waits_for_a_worker_can_be_cancelled(engine: LocalEngine) -> None:
    gate = Gate()
    servants = [xs.remote(Servant).remote() for _ in range(NUM_WORKERS)]
    xs.get([servant.names.remote("n", 1) for servant in servants])
    waiting = xs.remote(pass_gate).remote(gate)
    poll(lambda: [task.name for _, task, _ in engine._scheduler.now_running()] == ["pass_gate"])
    assert xs.cancel(waiting)
    with pytest.raises(xs.errors.TaskCancelledError):
        xs.get(waiting, timeout=0)
    # Nobody waits for a worker any more, not even until there is one.
    poll(engine._scheduler.is_idle)
    del servants[1:]
    assert_workers_work()


def test_what_a_worker_is_started_for_can_be_cancelled(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet, starting, go_on, log = WorkerProcess.greet, Event(), Event(), helper(Log)

    def greet_late(self: WorkerProcess) -> None:
        starting.set()
        assert go_on.wait(PATIENCE_SECONDS)
        greet(self)

    monkeypatch.setattr(WorkerProcess, "greet", greet_late)
    unwanted = xs.remote(lambda log: xs.get(log.append.remote("begun"))).remote(log)
    assert starting.wait(PATIENCE_SECONDS)
    assert xs.cancel(unwanted)
    go_on.set()
    with pytest.raises(xs.errors.TaskCancelledError):
        xs.get(unwanted, timeout=0)
    poll(engine._scheduler.is_idle)
    (worker,) = engine.pool._all
    # It was not used, and is kept for the next.
    assert worker.is_alive
    assert engine.pool._idle == [worker]
    assert xs.get(log.items.remote()) == []
    assert_workers_work()


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
    """The memory that processes have for themselves."""
    return sum(map(anonymous_bytes, members))


def test_readers_in_two_processes_share_memory(tmp_path: Path) -> None:
    size = 100_000_000
    # Room for the object and its source, whatever pytest has resident.
    limit = limits.limit_for(3 * size + reserved_bytes(NUM_WORKERS))
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


def same(value: Any) -> Any:
    return value


def address_of(table: pa.Table) -> int:
    address: int = table["number"].chunk(0).buffers()[1].address
    return address


def test_arrow_that_comes_back_as_it_went_is_not_copied(tmp_path: Path) -> None:
    table = pa.table({"number": pa.array(range(12_500_000), pa.int64())})
    # A list of two such tables is pickled, in the worker's own memory.
    limit = limits.limit_for(5 * table.nbytes + reserved_bytes(NUM_WORKERS))
    engine = xs.init(memory_limit=limit, spill_dirs=str(tmp_path), num_cpus=2)
    ref = xs.put(table)
    used = engine.stats()["used_blocks_bytes"]
    back, keep = ref, xs.remote(same)
    for _ in range(3):
        back = keep.remote(back)
    address = address_of(xs.get(ref))
    del ref
    for value in (xs.get(back), xs.get(back[0]), *xs.get(back[:1])):
        assert address_of(value) == address
    assert xs.get(back[:0]) == []
    assert xs.get(xs.remote(len).remote([back])) == 1
    assert [len(one) for one in xs.get(keep.remote(xs.Refs([back, back])))] == [len(table)] * 2
    assert xs.get(xs.remote(lambda one: one.nbytes).remote(back[0])) == table.nbytes
    (measured,) = slice_bytes([back])
    assert measured[0] >= table.nbytes
    keeper = xs.remote(Keeper).remote()
    assert address_of(xs.get(keeper.again.remote(back))) == address
    assert (engine.stats()["used_blocks_bytes"], engine.stats()["spilled_bytes"]) == (used, 0)
    del back, value
    assert engine.stats()["num_objects"] == 0
    xs.shutdown()


@pytest.mark.usefixtures("engine")
def test_what_can_have_changed_is_another_object() -> None:
    numbers = xs.put(pa.table({"number": pa.array(range(30_000), pa.int64())}))
    shorter = xs.remote(lambda table: table.slice(1)).remote(numbers)
    assert xs.get(shorter)["number"].to_pylist() == list(range(1, 30_000))

    def change(inside: Wrapped) -> Wrapped:
        inside.data = bytes(2)
        return inside

    assert xs.get(xs.remote(change).remote(xs.put(Wrapped(payload(1, 300_000))))).data == bytes(2)
    with pytest.raises(TaskError, match="returned 1 value; num_returns is 2"):
        xs.get(xs.remote(same, num_returns=2).remote(numbers))


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
    assert worker_processes() == []
    assert_workers_work()


def test_a_block_that_memory_has_no_room_for_comes_piece_by_piece(engine: LocalEngine) -> None:
    size = 2_500_000
    assert_workers_work()
    kept = engine.pool.hold()
    held = engine.budget.reserve(engine.budget.room_bytes - 1_000_000)
    try:
        block = xs.remote(fill, max_retries=0).remote([0, size])
        xs.wait([block], timeout=PATIENCE_SECONDS)
        assert engine.stats()["fallback_bytes"] >= size
    finally:
        del held
        kept.release()
    assert bytes(xs.get(block, timeout=PATIENCE_SECONDS)) == positions(0, size)
