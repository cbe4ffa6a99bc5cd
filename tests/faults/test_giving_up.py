"""Work that cannot succeed any more is given up at once, and work that nobody can ask for is not begun."""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import TaskError
from exoshuffle.futures import raise_errors
from exoshuffle.testing.meeting import poll

on_thread = functools.partial(xs.remote, executor="thread")


@pytest.fixture
def gate(engine: LocalEngine) -> Iterator[threading.Event]:
    """The gate that slow tasks wait for; opened at the latest before the engine is closed."""
    del engine
    event = threading.Event()
    yield event
    event.set()


@on_thread
def fail() -> None:
    raise ValueError("on purpose")


@pytest.mark.parametrize("shared", [True, False])
def test_one_failed_argument_is_enough(gate: threading.Event, shared: bool) -> None:
    slow = on_thread(gate.wait).remote()
    arguments = [xs.Refs([slow, fail.remote()])] if shared else [slow, fail.remote()]
    dependent = on_thread(lambda *values: values).remote(*arguments)
    with pytest.raises(TaskError, match="on purpose"):
        xs.get(dependent, timeout=20)
    later = on_thread(lambda *values: values).remote(*arguments)
    with pytest.raises(TaskError, match="on purpose"):
        xs.get(later, timeout=20)
    gate.set()
    assert xs.get(slow) is True


def test_tasks_that_nobody_can_ask_for_are_not_begun(
    engine: LocalEngine, gate: threading.Event
) -> None:
    begun: list[int] = []
    running = [on_thread(gate.wait).remote() for _ in range(2)]
    add = on_thread(lambda _gate, number: begun.append(number))
    wanted = add.remote(None, 1)
    chain = add.remote(add.remote(add.remote(running[0], 2), 3), 4)
    unwanted = [add.remote(None, 5) for _ in range(10)]
    del chain, unwanted
    gc.collect()
    gate.set()
    assert xs.get([wanted, *running]) == [None, True, True]
    assert begun == [1]
    assert engine.stats()["num_objects"] == 0


def test_tasks_that_have_begun_are_finished(engine: LocalEngine, gate: threading.Event) -> None:
    """Their other work, such as calls of actors, is not left half done because nobody wants the result."""
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait()
        ended.set()

    ref = on_thread(work).remote()
    begun.wait()
    task = ref._object.task  # type: ignore[attr-defined]
    del ref
    gc.collect()
    engine.stats()  # which counts references
    assert not task.cancelled
    gate.set()
    assert ended.wait(20)


def test_who_waited_has_its_cpu_again(engine: LocalEngine) -> None:
    """Lent while it waits, and not for good: afterwards as many are free as there are."""

    def outer() -> int:
        total: int = sum(xs.get([on_thread(lambda: 1).remote() for _ in range(3)]))
        return total

    assert xs.get([on_thread(outer).remote() for _ in range(4)]) == [3] * 4
    resources = engine._resources
    poll(lambda: resources.free_cpus == resources.total["CPU"])


def test_errors_are_raised_without_waiting(gate: threading.Event) -> None:
    slow, broken = on_thread(gate.wait).remote(), fail.remote()
    xs.wait([broken])
    raise_errors([slow])
    with pytest.raises(TaskError, match="on purpose"):
        raise_errors([slow, broken])
    gate.set()
