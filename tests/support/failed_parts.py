"""Blocks for a later shuffle, which generator tasks make: their order, and when one that fails is seen.

The tests of each engine inherit these. Tasks are written where they are used: workers of Ray need not find them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import exoshuffle as xs
from exoshuffle.dataset.jobs.following import collected
from exoshuffle.errors import TaskError
from exoshuffle.futures import Engine, RefStream
from exoshuffle.strategies.mechanisms import dealing
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Gate, poll


def make_hanging() -> Callable[[], Iterator[int]]:
    """The stream of a task without items that does not end by itself before patience does."""

    def hang() -> Iterator[int]:
        poll(lambda: False)
        yield 0

    return hang


def make_endless() -> Callable[[], Iterator[int]]:
    """The stream of a task that always has another item."""
    patience_seconds = PATIENCE_SECONDS

    def go_on() -> Iterator[int]:
        end = time.monotonic() + patience_seconds
        while time.monotonic() < end:
            yield 0
        raise TimeoutError("nobody has ended it")

    return go_on


def make_failing() -> Callable[[], Iterator[int]]:
    """The stream of a task that fails behind some items."""

    def fail() -> Iterator[int]:
        yield from range(3)
        raise ValueError("this one fails")

    return fail


def begin(*tasks: Callable[[], Iterator[int]]) -> Iterator[RefStream]:
    """Their streams, each begun when it is taken."""
    return (xs.remote(task, num_returns="streaming").remote() for task in tasks)


class FailedParts:
    """For any ``engine``."""

    @pytest.mark.parametrize("make_first", [make_hanging, make_endless])
    def test_a_failure_is_seen_before_earlier_streams_have_ended(
        self, engine: Engine, make_first: Callable[[], Callable[[], Iterator[int]]]
    ) -> None:
        with pytest.raises(TaskError, match="this one fails"):
            collected(begin(make_first(), make_failing()), engine.num_cpus)

    @pytest.mark.usefixtures("engine")
    def test_streams_that_have_ended_make_room_for_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dealing, "MIN_AHEAD", 2)
        quick = [lambda: iter([1]) for _ in range(5)]
        with pytest.raises(TaskError, match="this one fails"):
            collected(begin(make_hanging(), *quick, make_failing()), num_cpus=0)

    def test_items_are_in_the_order_of_the_streams(self, engine: Engine) -> None:
        gate = Gate()

        def wait_for_others() -> Iterator[int]:
            yield 0
            gate.await_opening()
            yield 1

        def let_others_go_on() -> Iterator[int]:
            yield from [2, 3]
            gate.open()

        streams = begin(wait_for_others, let_others_go_on, lambda: iter([]), lambda: iter([4]))
        assert xs.get(collected(streams, engine.num_cpus)) == [0, 1, 2, 3, 4]
