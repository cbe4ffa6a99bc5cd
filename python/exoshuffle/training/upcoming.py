"""The next epoch, which a thread begins while the program trains on this one.

Guarantee: errors of the next epoch are raised when the program asks for that epoch, not before. A thread whose epoch
is not wanted any more ends with the tasks that it waits for, and submits no others.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from exoshuffle.dataset.jobs.following import in_advance
from exoshuffle.errors import DiskFullError
from exoshuffle.training.orders import Begun
from exoshuffle.training.pace import AbandonedError, Pace, no_pace, take_off

#: Begins an epoch at the pace of the one before.
Begin = Callable[[Pace], Begun]


class Upcoming:
    """An epoch that is begun ahead, with its first parts.

    Args:
        begin: Begins it.
        pace: The pace of the epoch before.
        num_ahead: Number of parts that are made ahead of the program.
    """

    def __init__(self, begin: Begin, pace: Pace, num_ahead: int) -> None:
        self._begin = begin
        self._pace = pace
        self._num_ahead = num_ahead
        self._begun: Begun | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="next epoch", daemon=True)
        self._thread.start()

    def take(self) -> Begun:
        """Returns the epoch, once its first part is submitted. The epoch before must have ended.

        Raises:
            ExoshuffleError: The error that kept the epoch from beginning.
        """
        self._pace.open()
        take_off(self._thread)
        self._thread.join()
        if isinstance(self._error, DiskFullError):
            # Spill directories had no room for two epochs at once, and now there is but one.
            return started(self._begin(no_pace()), self._num_ahead)
        if self._error is not None:
            raise self._error
        assert self._begun is not None
        return self._begun

    def abandon(self) -> None:
        """Ends the work for the epoch."""
        self._pace.abandon()
        self._thread.join()
        self._begun = None

    def _run(self) -> None:
        try:
            self._begun = started(self._begin(self._pace), self._num_ahead)
        except AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001  the program gets it when it asks for the epoch
            self._error = error


def started(begun: Begun, num_ahead: int) -> Begun:
    """Returns an epoch whose first parts are submitted, and that stays so many parts ahead of the program."""
    parts = in_advance(begun.parts, num_ahead)
    first = next(parts, None)
    return begun._replace(parts=itertools.chain(() if first is None else (first,), parts))
