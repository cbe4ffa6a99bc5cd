"""The coordinator: makes the steps of an iteration once, and hands each consumer its share of each.

Guarantee: every consumer gets its share of every step, in order, and may ask for its latest step again. A step is made
when the first consumer asks for it. No consumer gets ahead of the slowest by more than ``KEPT_STEPS``, so no more steps
are kept than that. A consumer that is lost is an error for all others, because its rows would be missing. So is one
that does not come within ``MEET_SECONDS``. One that others wait for is named by a warning of the logger ``exoshuffle``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from exoshuffle.errors import ClosedError, OptionsError, WorkerDiedError
from exoshuffle.observe.watchdog import STALL_SECONDS
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

#: Steps that are kept: that of the slowest consumer, and one more, so that others need not wait for it at once.
KEPT_STEPS = 2

#: How long others wait for a consumer that has never come, before that is an error. PyTorch waits as long for processes
#: that have to meet.
MEET_SECONDS = 1800.0

_logger = logging.getLogger("exoshuffle")


class Step(NamedTuple):
    """A step.

    Attributes:
        num_rows: Rows of all consumers together; 0 for the end of an epoch.
        shares: The rows of each consumer; none at the end of an epoch.
    """

    num_rows: int
    shares: Sequence[pa.RecordBatch]


class Share(NamedTuple):
    """The part of a step that one consumer gets.

    Attributes:
        num_rows: Rows of all consumers together; 0 for the end of an epoch.
        rows: The rows of the consumer; None at the end of an epoch.
    """

    num_rows: int
    rows: pa.RecordBatch | None


class Asked(NamedTuple):
    """The epochs and the row that consumers ask for when they begin an iteration; all have to ask for the same.

    Attributes:
        num_epochs: The epoch before which it ends.
        epoch: The epoch in which it begins.
        row: The row of that epoch at which it begins.
    """

    num_epochs: int = 1
    epoch: int = 0
    row: int = 0

    def __str__(self) -> str:
        return f"{counted(self.num_epochs, 'epoch')} from row {self.row} of epoch {self.epoch} on"


#: From what consumers ask for to the steps of an iteration.
Begin = Callable[[Asked], Iterator[Step]]


class _Consumer:
    """The position of one consumer."""

    def __init__(self) -> None:
        #: Number of its iteration, from 1; 0 before the first.
        self.iteration = 0
        #: The step that it asks for next, or has asked for last.
        self.step = 0
        #: Whether it takes no more steps of its iteration.
        self.has_left = True
        #: Whether nothing will come of it any more.
        self.has_gone = False


class Coordinator:
    """Shares iterations among consumers. All take part in each, one iteration after the other.

    Args:
        begin: Begins an iteration.
        num_consumers: How many there are.
        noun: The word for a consumer in messages.
        stall_seconds: After so long a wait a warning names the consumers that others wait for.
        meet_seconds: After so long a wait for a consumer that has never come, it is taken for lost.
    """

    def __init__(
        self,
        begin: Begin,
        num_consumers: int,
        noun: str,
        *,
        stall_seconds: float = STALL_SECONDS,
        meet_seconds: float = MEET_SECONDS,
    ) -> None:
        self._begin = begin
        self._noun = noun
        self._stall_seconds = stall_seconds
        self._meet_seconds = meet_seconds
        self._consumers = [_Consumer() for _ in range(num_consumers)]
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._iteration = 0
        self._asked = Asked()
        self._steps: Iterator[Step] = iter(())
        self._kept: deque[Step] = deque()
        #: Number of the first step that is kept.
        self._first = 0
        self._is_making = False
        self._is_over = True
        #: Called once, when nothing will come of any consumer any more.
        self.when_all_have_gone: Callable[[], None] = lambda: None

    @property
    def num_consumers(self) -> int:
        """The number of consumers."""
        return len(self._consumers)

    def begin(self, number: int, asked: Asked) -> None:
        """Begins the next iteration of a consumer; waits until all have left the one before.

        Raises:
            OptionsError: Another consumer asked for something else.
        """
        consumer = self._consumers[number]
        with self._changed:
            self._leave(consumer)
            consumer.iteration += 1
            consumer.has_gone = False
            self._wait(lambda: consumer.iteration <= self._iteration or self._may_begin())
            self._raise_error()
            if consumer.iteration > self._iteration:
                self._iteration = consumer.iteration
                self._asked = asked
                self._first, self._is_over = 0, False
                self._steps = self._begin(asked)
                for each in self._consumers:
                    each.step, each.has_left = 0, each.has_gone
                self._changed.notify_all()
            if asked != self._asked:
                raise OptionsError(
                    f"{self._noun} {number} asked for {asked}, and others for {self._asked}; let all begin alike, "
                    "with the same state"
                )

    def share(self, number: int, step: int) -> Share | None:
        """Returns the share of a step, or None behind the last step. Waits for consumers that are behind.

        Raises:
            WorkerDiedError: Another consumer was lost.
            OptionsError: The step is not the consumer's next one, nor its latest.
            ExoshuffleError: The error that kept the step from being made.
        """
        consumer = self._consumers[number]
        with self._changed:
            if not self._first <= step <= consumer.step + 1:
                raise OptionsError(
                    f"{self._noun} {number} asked for step {step}, and its next one is step {consumer.step + 1}; each "
                    "gets its steps in order, once"
                )
            consumer.step = step
            self._let_go()
            while True:
                self._raise_error()
                if self._has(step):
                    made = self._kept[step - self._first]
                    return Share(made.num_rows, made.shares[number] if made.shares else None)
                if self._is_over:
                    self._leave(consumer)
                    return None
                if self._may_make():
                    self._make()
                else:
                    self._wait(lambda: self._has(step) or self._is_over or self._may_make())

    def leave(self, number: int) -> None:
        """Says that a consumer takes no more steps of its iteration; the others go on without waiting for it."""
        with self._changed:
            self._leave(self._consumers[number])

    def go(self, number: int, reason: str | None = None) -> None:
        """Says that nothing will come of a consumer any more; with a reason, that it was lost unless it has left."""
        with self._changed:
            consumer = self._consumers[number]
            consumer.has_gone = True
            if reason is not None and not consumer.has_left and self._error is None:
                self._error = WorkerDiedError(
                    f"{self._noun} {number} of {self.num_consumers} {reason} after {counted(consumer.step, 'step')}, "
                    "and its rows are missing; begin all of them again, from their last state if they have one"
                )
            self._leave(consumer)
            all_have_gone = all(each.has_gone for each in self._consumers)
        if all_have_gone:
            self.when_all_have_gone()

    def close(self) -> None:
        """Ends the iteration; consumers that ask for steps get ``ClosedError``."""
        with self._changed:
            self._error = self._error or ClosedError("the iteration was closed")
            for consumer in self._consumers:
                self._leave(consumer)

    def wait_for_others(self, number: int) -> None:
        """Waits until all other consumers have left the iteration of one, or are lost."""
        with self._changed:
            self._wait(lambda: self._others_left(number))

    def _others_left(self, number: int) -> bool:
        return all(each.has_left for place, each in enumerate(self._consumers) if place != number)

    def _may_begin(self) -> bool:
        return not self._is_making and all(each.has_left for each in self._consumers)

    def _has(self, step: int) -> bool:
        return step < self._first + len(self._kept)

    def _may_make(self) -> bool:
        return not self._is_making and len(self._kept) < KEPT_STEPS

    def _leave(self, consumer: _Consumer) -> None:
        if consumer.iteration == self._iteration:  # else it has left the iteration before
            consumer.has_left = True
            self._let_go()

    def _end_if_all_left(self) -> None:
        if self._may_begin():
            self._is_over = True
            steps, self._steps = self._steps, iter(())
            close = getattr(steps, "close", None)
            if close is not None:
                close()

    def _let_go(self) -> None:
        """Drops the steps that all have passed."""
        slowest = min(
            (each.step for each in self._consumers if not each.has_left),
            default=self._first + len(self._kept),
        )
        while self._kept and self._first < slowest:
            self._kept.popleft()
            self._first += 1
        self._end_if_all_left()
        self._changed.notify_all()

    def _make(self) -> None:
        """Makes the next step; the lock is free meanwhile."""
        self._is_making = True
        self._changed.release()
        made, error = None, None
        try:
            made = next(self._steps, None)
        except BaseException as raised:  # noqa: BLE001  all consumers get it
            error = raised
        finally:
            self._changed.acquire()
            self._is_making = False
        if error is not None:
            self._error = self._error or error
        elif made is None:
            self._is_over = True
        else:
            self._kept.append(made)
        self._let_go()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Waits; warns of those that others wait for, and gives up those that have never come."""
        begun_at = warned_at = time.monotonic()
        while not is_done() and self._error is None:
            self._changed.wait(self._stall_seconds)
            seconds = time.monotonic() - warned_at
            if seconds >= self._stall_seconds and not self._is_making and self._error is None:
                warned_at = time.monotonic()
                if not is_done():
                    _logger.warning("%s", self._report(seconds))
                    if warned_at - begun_at >= self._meet_seconds:
                        self._give_up()

    def _give_up(self) -> None:
        missing = [number for number, each in enumerate(self._consumers) if not each.iteration]
        if missing:
            self._error = WorkerDiedError(
                f"{self._noun} {missing[0]} of {self.num_consumers} has not come within {self._meet_seconds:.0f} s, "
                "and its rows would be missing; see why, and begin all of them again"
            )
            self._changed.notify_all()

    def _report(self, seconds: float) -> str:
        slowest = min((each.step for each in self._consumers if not each.has_left), default=0)
        behind = [
            self._described(number)
            for number, each in enumerate(self._consumers)
            if not each.has_left and each.step == slowest
        ]
        return f"others have waited {seconds:.0f} s for " + ", ".join(behind)

    def _described(self, number: int) -> str:
        consumer = self._consumers[number]
        what = f"{self._noun} {number} of {self.num_consumers}"
        if consumer.iteration < self._iteration:
            return f"{what}, which has not come"
        return f"{what}, which has not asked for step {consumer.step + 1}"
