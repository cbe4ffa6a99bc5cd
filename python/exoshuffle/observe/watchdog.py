"""The watchdog: says which task waits for what when no task of an engine has finished for a while.

Guarantee: the logger ``exoshuffle`` gets one warning per interval, as long as a task has been running for that long.
Python prints it on standard error if logging is not set up. It changes nothing: a task that takes long is no error.
Cost: a clock is read for each task that finishes; stacks and queues are looked at only before a warning.
"""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from exoshuffle.arguments import is_number
from exoshuffle.errors import OptionsError
from exoshuffle.futures.events import Observer, TaskFinished
from exoshuffle.observe.activity import Activity

#: Default interval.
STALL_SECONDS = 60.0
#: Looks per interval: a warning comes at most a quarter of the interval late.
_LOOKS_PER_INTERVAL = 4
#: Lines about running tasks, and about waiting ones; equal ones share a line.
_MAX_LINES = 16

_logger = logging.getLogger("exoshuffle")


class Watchdog:
    """Observes an engine's events, and has a thread that looks at the time.

    Args:
        activities: The unfinished tasks of the engine, running ones first.
        seconds: Interval without a finished task after which to warn.
        clock: Returns the time.
    """

    def __init__(
        self,
        activities: Callable[[], Sequence[Activity]],
        seconds: float = STALL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._activities = activities
        self._seconds = seconds
        self._clock = clock
        self._finished_at = self._warned_at = clock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, event: TaskFinished) -> None:
        """Notes that a task finished; see ``Observer``."""
        del event
        self._finished_at = self._clock()

    def start(self) -> None:
        """Starts the thread that looks at the time."""
        self._thread = threading.Thread(target=self._run, name="exoshuffle-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> None:
        """Warns if it is time to."""
        now = self._clock()
        if now - max(self._finished_at, self._warned_at) < self._seconds:
            return
        finished_at = self._finished_at
        found = self._activities()
        if self._finished_at != finished_at:
            return  # a task has finished meanwhile
        if not found:
            self._finished_at = now
            return
        longest = max((one.seconds for one in found if one.waits_for is None), default=None)
        if longest is not None and longest < self._seconds:
            return  # the running tasks have only just begun
        self._warned_at = now
        _logger.warning("%s", _report(now - finished_at, found))

    def _run(self) -> None:
        while not self._closed.wait(self._seconds / _LOOKS_PER_INTERVAL):
            self.look()


class Observed(Protocol):
    """The part of an engine that a watchdog needs."""

    def add_observer(self, observer: Observer) -> None:
        """See ``Engine``."""


def check_stall_seconds(seconds: float | None) -> None:
    """Raises ``OptionsError`` unless ``seconds`` is an interval or None."""
    if seconds is not None and not (is_number(seconds) and 0 < seconds < float("inf")):
        raise OptionsError(
            f"stall_seconds is {seconds!r}; it must be above 0, or None for no warnings"
        )


def watch(
    engine: Observed, activities: Callable[[], Sequence[Activity]], seconds: float | None
) -> Watchdog | None:
    """Puts an engine under a watchdog and returns it; does nothing without an interval."""
    if seconds is None:
        return None
    watchdog = Watchdog(activities, seconds)
    engine.add_observer(watchdog)
    watchdog.start()
    return watchdog


def _report(seconds: float, found: Sequence[Activity]) -> str:
    running = [str(one) for one in found if one.waits_for is None]
    waiting = [str(one) for one in found if one.waits_for is not None]
    lines = [f"no task has finished for {seconds:.0f} s", *_counted(running), *_counted(waiting)]
    return "\n  ".join(lines)


def _counted(lines: Iterable[str]) -> list[str]:
    counts = collections.Counter(lines)
    shown = [
        line if count == 1 else f"{count} times: {line}"
        for line, count in counts.most_common(_MAX_LINES)
    ]
    left = sum(counts.values()) - sum(count for _, count in counts.most_common(_MAX_LINES))
    return [*shown, f"and {left} more"] if left else shown
