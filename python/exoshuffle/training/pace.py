"""The pace of the next epoch's shuffle: its maps are submitted as parts of this epoch are taken.

Guarantee: maps never run far ahead of training, so tasks of this epoch do not queue behind all of the next one's. The
last maps are submitted when ``MAPPED_PERCENT`` of this epoch's parts are taken: reduces of the next epoch can then run
before it begins.

Why not all maps at once: engines admit tasks in the order of their submission. Training would stand still until
half of the next shuffle was done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from exoshuffle.futures import Ref
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.strategy import Around, PlannedStrategy
from exoshuffle.strategies.task_set import TaskSet

#: Share of an epoch's parts at which all maps of the next one are submitted.
MAPPED_PERCENT = 80


#: How the name of a thread begins that is none of the program's to the embedded engine.
_NOT_COUNTED = "exoshuffle-"


def take_off(thread: threading.Thread) -> None:
    """Takes a thread off those of the program: it waits for the program, or the program waits for nothing but it.

    Why: the engine takes a thread of the program that does not wait for tasks for one that trains, and may free memory.
    It gives such a thread 10 minutes, before a wait for memory that nobody frees becomes an error; and else 5 s.
    """
    if not thread.name.startswith(_NOT_COUNTED):
        thread.name = f"{_NOT_COUNTED}{thread.name}"


class AbandonedError(Exception):
    """The epoch that was being prepared is not wanted any more."""


class Pacing(Protocol):
    """The pace of a shuffle that is prepared ahead."""

    @property
    def num_parts(self) -> int:
        """Number of parts of the epoch before."""
        ...

    def wait(self, percent: float) -> None:
        """Waits until so many percent of the parts are taken."""
        ...

    def wait_for_map(self, share: float) -> None:
        """Waits for the turn of a map, given the share of the maps before it."""
        ...


class Pace:
    """The parts of an epoch that have been taken; the thread that prepares the next epoch waits for them.

    Args:
        num_parts: Number of parts of the epoch.
    """

    def __init__(self, num_parts: int) -> None:
        self._num_parts = max(1, num_parts)
        self._changed = threading.Condition()
        self._taken = 0
        self._is_open = False
        self._is_abandoned = False

    @property
    def num_parts(self) -> int:
        """Number of parts of the epoch."""
        return self._num_parts

    def took(self) -> None:
        """Says that one more part was taken."""
        with self._changed:
            self._taken += 1
            self._changed.notify_all()

    def open(self) -> None:
        """Lets everything through: the epoch is over, or there was none."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Ends all waits, now and later, by ``AbandonedError``."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()

    def wait(self, percent: float) -> None:
        """Waits until so many percent of the parts are taken.

        Raises:
            AbandonedError: Nobody wants what waits here.
        """
        with self._changed:
            if not self._is_abandoned and not self._lets_through(percent):
                self._sleep(percent)
            if self._is_abandoned:
                raise AbandonedError

    def wait_for_map(self, share: float) -> None:
        """Waits for the turn of a map of the next epoch, given the share of the maps before it.

        Raises:
            AbandonedError: Nobody wants what waits here.
        """
        self.wait(MAPPED_PERCENT * share)

    def _sleep(self, percent: float) -> None:
        thread = threading.current_thread()
        name = thread.name
        take_off(thread)
        self._changed.wait_for(lambda: self._is_abandoned or self._lets_through(percent))
        if not self._is_open:
            thread.name = name

    def _lets_through(self, percent: float) -> bool:
        return self._is_open or 100 * self._taken >= percent * self._num_parts


class InTurn:
    """The pace of one of several shuffles, which one thread prepares in turn.

    Args:
        pace: The pace of all.
        first: The share of all maps that come before those of this shuffle.
        last: The same, with those of this shuffle.
    """

    def __init__(self, pace: Pacing, first: float, last: float) -> None:
        self._pace = pace
        self._first = first
        self._last = last

    @property
    def num_parts(self) -> int:
        """See ``Pacing``."""
        return self._pace.num_parts

    def wait(self, percent: float) -> None:
        """See ``Pacing``."""
        self._pace.wait(percent)

    def wait_for_map(self, share: float) -> None:
        """See ``Pacing``."""
        self._pace.wait_for_map(self._first + (self._last - self._first) * share)


def no_pace() -> Pace:
    """Returns the pace of the first epoch, which waits for nothing."""
    pace = Pace(1)
    pace.open()
    return pace


class _Paced(Sequence[object]):
    """The items of maps; each is given when it is its turn."""

    def __init__(self, items: Sequence[object], pace: Pacing) -> None:
        self._items = items
        self._pace = pace
        self._given = 0

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> object:  # type: ignore[override]  # strategies take one at a time
        self._pace.wait_for_map(self._given / len(self._items))
        self._given += 1
        return self._items[index]


class Onward(Around):
    """Another strategy, with maps at a pace, and from a partition on that is chosen when their number is known.

    Args:
        strategy: The other strategy.
        pace: When maps are submitted.
        first_partition: From the number of partitions to the first that is made.
    """

    def __init__(
        self, strategy: PlannedStrategy, pace: Pacing, first_partition: Callable[[int], int]
    ) -> None:
        self.strategy = strategy
        self._pace = pace
        self._first_partition = first_partition

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        first = self._first_partition(plan.num_partitions)
        onward = replace(plan, first_partition=first)
        return self.strategy.shuffle(tasks, _Paced(splits, self._pace), onward)
