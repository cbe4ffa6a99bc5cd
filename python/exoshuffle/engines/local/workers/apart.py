"""The memory that is set apart for the workers of an engine, and for the servers that they are forked from.

Guarantee: servers that stand by start only when their memory is set apart. Before that, four workers and two servers
took up to 108 MB in the middle of a run, of which 60 were set apart.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from exoshuffle._native import Reservation
from exoshuffle.engines.local.memory.budget import Budget
from exoshuffle.engines.local.memory.impatience import Impatience, NoRoomNowError
from exoshuffle.engines.local.workers.room import WorkersRoom


class Apart:
    """The memory that is set apart.

    Args:
        room: Tells how much workers and servers take.
        budget: Their memory is reserved from it.
        impatience: Ends waits for memory that others may never free.
    """

    def __init__(self, room: WorkersRoom, budget: Budget, impatience: Impatience) -> None:
        self._room = room
        self._budget = budget
        self._impatience = impatience
        self._turn = threading.Lock()
        self._reserved: list[Reservation] = []
        self.bytes = 0

    @property
    def is_none(self) -> bool:
        """Whether nothing is set apart."""
        return not self._reserved

    @property
    def is_enough(self) -> bool:
        """Whether all is set apart that workers and servers take."""
        return not self.is_none and self.bytes >= self._room.base_bytes

    def set(self, prepare: Callable[[], None]) -> None:
        """Sets apart what is missing; waits until there is room.

        Args:
            prepare: Called in between if there was nothing: the first server may tell that workers take more.
        """
        with self._turn:
            if self.is_none:
                self._reserve()
                prepare()
            self._reserve()

    def set_now(self) -> None:
        """Sets apart what is missing for servers that are wanted to stand by, if there is room now."""
        is_paid = self._room.num_standby >= self._room.num_wanted_standby
        # The holder of the turn may wait for long. A task that has its memory must not wait for that.
        if is_paid or not self._turn.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(NoRoomNowError), self._impatience.here():
                self._reserve()
        finally:
            self._turn.release()

    def _reserve(self) -> None:
        """Reserves what is missing. Nobody who has memory waits here, since that might be missing for ever."""
        num_standby = self._room.num_wanted_standby
        missing = self._room.base_bytes - self.bytes
        if missing > 0:
            self._reserved.append(self._budget.reserve(missing))
            self.bytes += missing
        self._room.num_standby = num_standby

    def take(self) -> list[Reservation]:
        """Takes all of it, which the caller releases."""
        taken, self._reserved, self.bytes = self._reserved, [], 0
        return taken
