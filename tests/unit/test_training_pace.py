"""The pace of the next epoch: maps wait for their turn, and nothing waits when the epoch ends or is not wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import DiskFullError
from exoshuffle.futures import Ref
from exoshuffle.strategies import PreShuffleMerge, Push, Simple
from exoshuffle.strategies.strategy import PlannedStrategy
from exoshuffle.strategies.task_set import TaskSet
from exoshuffle.testing.meeting import poll
from exoshuffle.testing.programs import LabelTasks
from exoshuffle.testing.shuffles import small_plan
from exoshuffle.training.mixing import in_turn
from exoshuffle.training.orders import Begun, BegunParts
from exoshuffle.training.pace import AbandonedError, InTurn, Onward, Pace, Pacing, no_pace
from exoshuffle.training.upcoming import Upcoming

NUM_MAPS, NUM_PARTITIONS = 9, 5
SPLITS = [[10 * index, 10 * index + 1] for index in range(NUM_MAPS)]


def onward(strategy: PlannedStrategy, pace: Pacing, first: int = 0) -> Iterator[Ref]:
    tasks: TaskSet = LabelTasks(NUM_PARTITIONS)
    plan = small_plan(NUM_MAPS, NUM_PARTITIONS)
    return Onward(strategy, pace, lambda _: first).shuffle(tasks, SPLITS, plan)


@pytest.mark.parametrize("strategy", [Simple(), Push(), PreShuffleMerge()])
def test_partitions_before_the_first_are_not_made(
    strategy: PlannedStrategy, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    submit = engine.submit

    def noted(fn: Any, args: Any, kwargs: Any, options: Any) -> Any:
        if options.name == "reduce":
            made.append(args[0])
        return submit(fn, args, kwargs, options)

    whole = xs.get(list(onward(strategy, no_pace())))
    monkeypatch.setattr(engine, "submit", noted)
    for first in (0, 3, NUM_PARTITIONS):
        made.clear()
        assert xs.get(list(onward(strategy, no_pace(), first))) == whole[first:]
        assert made == list(range(first, NUM_PARTITIONS))


class Counting(PlannedStrategy):
    """Takes the items of all maps, and makes nothing."""

    def __init__(self) -> None:
        self.num_taken = 0

    def shuffle(self, tasks: TaskSet, splits: Any, plan: Any) -> Iterator[Ref]:
        del tasks, plan
        for index in range(len(splits)):
            assert splits[index] == SPLITS[index]
            self.num_taken += 1
        yield from ()


def in_a_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_maps_wait_for_the_parts_of_the_epoch_before() -> None:
    """Nine maps within 80 % of ten parts: about one for each part."""
    counting, pace = Counting(), Pace(10)
    thread = in_a_thread(lambda: list(onward(counting, pace)))
    for submitted in range(1, NUM_MAPS + 1):
        poll(lambda submitted=submitted: counting.num_taken == submitted)
        pace.took()
    thread.join()


def test_shuffles_in_turn_share_the_epoch_before() -> None:
    """Eighteen maps within 80 % of 22 parts, the first nine of one shuffle: about one for each part."""
    first, second, pace = Counting(), Counting(), Pace(22)

    def both() -> None:
        list(onward(first, InTurn(pace, 0, 0.5)))
        list(onward(second, InTurn(pace, 0.5, 1)))

    thread = in_a_thread(both)
    for submitted in range(1, 2 * NUM_MAPS + 1):
        poll(lambda submitted=submitted: first.num_taken + second.num_taken == submitted)
        assert (first.num_taken == NUM_MAPS) is (submitted >= NUM_MAPS)
        pace.took()
    thread.join()


def test_sources_of_a_mixture_are_prepared_one_behind_the_other() -> None:
    shares: list[float] = []

    class Noting(Pace):
        def wait_for_map(self, share: float) -> None:
            shares.append(share)

    for own in in_turn(Noting(10), [1, 3]):
        own.wait_for_map(0)
        own.wait_for_map(0.5)
    assert shares == [0, 0.125, 0.25, 0.625]


def test_the_end_of_an_epoch_lets_all_maps_through() -> None:
    counting, pace = Counting(), Pace(10)
    thread = in_a_thread(lambda: list(onward(counting, pace)))
    pace.open()
    thread.join()
    assert counting.num_taken == NUM_MAPS


def test_what_is_abandoned_waits_no_longer() -> None:
    counting, pace = Counting(), Pace(10)
    pace.abandon()
    with pytest.raises(AbandonedError):
        list(onward(counting, pace))
    pace.open()
    with pytest.raises(AbandonedError):
        pace.wait(0)


def begun(pace: Pace) -> Begun:
    pace.wait(100)
    return BegunParts(iter(()), 0, 7)


def test_the_next_epoch_is_taken_when_this_one_ends() -> None:
    assert Upcoming(begun, Pace(3), 2).take().num_skipped == 7


def test_the_thread_of_an_abandoned_epoch_ends() -> None:
    Upcoming(begun, Pace(3), 2).abandon()
    assert not threads_of_epochs()


def threads_of_epochs() -> list[str]:
    return [each.name for each in threading.enumerate() if "next epoch" in each.name]


def test_a_thread_that_waits_for_the_program_is_none_of_it() -> None:
    """Else the engine would wait for it to free memory."""
    seen: list[list[str]] = []

    def between(pace: Pace) -> Begun:
        pace.wait(50)
        seen.append(threads_of_epochs())
        return begun(pace)

    pace = Pace(2)
    upcoming = Upcoming(between, pace, 2)
    poll(lambda: threads_of_epochs() == ["exoshuffle-next epoch"])
    pace.took()
    poll(lambda: threads_of_epochs() == ["exoshuffle-next epoch"] and bool(seen))
    upcoming.take()
    assert seen == [["next epoch"]]


def test_a_thread_that_the_program_waits_for_is_none_of_it() -> None:
    seen: list[list[str]] = []

    def last(pace: Pace) -> Begun:
        made = begun(pace)
        poll(lambda: threads_of_epochs() == ["exoshuffle-next epoch"])
        seen.append(threads_of_epochs())
        return made

    Upcoming(last, Pace(1), 2).take()
    assert seen == [["exoshuffle-next epoch"]]


def test_errors_come_when_the_epoch_is_asked_for() -> None:
    def fail(pace: Pace) -> Begun:
        raise ValueError(f"not {pace.num_parts}")

    upcoming = Upcoming(fail, Pace(3), 2)
    with pytest.raises(ValueError, match="not 3"):
        upcoming.take()


def test_an_epoch_without_room_beside_this_one_begins_after_it() -> None:
    tried: list[Pace] = []

    def second_time(pace: Pace) -> Begun:
        tried.append(pace)
        if len(tried) == 1:
            raise DiskFullError("no room")
        return begun(pace)

    assert Upcoming(second_time, Pace(3), 2).take().num_skipped == 7
    assert len(tried) == 2
