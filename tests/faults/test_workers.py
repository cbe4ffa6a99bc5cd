"""kill -9 of worker processes, at every moment: results are exact, or the error is there at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.workers.home import reserved_bytes
from exoshuffle.errors import ActorDiedError, TaskError, WorkerDiedError
from exoshuffle.strategies import Push, Simple, Strategy
from exoshuffle.testing import assert_every_row_arrives
from exoshuffle.testing.meeting import PATIENCE_SECONDS, poll
from exoshuffle.testing.programs import Mortal, double
from tests.faults import programs
from tests.faults.fuzz import has_ended
from tests.faults.leftovers import checked_engine
from tests.faults.programs import Spot, Wrapped, payload
from tests.support.worker_processes import worker_processes

DATA = payload(7, 2_000_000)
PHASES = [
    programs.stop_running,
    programs.stop_reading,
    programs.stop_in_get,
    programs.stop_filling,
]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine with room for six workers; checks that nothing is left, by the engine or by its workers."""
    with checked_engine(reserved_bytes(6) * 4 // 3 + 10_000_000, tmp_path) as made:
        yield made


def children() -> list[int]:
    """The workers, in the order in which they started."""
    return [worker.pid for worker in worker_processes()]


def servers() -> list[int]:
    """The servers that workers are forked from."""
    return [server.pid for server in psutil.Process().children()]


def await_end(pid: int) -> None:
    poll(lambda: has_ended(pid))


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    await_end(pid)


def as_bytes(value: Any) -> bytes:
    return bytes(memoryview(value))


# --- one task -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("phase", PHASES)
def test_a_task_that_is_killed_runs_again(phase: Callable[..., Any]) -> None:
    spot, data = Spot(), xs.put(Wrapped(DATA))
    result = xs.remote(phase).remote(spot, [data])
    kill(spot.process())
    spot.open()
    assert as_bytes(xs.get(result, timeout=PATIENCE_SECONDS)) == DATA
    assert as_bytes(xs.get(data).data) == DATA


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("phase", PHASES)
def test_a_task_without_retries_fails_at_once(phase: Callable[..., Any]) -> None:
    spot, data = Spot(), xs.put(Wrapped(DATA))
    result = xs.remote(phase, max_retries=0, name="victim").remote(spot, [data])
    kill(spot.process())
    # Nobody has opened the gate: this is not the end of what the task waited for.
    with pytest.raises(TaskError, match="task victim failed in attempt 1") as caught:
        xs.get(result, timeout=PATIENCE_SECONDS)
    assert isinstance(caught.value.__cause__, WorkerDiedError)
    assert "SIGKILL" in str(caught.value)
    spot.open()
    assert as_bytes(xs.get(data).data) == DATA


def test_a_worker_that_was_killed_while_idle_costs_nothing(engine: LocalEngine) -> None:
    run = xs.remote(double, max_retries=0)
    assert xs.get(run.remote(1)) == 2
    for pid in children():
        kill(pid)
    assert xs.get([run.remote(number) for number in range(5)]) == [0, 2, 4, 6, 8]
    assert len(engine.pool._all) == len(children())


@pytest.mark.usefixtures("engine")
def test_a_worker_that_was_killed_a_moment_ago_costs_an_attempt() -> None:
    run = xs.remote(double)
    for number in range(8):
        assert xs.get(run.remote(number)) == 2 * number
        for pid in children():
            os.kill(pid, signal.SIGKILL)


@pytest.mark.usefixtures("engine")
def test_a_fork_server_that_is_killed_while_it_starts_costs_nothing() -> None:
    result = xs.remote(double, max_retries=0).remote(4)
    poll(lambda: bool(servers()))
    # It imports our package for longer than it takes to see that it is there.
    kill(servers()[0])
    assert xs.get(result, timeout=PATIENCE_SECONDS) == 8


@pytest.mark.usefixtures("engine")
def test_a_generator_that_is_killed_yields_every_item_once() -> None:
    spot = Spot()
    stream = xs.remote(programs.stop_yielding, num_returns="streaming").remote(spot, 6)
    first = [next(stream), next(stream)]
    kill(spot.process())
    spot.open()
    assert [xs.get(ref) for ref in [*first, *stream]] == [payload(i, 300_000) for i in range(6)]


@pytest.mark.usefixtures("engine")
def test_a_generator_without_retries_ends_after_the_items_made() -> None:
    spot = Spot()
    generate = xs.remote(programs.stop_yielding, num_returns="streaming", max_retries=0)
    stream = generate.remote(spot, 6)
    kill(spot.process())
    items = [xs.get(next(stream)) for _ in range(3)]
    assert items == [payload(i, 300_000) for i in range(3)]
    with pytest.raises(TaskError) as caught:
        stream.next(timeout=PATIENCE_SECONDS)
    assert isinstance(caught.value.__cause__, WorkerDiedError)
    spot.open()


# --- actors ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("restarts", [0, 1])
def test_an_actor_that_is_killed_while_idle(restarts: int) -> None:
    actor = xs.remote(Mortal, max_restarts=restarts).remote()
    kept, pid = actor.make.remote(3), xs.get(actor.process.remote())
    kill(pid)
    if restarts:
        assert xs.get(actor.call.remote(), timeout=PATIENCE_SECONDS) == 1
        assert xs.get(actor.process.remote()) != pid
    else:
        with pytest.raises(ActorDiedError):
            xs.get(actor.call.remote(), timeout=PATIENCE_SECONDS)
    assert len(xs.get(kept)) == 1_000_000


@pytest.mark.usefixtures("engine")
def test_what_a_dead_actor_kept_goes_with_it() -> None:
    keeper = xs.remote(programs.Keeper).remote()
    ours = xs.put(payload(1, 300_000))
    xs.get(keeper.keep.remote([ours, xs.put(payload(2, 300_000))]))
    kept = xs.get(keeper.give.remote())
    kill(xs.get(keeper.process.remote()))
    with pytest.raises(ActorDiedError):
        xs.get(keeper.give.remote(), timeout=PATIENCE_SECONDS)
    # An object that others refer to as well does not.
    assert [xs.get(ref) for ref in kept] == [payload(seed, 300_000) for seed in (1, 2)]
    assert xs.get(ours) == payload(1, 300_000)


# --- many tasks -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "strategy",
    [Simple(), Push(), Push(keep_map_outputs=True)],
    ids=["simple", "push*", "push"],
)
def test_a_shuffle_whose_workers_are_killed(strategy: Strategy) -> None:
    tasks = programs.MortalTasks(9)
    assert_every_row_arrives(strategy, 20, 9, tasks)
    assert xs.get(tasks.deaths.count.remote()) >= 8
