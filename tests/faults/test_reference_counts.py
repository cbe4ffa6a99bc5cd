"""Objects go with their last reference, whoever held it, and without garbage collection: cases that once did not."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import TaskError
from exoshuffle.futures import ActorHandle
from exoshuffle.testing.meeting import Counter, Gate, await_count, helper, poll
from exoshuffle.testing.programs import big, double

LARGE = 300_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine with room for workers; afterwards its idle workers hold nothing, and nothing is stored."""
    # Whatever pytest has resident.
    limit = limits.limit_for(300_000_000)
    made = xs.init(memory_limit=limit, spill_dirs=str(tmp_path), num_cpus=2)
    assert isinstance(made, LocalEngine)
    gc.collect()
    gc.disable()
    try:
        yield made
        poll(lambda: made.stats()["num_blocks"] == 0)
        assert [worker._lent for worker in made.pool._all if worker._lent] == []
    finally:
        gc.enable()
        xs.shutdown()


def in_a_container() -> None:
    measure = xs.remote(lambda inside: len(xs.get(inside["ref"][0])))
    assert xs.get(measure.remote({"ref": [xs.put(bytes(LARGE))]})) == LARGE


def closed_over() -> None:
    def measure(ref: xs.Ref) -> xs.Ref:
        task: xs.Ref = xs.remote(lambda: len(xs.get(ref))).remote()
        return task

    task = measure(xs.put(bytes(LARGE)))
    assert xs.get(task) == LARGE
    # The result is still wanted, what it was made of is not.
    poll(lambda: xs.futures.current_engine().stats()["num_blocks"] == 0)
    assert xs.get(task) == LARGE


def closed_over_in_a_worker() -> None:
    def outer() -> int:
        ref = xs.put(bytes(LARGE))
        return int(xs.get(xs.remote(lambda: len(xs.get(ref))).remote()))

    assert xs.get(xs.remote(outer).remote()) == LARGE


def returned() -> None:
    inner = xs.get(xs.remote(lambda: [xs.put(bytes(LARGE)), xs.remote(big).remote(1)]).remote())
    assert [len(value) for value in xs.get(inner)] == [LARGE, 1_000_000]


def returned_again() -> None:
    back = xs.remote(lambda inside: inside).remote([xs.put(bytes(LARGE))])
    assert xs.get(xs.get(back)[0]) == bytes(LARGE)


def held_by_a_task_that_fails() -> None:
    def fail(inside: list[xs.Ref]) -> None:
        mine, block = xs.put(bytes(LARGE)), xs.allocate_block([0, LARGE])
        with memoryview(block) as view:
            view[:] = xs.get(inside[0])
            raise ValueError(repr(mine))

    with pytest.raises(TaskError):
        xs.get(xs.remote(fail).remote([xs.put(bytes(LARGE))]))


def held_by_an_actor() -> None:
    class Keeper:
        def keep(self, inside: list[xs.Ref]) -> None:
            self.kept = inside

    keeper = xs.remote(Keeper).remote()
    xs.get(keeper.keep.remote([xs.put(bytes(LARGE))]))


def kept_by_a_chain_of_actors() -> None:
    """Each knows the next, and has called it."""

    class Link:
        def hold(self, ref: xs.Ref, others: list[ActorHandle]) -> int:
            self.held, self.others = ref, others
            return 1 + sum(xs.get(other.hold.remote([ref], [])) for other in others)

    links = [xs.remote(Link).remote() for _ in range(2)]
    assert xs.get(links[0].hold.remote([xs.put(bytes(LARGE))], links[1:])) == 2


def called_by_a_task_on_a_thread() -> None:
    """The task knows the actor, and the actor's last call the task."""
    counter = helper(Counter)
    add = xs.remote(lambda counter: xs.get(counter.add.remote()), executor="thread")
    assert xs.get(add.remote(counter)) == 1


def endless(executor: str) -> Callable[[], None]:
    def run() -> None:
        def produce() -> Iterator[bytes]:
            while True:
                yield bytes(LARGE)

        stream = xs.remote(produce, num_returns="streaming", executor=executor).remote()
        assert len(xs.get(next(stream))) == LARGE

    return run


def endless_in_a_worker() -> None:
    """Dropped by a task that says nothing more."""

    def outer() -> list[int]:
        def produce() -> Iterator[bytes]:
            while True:
                yield bytes(LARGE)

        stream = xs.remote(produce, num_returns="streaming").remote()
        return [len(xs.get(next(stream))) for _ in range(3)]

    assert xs.get(xs.remote(outer).remote()) == [LARGE] * 3


def held_by_a_worker_that_dies() -> None:
    def die(_mapped: Any, inside: list[xs.Ref]) -> Any:
        block, mine = xs.allocate_block([0, LARGE]), xs.put(bytes(LARGE))
        os.kill(os.getpid(), signal.SIGKILL)
        return block, mine, inside

    data = xs.put(bytearray(LARGE))
    with pytest.raises(TaskError):
        xs.get(xs.remote(die, max_retries=0).remote(data, [data]))


def cancelled_while_it_runs() -> None:
    def wait(gate: Gate, inside: list[xs.Ref]) -> Any:
        block = xs.allocate_block([0, LARGE])
        gate.await_opening()
        return block if inside else None

    gate = Gate()
    task = xs.remote(wait).remote(gate, [xs.put(bytes(LARGE))])
    gate.await_arrivals(1)
    assert xs.cancel(task)


def cancelled_before_it_runs() -> None:
    gate, token = Gate(), helper(Counter)

    def first() -> None:
        xs.get(token.add.remote())
        gate.await_opening()

    hold = [xs.remote(first).remote() for _ in range(2)]
    await_count(token, 2)
    later = xs.remote(double).remote(xs.put(bytes(LARGE)))
    assert xs.cancel(later)
    gate.open()
    xs.get(hold)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "program",
    [
        in_a_container,
        closed_over,
        closed_over_in_a_worker,
        returned,
        returned_again,
        held_by_a_task_that_fails,
        held_by_an_actor,
        kept_by_a_chain_of_actors,
        called_by_a_task_on_a_thread,
        pytest.param(endless("process"), id="endless"),
        pytest.param(endless("thread"), id="endless_on_a_thread"),
        endless_in_a_worker,
        held_by_a_worker_that_dies,
        cancelled_while_it_runs,
        cancelled_before_it_runs,
    ],
)
def test_nothing_is_left(program: Callable[[], None]) -> None:
    program()
