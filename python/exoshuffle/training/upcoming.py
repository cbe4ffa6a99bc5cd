"""The next epoch, which a thread begins while the program trains on this one.

Guarantee: errors of the next epoch are raised when the program asks for that epoch, not before. A thread whose epoch
is not wanted any more ends with the tasks that it waits for, and submits no others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

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
            return self._begin(no_pace()).started(self._num_ahead)
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
            self._begun = self._begin(self._pace).started(self._num_ahead)
        except AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001  the program gets it when it asks for the epoch
            self._error = error
