"""Arguments of tasks that wait for a CPU are brought from disk while others run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.testing.meeting import PATIENCE_SECONDS, poll

NUM_BYTES = 20_000_000


def test_arguments_are_restored_while_no_cpu_is_free(engine: LocalEngine) -> None:
    begun, release = threading.Semaphore(0), threading.Event()

    def fill() -> Any:
        return xs.allocate_block([0, NUM_BYTES])

    def hold() -> None:
        begun.release()
        release.wait(PATIENCE_SECONDS)

    on_thread = {"executor": "thread"}
    refs = []
    for _ in range(
        6
    ):  # One by one: the first is the oldest then, which is the one that is spilled.
        refs.append(xs.remote(fill, **on_thread).remote())
        xs.wait(refs[-1:])
    assert engine.stats()["spilled_bytes"] > 0
    holding = [xs.remote(hold, **on_thread).remote() for _ in range(engine.num_cpus)]
    for _ in holding:
        begun.acquire()
    restored = engine.stats()["restored_bytes"]
    measured = xs.remote(len, **on_thread).remote(refs[0])
    poll(lambda: engine.stats()["restored_bytes"] >= restored + NUM_BYTES)
    assert xs.wait([measured], timeout=0)[0] == []
    release.set()
    assert xs.get(measured) == NUM_BYTES
    xs.get(holding)


def make_block(num_bytes: int) -> Any:
    return xs.allocate_block([0, num_bytes])


def make_value(num_bytes: int) -> bytes:
    return bytes(num_bytes)


class Occupied:
    """Tasks that occupy all CPUs of an engine until ``release``."""

    def __init__(self, engine: LocalEngine) -> None:
        self._begun, self._free = threading.Semaphore(0), threading.Event()
        hold = xs.remote(self._hold, executor="thread")
        self._holding = [hold.remote() for _ in range(engine.num_cpus)]
        for _ in self._holding:
            self._begun.acquire()

    def _hold(self) -> None:
        self._begun.release()
        self._free.wait(PATIENCE_SECONDS)

    def release(self) -> None:
        """Lets the tasks end."""
        self._free.set()
        xs.get(self._holding)


@pytest.mark.parametrize("make", [make_block, make_value])
@pytest.mark.parametrize("executor", ["thread", "process"])
def test_small_arguments_are_restored_for_many_tasks(
    roomy_engine: LocalEngine, make: Callable[[int], object], executor: str
) -> None:
    small, number = 200_000, 12
    made = [xs.remote(make, executor=executor).remote(small) for _ in range(number)]
    xs.wait(made, num_ready=number)
    large = spilling_the_rest(roomy_engine)
    most = roomy_engine.budget_bytes * 6 // 10
    has_memory, gives_it_back = threading.Event(), threading.Event()

    def keep_memory() -> None:
        has_memory.set()
        gives_it_back.wait(PATIENCE_SECONDS)

    keeping = xs.remote(keep_memory, executor="thread", num_cpus=0, memory=most).remote()
    assert has_memory.wait(PATIENCE_SECONDS)
    occupied = Occupied(roomy_engine)
    restored = roomy_engine.stats()["restored_bytes"]
    # While this task waits for memory, no other is taken: those behind it are then there together.
    first = xs.remote(len, executor="thread", memory=most).remote(made[0])
    lengths = [xs.remote(len, executor="thread").remote(ref) for ref in made]
    gives_it_back.set()
    poll(lambda: roomy_engine.stats()["restored_bytes"] >= restored + number * small)
    assert xs.wait(lengths, num_ready=1, timeout=0)[0] == []
    occupied.release()
    assert xs.get([*lengths, first]) == [small] * (number + 1)
    xs.get(keeping)
    del large


def test_small_arguments_come_one_by_one_where_there_is_no_room_for_all(
    engine: LocalEngine,
) -> None:
    small, number = 400_000, 9
    make = xs.remote(make_block, executor="thread")
    made = [make.remote(small) for _ in range(number)]
    xs.wait(made, num_ready=number)
    begun, free = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        free.wait(PATIENCE_SECONDS)

    room = 2_000_000
    holding = xs.remote(hold, executor="thread", memory=engine.budget_bytes - room).remote()
    assert begun.wait(PATIENCE_SECONDS)
    assert engine.stats()["spilled_bytes"] >= number * small - room
    lengths = [xs.remote(len, executor="thread").remote(ref) for ref in made]
    assert [xs.get(length, timeout=PATIENCE_SECONDS) for length in lengths] == [small] * number
    assert xs.wait([holding], num_ready=1, timeout=0)[0] == []
    free.set()
    xs.get(holding)


def spilling_the_rest(engine: LocalEngine) -> list[xs.Ref]:
    """Makes objects after which none of those before is in memory."""
    fill = xs.remote(make_block, executor="thread")
    num_bytes = engine.budget_bytes // 8
    refs = []
    spilled = engine.stats()["spilled_bytes"]
    while engine.stats()["spilled_bytes"] - spilled < engine.budget_bytes // 2:
        refs.append(fill.remote(num_bytes))
        xs.wait(refs[-1:])
    return refs
