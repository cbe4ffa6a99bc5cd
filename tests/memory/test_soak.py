"""Many tasks over a long time leave the program and its workers as they were."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import psutil

import exoshuffle as xs
from benchmarks.driver_memory import anonymous_bytes
from exoshuffle.engines.local import LocalEngine
from exoshuffle.testing.meeting import poll
from exoshuffle.testing.programs import count
from tests.support.worker_processes import worker_processes

#: Memory that an allocator may keep beside memory in use: 2 to 3 MB were seen, up and down.
SLACK_BYTES = 6_000_000


def own_bytes() -> int:
    """Returns the memory that this process and its children have for themselves.

    This is not their unique set size: pages of libraries shared with other programs would be added when these end.
    """
    gc.collect()
    return anonymous_bytes() + sum(
        anonymous_bytes(child.pid) for child in psutil.Process().children(recursive=True)
    )


def nothing() -> None:
    """Does nothing: a task."""


def assert_flat(engine: LocalEngine, run: Callable[[], Any], times: int) -> None:
    for _ in range(times // 5):
        run()
    before, workers = own_bytes(), worker_processes()
    for _ in range(times - times // 5):
        run()
    assert own_bytes() - before < SLACK_BYTES
    assert worker_processes() == workers
    poll(lambda: engine.stats()["num_blocks"] == 0)


def test_a_hundred_thousand_tasks_on_threads(engine: LocalEngine) -> None:
    task = xs.remote(nothing, executor="thread")
    assert_flat(engine, lambda: xs.get([task.remote() for _ in range(1_000)]), 100)


def test_a_hundred_thousand_tasks_on_processes(engine: LocalEngine) -> None:
    """Workers take about 5,000 a second."""
    task = xs.remote(nothing)
    assert_flat(engine, lambda: xs.get([task.remote() for _ in range(1_000)]), 100)


def test_many_functions_and_many_references_through_workers(engine: LocalEngine) -> None:
    def pass_on(inside: list[xs.Ref], number: int) -> list[xs.Ref]:
        # A new function each time, which closes over a reference.
        task = xs.remote(lambda: len(xs.get(inside[0])) + number)
        return [*inside, task.remote(), xs.put(bytes(200_000))]

    def run() -> None:
        ref = xs.put(bytes(200_000))
        passed = [xs.get(xs.remote(pass_on).remote([ref], number)) for number in range(20)]
        assert xs.get([refs[1] for refs in passed]) == [200_000 + n for n in range(20)]

    assert_flat(engine, run, 20)


def test_streams_and_actors_that_come_and_go(engine: LocalEngine) -> None:
    class Server:
        def items(self) -> Any:
            yield from range(1000)

    def run() -> None:
        # Each has a thread of its own.
        server = xs.remote(Server, executor="thread").remote()
        stream = server.items.options(num_returns="streaming").remote()
        assert [xs.get(next(stream)) for _ in range(5)] == list(range(5))
        numbers = xs.remote(count, num_returns="streaming").remote(5)
        assert [xs.get(ref) for ref in numbers] == list(range(5))

    assert_flat(engine, run, 150)
    assert len(engine._scheduler._threads) < 10
