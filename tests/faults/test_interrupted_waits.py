"""Ctrl-C while the main thread waits, at any moment: the engine's lock and those who wait are as they were before. A
thread that waits for memory waits no longer."""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.tasks.event import Event
from exoshuffle.testing.meeting import PATIENCE_SECONDS, poll

#: Ends no test that succeeds.
TIMEOUT = PATIENCE_SECONDS

Wait = Callable[[xs.Ref, "xs.RefStream"], object]
WAYS: dict[str, Wait] = {
    "get": lambda ref, _: xs.get(ref, timeout=TIMEOUT),
    "wait": lambda ref, _: xs.wait([ref], timeout=TIMEOUT),
    "next": lambda _, stream: stream.next(timeout=TIMEOUT),
    "slice_bytes": lambda ref, _: xs.slice_bytes([ref]),
}


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """An interrupt in a callback of the garbage collector, as Hypothesis has one, is lost."""
    gc.disable()
    yield
    gc.enable()


#: Too large to be kept beside the store.
LARGE = bytes(1_000_000)
#: Calls that wait for memory: that of a value that has to be read, and that of the first worker process.
STARVING: dict[str, Callable[[xs.Ref], object]] = {
    "get": xs.get,
    "submit": lambda _: xs.remote(len).remote(LARGE),
}


class World:
    """An engine with a task and a stream that bring nothing before the gate is open."""

    def __init__(self, engine: LocalEngine, gate: threading.Event) -> None:
        def item() -> Iterator[int]:
            gate.wait()
            yield 1

        self.engine = engine
        self.ref = xs.remote(gate.wait, executor="thread").remote()
        self.stream = xs.remote(item, executor="thread", num_returns="streaming").remote()

    def num_waiting(self) -> int:
        """Places taken among those who wait."""
        return len(self.ref._object.waiters) + len(self.engine.table.waiters)


@pytest.fixture
def world(engine: LocalEngine) -> Iterator[World]:
    gate = threading.Event()
    made = World(engine, gate)
    yield made
    gate.set()
    assert xs.get(made.ref, timeout=TIMEOUT) is True
    assert [xs.get(item) for item in made.stream] == [1]


@pytest.fixture
def interrupts() -> Iterator[list[int]]:
    """Makes the alarm signal what Ctrl-C is; has an entry for each that came."""
    found: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        found.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield found
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def contention(engine: LocalEngine) -> Iterator[None]:
    """Another thread that takes the engine's lock all the time."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            with engine.table.lock:
                pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(20e-6)
    thread = threading.Thread(target=work)
    thread.start()
    yield
    ended.set()
    thread.join()
    sys.setswitchinterval(interval)


@pytest.fixture
def on_disk(engine: LocalEngine) -> Iterator[xs.Ref]:
    """A value on disk; all of the memory is a task's until the test has ended."""
    begun, gate = threading.Event(), threading.Event()

    def occupy() -> bool:
        begun.set()
        return gate.wait(TIMEOUT)

    value = xs.put(LARGE)
    task = xs.remote(occupy, executor="thread", memory=engine.budget.room_bytes).remote()
    assert begun.wait(TIMEOUT)
    yield value
    assert xs.wait([task], timeout=0) == ([], [task]), "who waits has waited for the task to end"
    gate.set()
    assert xs.get(task)
    assert xs.get([value, xs.remote(len).remote(LARGE)]) == [LARGE, len(LARGE)]


def assert_free(lock: threading.Lock) -> None:
    assert lock.acquire(timeout=TIMEOUT)
    lock.release()


@pytest.mark.usefixtures("interrupts", "contention")
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_at_any_moment(world: World, way: str) -> None:
    seed = 20_261
    moments = random.Random(seed)
    for round_ in range(500):
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  nothing may come between the two
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-6, 300e-6))
            WAYS[way](world.ref, world.stream)
        assert_free(world.engine.table.lock)
        assert world.num_waiting() == 0, (seed, round_)


@pytest.mark.parametrize("way", WAYS)
def test_interrupts_while_another_thread_has_the_lock(
    world: World, interrupts: list[int], way: str
) -> None:
    main = threading.main_thread().ident
    assert main is not None
    has_left = threading.Event()
    errors: list[str] = []

    def disturb() -> None:
        poll(lambda: world.num_waiting() == 1)
        with world.engine.table.lock:
            # The first ends the wait, the second comes while it wants the lock back.
            for count in range(2):
                poll(lambda: len(interrupts) >= count)  # noqa: B023  called at once
                signal.pthread_kill(main, signal.SIGALRM)
            has_left.wait(TIMEOUT)
            if not world.engine.table.lock.locked():
                errors.append("somebody else has released the lock")

    thread = threading.Thread(target=disturb)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        WAYS[way](world.ref, world.stream)
    has_left.set()
    thread.join()
    assert errors == []
    assert len(interrupts) == 2
    assert_free(world.engine.table.lock)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("way", STARVING)
def test_an_interrupt_while_there_is_no_memory(on_disk: xs.Ref, way: str) -> None:
    moments = random.Random(20_262)
    for _ in range(10):
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  nothing may come between the two
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-3, 200e-3))
            STARVING[way](on_disk)


def test_a_bell_keeps_one_ring() -> None:
    event = Event()
    event.set()
    event.set()
    event.wait(TIMEOUT)
    assert event._unset.locked()
