"""Memory that the program itself keeps, and waits for: an error instead of a wait without end, and only then."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import helpless
from exoshuffle.errors import MemoryLimitError, TaskError
from exoshuffle.testing.meeting import PATIENCE_SECONDS

#: Four fit into the budget of the small engine, five do not.
BYTES = 20_000_000
FITTING = 4


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpless, "ALONE_SECONDS", 0.3)
    monkeypatch.setattr(helpless, "_SURE_SECONDS", 0.3)


def blocks(count: int) -> list[xs.Ref]:
    """Values that are read where they lie."""
    return [xs.put(pa.py_buffer(bytearray([number]) * BYTES)) for number in range(count)]


@xs.remote(executor="thread")
def size(data: Any) -> int:
    return len(data)


def needing(num_bytes: int, opened: threading.Event | None = None) -> xs.Ref:
    """A task that takes so much, and runs until the event is set: it does not wait for anything of the engine."""

    def run() -> str:
        if opened is not None:
            opened.wait(PATIENCE_SECONDS)
        return "ran"

    return xs.remote(run, executor="thread", memory=num_bytes).remote()


def test_who_keeps_more_than_fits_is_refused(engine: LocalEngine) -> None:
    refs = blocks(FITTING + 2)
    with pytest.raises(MemoryLimitError, match=r"nobody will free the 20\.1 MB .* raise "):
        [xs.get(ref) for ref in refs]
    # Nothing is lost by it.
    assert [xs.get(size.remote(ref)) for ref in refs] == [BYTES] * len(refs)
    xs.get(needing(engine.budget.room_bytes))


def test_a_task_that_needs_what_the_program_keeps_fails(engine: LocalEngine) -> None:
    held = [xs.get(ref) for ref in blocks(2)]
    with pytest.raises(TaskError, match="Let go of values sooner") as caught:
        xs.get(needing(engine.budget.room_bytes - BYTES))
    assert isinstance(caught.value.__cause__, MemoryLimitError)
    assert [one[0] for one in held] == [0, 1]
    del held
    assert xs.get(needing(engine.budget.room_bytes - BYTES)) == "ran"


@pytest.mark.usefixtures("engine")
def test_so_does_one_whose_arguments_find_no_room() -> None:
    *refs, last = blocks(FITTING + 1)
    held = [xs.get(ref) for ref in refs]
    with pytest.raises(TaskError, match="Let go of values sooner"):
        xs.get(size.remote(last))
    del held
    assert xs.get(size.remote(last)) == BYTES


def test_one_waits_for_a_task_that_runs(engine: LocalEngine) -> None:
    opened = threading.Event()
    first = needing(engine.budget.room_bytes - BYTES, opened)
    second = needing(2 * BYTES)
    ready, _ = xs.wait([second], timeout=4 * helpless.ALONE_SECONDS)
    assert not ready
    opened.set()
    assert xs.get([first, second]) == ["ran", "ran"]


@pytest.mark.usefixtures("engine")
def test_one_waits_for_another_thread_of_the_program() -> None:
    *refs, last = blocks(FITTING + 1)
    taken, let_go, gone = threading.Event(), threading.Event(), threading.Event()

    def keep() -> None:
        held = [xs.get(ref) for ref in refs]
        taken.set()
        let_go.wait(PATIENCE_SECONDS)
        del held
        gone.wait(PATIENCE_SECONDS)

    keeper = threading.Thread(target=keep)
    keeper.start()
    taken.wait(PATIENCE_SECONDS)
    # Asked often, and for longer than a program that is alone would wait.
    threading.Timer(4 * helpless.ALONE_SECONDS, let_go.set).start()
    assert len(xs.get(last)) == BYTES
    gone.set()
    keeper.join()


@pytest.mark.usefixtures("engine")
def test_but_not_for_one_that_waits_too() -> None:
    refs = blocks(2 * FITTING)
    refused = []
    lock = threading.Barrier(2)

    def keep(mine: list[xs.Ref]) -> None:
        held = []
        try:
            for ref in mine:
                held.append(xs.get(ref))
                if len(held) <= FITTING // 2:
                    lock.wait(PATIENCE_SECONDS)
        except MemoryLimitError as error:
            refused.append(error)

    other = threading.Thread(target=keep, args=(refs[:FITTING],))
    other.start()
    keep(refs[FITTING:])
    other.join()
    # The one that is refused lets go of its values; the other may have them.
    assert 1 <= len(refused) <= 2


@pytest.mark.usefixtures("engine")
def test_an_actor_that_keeps_its_arguments_is_named() -> None:
    class Keeper:
        def __init__(self) -> None:
            self.held: list[Any] = []

        def keep(self, data: Any) -> int:
            self.held.append(data)
            return len(self.held)

    keeper = xs.remote(Keeper, executor="thread").remote()
    refs = blocks(FITTING + 1)
    with pytest.raises(TaskError, match="or its actors keep values") as caught:
        xs.get([keeper.keep.remote(ref) for ref in refs])
    assert isinstance(caught.value.__cause__, MemoryLimitError)


@pytest.mark.usefixtures("engine")
def test_garbage_is_looked_for_before() -> None:
    *refs, last = blocks(FITTING + 1)
    gc.disable()
    try:
        for ref in refs:
            cycle: list[Any] = [xs.get(ref)]
            cycle.append(cycle)
            del cycle
        assert len(xs.get(last)) == BYTES
    finally:
        gc.enable()


def test_who_keeps_a_small_value_keeps_no_large_one_beside_it(engine: LocalEngine) -> None:
    def two(number: int) -> tuple[Any, Any]:
        return pa.array([number]), pa.py_buffer(bytearray([number]) * BYTES)

    run = xs.remote(two, executor="thread", num_returns=2)
    pairs = [run.remote(number) for number in range(2 * FITTING)]
    held = [xs.get(small) for small, _ in pairs]
    assert [one[0].as_py() for one in held] == list(range(2 * FITTING))
    assert xs.get(needing(engine.budget.room_bytes)) == "ran"
    assert [xs.get(large)[0] for _, large in pairs] == list(range(2 * FITTING))
