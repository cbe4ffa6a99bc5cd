"""The items of a generator task.

Guarantee: item i is the same object whichever attempt of the task made it. The stream keeps an item alive until
somebody takes it; then its references do. A lost item is made again by the running attempt, or by the next attempt if
the running one has passed it or none runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

from exoshuffle.engines.local.objects.state import HandleCounter, Maker, ObjectState, Status
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.errors import BlockLostError
from exoshuffle.futures.refs import Ref


class Keeper(HandleCounter, Protocol):
    """Keeps the items: the table of objects. Called with the lock held."""

    def fulfil(self, state: ObjectState, stored: StoredValue) -> None:
        """Gives the object its value."""

    def reject(self, state: ObjectState, error: BaseException) -> None:
        """Fails the object: there will be no value."""

    def discard(self, stored: StoredValue) -> None:
        """Frees a value that nobody wants."""

    def notify(self) -> None:
        """Wakes all who wait for something to change."""


class StreamWaits(Protocol):
    """Waits for items, or for somebody to take them. Called without the lock."""

    def next_item(self, stream: Stream, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle.next_ref``."""

    def await_taker(self, stream: Stream) -> None:
        """Has a generator that is far ahead wait until somebody takes an item, or nothing else can go on."""

    def cancel(self, ref: Ref) -> bool:
        """Stops the task that makes the object."""


class Stream:
    """The engine's side of a ``RefStream``.

    Its methods are called with the lock held, except ``await_taker`` and the methods of ``StreamHandle``.
    """

    def __init__(self, keeper: Keeper, waits: StreamWaits, task: Maker) -> None:
        self._keeper = keeper
        self._waits = waits
        self._task = task
        self._items: list[ObjectState] = []
        self._untaken: dict[int, Ref] = {}
        self._most_ahead = sys.maxsize
        self._is_in_haste = False
        #: See ``Awaited``: the waiter of the task itself, while it is too far ahead.
        self.waiters: list[Callable[[bool], None]] = []
        #: Items made by the attempt that runs.
        self._made = 0
        self._lost: set[ObjectState] = set()
        self.ended = False
        self.dropped = False
        #: Keeps the task wanted for as long as the stream is.
        self._output = Ref(task.output) if task.output is not None else None

    def add(self, stored: StoredValue) -> bool:
        """Adds an item that the task yielded, and returns whether anybody wants more.

        In a dropped stream only items are wanted that were taken before, which an attempt may make again.
        """
        index = self._made
        is_new = index == len(self._items)
        if self._task.cancelled or (self.dropped and is_new):
            self._keeper.discard(stored)
            return False
        self._made += 1
        if is_new:
            state = ObjectState(self._keeper, 1, self._task)
            self._items.append(state)
            self._untaken[index] = Ref(state)
        self._keeper.fulfil(self._items[index], stored)
        if self.dropped:  # perhaps meanwhile, since dropping needs no lock
            self._untaken.clear()
        return not self.dropped or self._made < len(self._items)

    def restart(self) -> None:
        """Begins another attempt."""
        self._made = 0
        self.ended = self._is_in_haste = False

    def hasten(self) -> None:
        """Makes the running attempt hurry: a lost item that it has passed can only be made by another attempt."""
        self._is_in_haste = True

    def lose(self, state: ObjectState) -> None:
        """Notes that an item is to be made again."""
        self._lost.add(state)

    @property
    def num_lost(self) -> int:
        """The number of items that have been lost, however often."""
        return len(self._lost)

    @property
    def has_missed(self) -> bool:
        """Whether the attempt that ends had passed an item when the item was lost."""
        return any(state.status is Status.PENDING for state in self._items[: self._made])

    def end(self, error: BaseException | None = None) -> None:
        """Ends the stream, since the task has returned or there is an error."""
        self.ended = True
        for state in self._items:
            if state.status is Status.PENDING:
                why = f"{state!r}: its bytes are lost and the generator ended before"
                self._keeper.reject(state, error or BlockLostError(why))
        self._keeper.notify()

    def take(self, index: int) -> Ref | None:
        """Returns item ``index``, if it has been made."""
        if index >= len(self._items):
            return None
        if index not in self._untaken:
            return Ref(self._items[index])
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter(False)
        return self._untaken.pop(index)

    @property
    def is_far_ahead(self) -> bool:
        """Whether the task is to wait until somebody takes an item; False while it is to make lost items again."""
        makes_new = self._made == len(self._items) and not self._is_in_haste
        return makes_new and len(self._untaken) >= self._most_ahead

    @property
    def error(self) -> BaseException | None:
        """The error that ended the stream early."""
        return None if self._task.output is None else self._task.output.error

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        return self._waits.next_item(self, index, timeout)

    def await_taker(self) -> None:
        """Waits, on behalf of the task, until it is no longer too far ahead. Without the lock."""
        self._waits.await_taker(self)

    def limit_ahead(self, count: int) -> None:
        """See ``StreamHandle``."""
        self._most_ahead = max(1, count)

    def cancel(self) -> bool:
        """See ``StreamHandle``."""
        output = self._output
        return output is not None and self._waits.cancel(output)

    def drop(self) -> None:
        """See ``StreamHandle``."""
        self.dropped = True
        self._untaken.clear()
        self._output = None
