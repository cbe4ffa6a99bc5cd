"""Generator tasks: their items are references that can be used while the task still runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.errors import TaskCancelledError, TaskError
from exoshuffle.futures import ActorHandle
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, await_count, helper
from exoshuffle.testing.programs import Servant, big, count, double


class StreamConformance(Conformance):
    """Items come in order, each once, as they are made; a failure comes after the items made before."""

    def test_items_come_in_order(self, executor: str) -> None:
        stream = xs.remote(count, num_returns="streaming", executor=executor).remote(10)
        assert [xs.get(ref) for ref in stream] == list(range(10))
        assert stream.next() is None

    def test_a_stream_may_be_empty(self, executor: str) -> None:
        def nothing() -> Iterator[int]:
            yield from ()

        stream = xs.remote(nothing, num_returns="streaming", executor=executor).remote()
        assert list(stream) == []

    def test_large_items(self, executor: str) -> None:
        def produce(number: int) -> Iterator[bytes]:
            for i in range(number):
                yield big(i)

        stream = xs.remote(produce, num_returns="streaming", executor=executor).remote(xs.put(5))
        refs = list(stream)
        del stream
        gc.collect()
        assert xs.get(refs) == [big(i) for i in range(5)]

    def test_items_are_taken_while_the_task_runs(self, executor: str) -> None:
        def produce(taken: ActorHandle) -> Iterator[int]:
            yield 1
            yield 2
            await_count(taken, 1)
            yield 3

        taken = helper(Counter)
        stream = xs.remote(produce, num_returns="streaming", executor=executor).remote(taken)
        assert xs.get(xs.remote(double).remote(next(stream))) == 2
        xs.get(taken.add.remote())
        assert [xs.get(ref) for ref in stream] == [2, 3]

    def test_a_failure_comes_after_the_items(self, executor: str) -> None:
        def produce() -> Iterator[str]:
            yield "first"
            yield "second"
            raise ValueError("no third")

        stream = xs.remote(produce, num_returns="streaming", executor=executor).remote()
        assert xs.get(next(stream)) == "first"
        assert xs.get(next(stream)) == "second"
        with pytest.raises(TaskError, match="no third") as caught:
            next(stream)
        assert isinstance(caught.value.__cause__, ValueError)
        assert (caught.value.task_name, caught.value.attempt) == ("produce", 1)

    def test_a_failed_argument_fails_the_stream(self, executor: str) -> None:
        broken = xs.remote(lambda: 1 / 0, name="broken").remote()
        stream = xs.remote(count, num_returns="streaming", executor=executor).remote(broken)
        with pytest.raises(TaskError, match="broken"):
            next(stream)

    def test_a_dropped_stream_stops_its_task(self, executor: str) -> None:
        def produce() -> Iterator[int]:
            number = 0
            while True:
                yield number
                number += 1

        run = xs.remote(produce, num_returns="streaming", executor=executor, resources={"token": 1})
        stream = run.remote()
        kept = [next(stream), next(stream)]
        del stream
        gc.collect()
        # The stream held the token, and would for ever.
        later = xs.remote(double, resources={"token": 1}).remote(4)
        assert xs.get(later, timeout=PATIENCE_SECONDS) == 8
        assert xs.get(kept) == [0, 1]

    def test_a_cancelled_stream_ends_after_its_items(self, executor: str) -> None:
        def produce(going_on: ActorHandle) -> Iterator[int]:
            yield 0
            while True:
                yield int(xs.get(going_on.add.remote()))

        run = xs.remote(produce, num_returns="streaming", executor=executor, resources={"token": 1})
        stream = run.remote(helper(Counter))
        assert xs.get(next(stream)) == 0
        assert xs.cancel(stream)
        with pytest.raises(TaskCancelledError):
            list(stream)
        assert not xs.cancel(stream)
        # The stream held the token, and would for ever.
        later = xs.remote(double, resources={"token": 1}).remote(4)
        assert xs.get(later, timeout=PATIENCE_SECONDS) == 8

    def test_a_finished_stream_is_not_cancelled(self, executor: str) -> None:
        stream = xs.remote(count, num_returns="streaming", executor=executor).remote(3)
        refs = list(stream)
        assert not xs.cancel(stream)
        assert [xs.get(ref) for ref in refs] == [0, 1, 2]

    def test_a_task_cancels_its_stream(self, executor: str) -> None:
        def outer() -> bool:
            def produce() -> Iterator[int]:
                while True:
                    yield 1

            stream = xs.remote(produce, num_returns="streaming").remote()
            xs.get(next(stream))
            return xs.cancel(stream)

        assert xs.get(xs.remote(outer, executor=executor).remote(), timeout=PATIENCE_SECONDS)

    def test_methods_can_be_generators(self, executor: str) -> None:
        actor = xs.remote(Servant, executor=executor).remote(5)
        stream = actor.count.options(num_returns="streaming").remote(xs.put(3))
        assert [xs.get(ref) for ref in stream] == [5, 6, 7]

    def test_an_actor_goes_on_after_a_dropped_stream(self, executor: str) -> None:
        actor = xs.remote(Servant, executor=executor).remote()
        stream = actor.count.options(num_returns="streaming").remote(10**9)
        assert xs.get([next(stream), next(stream)]) == [0, 1]
        del stream
        gc.collect()
        assert xs.get(actor.names.remote("n", 2), timeout=PATIENCE_SECONDS) == ["n0", "n1"]
