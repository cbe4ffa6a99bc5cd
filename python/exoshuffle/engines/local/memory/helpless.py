"""Ends a wait for memory that nobody will free, since its holders wait too.

The store spills what it can, and waits for others to let go of the rest. The others may be the program itself: it may
fetch one object after the other and keep them all. Or it keeps some while it waits for a task that needs their memory.
Such a wait becomes an error, which says what is held.

Guarantee: no error while a task runs that does not itself wait. Nor, for ``OTHERS_SECONDS``, while the program has a
thread that does not wait. That thread may be training on a batch, and let go of it. Cost: nothing until a thread has
waited for memory for ``ALONE_SECONDS`` in which nothing was freed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import MemoryLimitError
from exoshuffle.units import format_bytes

#: How long nothing must have been freed before the error, where every thread of the program waits.
ALONE_SECONDS = 5.0
#: The same, where a thread of the program does not wait: that thread may take its time.
OTHERS_SECONDS = 600.0
#: For so long no task may have gone on before we believe that none does. A waiting thread asks ten times a second.
_SURE_SECONDS = 1.0


class Waiting(Protocol):
    """Knows which threads and tasks of an engine wait; see ``Waits``."""

    def stands_still(self, for_memory: set[int]) -> int | None:
        """Returns how many tasks have begun if each that runs waits, and None otherwise.

        ``for_memory`` has the threads that wait for memory.
        """

    def program_waits(self, for_memory: set[int]) -> bool:
        """Whether each thread of the program waits, given the threads that wait for memory."""


class Helpless:
    """Decides for the store whether a wait can end; see ``_native.Store``.

    Args:
        waits: Knows which threads and tasks wait.
        memory_limit: The program's memory limit, for the message.
        collect: Finds references in cycles of garbage, which hold memory for nobody.
    """

    def __init__(self, waits: Waiting, memory_limit: int, collect: Callable[[], None]) -> None:
        self._waits = waits
        self._memory_limit = memory_limit
        self._collect = collect
        self._asked: dict[int, float] = {}
        #: How many tasks had begun when we first saw that none goes on, and when that was.
        self._still: tuple[int, float] | None = None
        self._has_collected = False

    def __call__(self, num_bytes: int, quiet_seconds: float) -> None:
        """Called by a thread that waits for ``num_bytes``; nothing was freed for ``quiet_seconds``.

        Raises:
            MemoryLimitError: Nobody will free any.
        """
        now = time.monotonic()
        self._asked[threading.get_ident()] = now
        if quiet_seconds < ALONE_SECONDS:
            self._has_collected = False
            return
        self._asked = {
            one: at for one, at in self._asked.copy().items() if now - at < _SURE_SECONDS
        }
        recent = set(self._asked)
        if not self._is_sure(recent, now):
            return
        if quiet_seconds < OTHERS_SECONDS and not self._waits.program_waits(recent):
            return
        if not self._has_collected:
            self._has_collected = True
            self._collect()
            return
        raise self._error(num_bytes)

    def _is_sure(self, recent: set[int], now: float) -> bool:
        """Whether no task has gone on for a while; one look is not enough, since between two tasks none runs either."""
        begun = self._waits.stands_still(recent)
        if begun is None or self._still is None or self._still[0] != begun:
            self._still = None if begun is None else (begun, now)
            return False
        return now - self._still[1] >= _SURE_SECONDS

    def _error(self, num_bytes: int) -> MemoryLimitError:
        limit = limits.raised(self._memory_limit, num_bytes)
        return MemoryLimitError(
            f"nobody will free the {format_bytes(num_bytes)} of memory that are waited for: the program or its actors "
            f"keep values that they got. These take what the memory limit of {format_bytes(self._memory_limit)} "
            f"leaves, and no task goes on. Let go of values sooner (del), keep copies of the parts that are needed, "
            f"or raise memory_limit to at least {format_bytes(limit)}"
        )
