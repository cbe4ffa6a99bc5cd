"""Warns, once, a program that exceeds the limit by what it keeps outside the engine.

Guarantee: a warning of the logger ``exoshuffle`` with figures; nothing is stopped. The engine looks when objects are
fetched, since a caller who keeps what it gets calls again, and at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from exoshuffle.engines.local.memory.limits import Limits
from exoshuffle.units import format_bytes

_logger = logging.getLogger("exoshuffle")

#: The program is told when it exceeds the limit by more than this part of it: allocators keep more, then less.
_TOLERANCE = 50


class Kept:
    """Tells a program that it keeps more than its limit leaves it.

    Args:
        bounds: The program's limits.
        peak: Returns the most bytes that were resident: in all, and in this process beside the engine's blocks.
    """

    def __init__(self, bounds: Limits, peak: Callable[[], tuple[int, int]]) -> None:
        self._limit = bounds.memory_limit
        self._peak = peak
        self._before_bytes = bounds.before_bytes
        self._is_told = False

    def look(self) -> None:
        """Warns if the program has exceeded its limit and was not told yet."""
        total, own = (0, 0) if self._is_told else self._peak()
        if total <= self._limit + self._limit // _TOLERANCE:
            return
        self._is_told = True
        _logger.warning(
            "the program has had %s resident, beyond its memory limit of %s. Its own process had %s of that beside "
            "the engine's blocks, and %s when the engine started. Tables and batches that it keeps are its own, and so "
            'is what tasks with executor="thread" take. Let go of them sooner, write results to files, or raise '
            "memory_limit",
            format_bytes(total),
            format_bytes(self._limit),
            format_bytes(own),
            format_bytes(self._before_bytes),
        )
