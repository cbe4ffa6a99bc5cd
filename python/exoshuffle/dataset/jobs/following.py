"""Follows the parts of jobs: takes them ahead of who wants them, or until all are made.

Guarantee: no more tasks are unfinished than keep the CPUs busy. After a failure or Ctrl-C none runs, or will run.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from exoshuffle.errors import ExoshuffleError
from exoshuffle.futures import Ref, RefStream, cancel, raise_errors, wait
from exoshuffle.operators.core.sinks import BlocksSink

#: Reduces that are submitted and not done, at most: a task that waits costs its engine something for every argument
#: (Ray 0.4 KB, so 200 MB for 2,000 that take 250 blocks each), and this many keep the CPUs busy.
MAX_PENDING = 64
MAX_PENDING_PER_CPU = 4
#: What is made of a part, and spilled, before somebody takes it: so much that tasks seldom wait, and two blocks.
MAX_AHEAD_BYTES = 500_000_000
MIN_AHEAD = 2
#: While results are made, failures are looked for so often.
LOOK_SECONDS = 0.25


def bounded(parts: Iterable[Any], sink: BlocksSink) -> Iterator[Any]:
    """Parts of a job, none of which gets further ahead of who takes its blocks than ``MAX_AHEAD_BYTES``.

    Those of a strategy of the user need not be streams.
    """
    for part in parts:
        if isinstance(part, RefStream):
            part.limit_ahead(max(MIN_AHEAD, MAX_AHEAD_BYTES // sink.piece_bytes))
        yield part


def in_advance(items: Iterable[Any], count: int) -> Iterator[Any]:
    """The items, each taken from where they come ``count`` items before it is wanted."""
    pending: deque[Any] = deque()
    for item in items:
        pending.append(item)
        if len(pending) > count:
            yield pending.popleft()
    yield from pending


def finished(refs: Iterator[Ref], num_cpus: int) -> list[Ref]:
    """The references, once all are done. After a failure or Ctrl-C none of the tasks runs, or will run."""
    taken: list[Ref] = []
    pending: list[Ref] = []
    try:
        for ref in refs:
            taken.append(ref)
            pending.append(ref)
            while len(pending) >= max_pending(num_cpus):
                pending = _unfinished(pending, len(pending) // 2)
        while pending:
            pending = _unfinished(pending, len(pending))
    except BaseException:
        for ref in reversed(taken):
            cancel(ref)
        wait(taken, num_ready=len(taken))
        raise
    return taken


def _unfinished(pending: list[Ref], num_ready: int) -> list[Ref]:
    """Those that are not done, once so many are or after ``LOOK_SECONDS``.

    Raises:
        TaskError: One of them has failed.
    """
    done, pending = wait(pending, num_ready=num_ready, timeout=LOOK_SECONDS)
    raise_errors(done)
    return pending


def collected(streams: Iterator[RefStream], num_cpus: int) -> list[Ref]:
    """The items of all streams, in order, once all are made. After a failure or Ctrl-C as ``finished``.

    A failure is seen about ``LOOK_SECONDS`` later, whichever stream it is in: all are looked at so often, which took
    0.08 ms per stream on Ray.
    """
    taken: list[list[Ref]] = []
    running: list[_Followed] = []
    try:
        for stream in streams:
            running.append(_Followed(stream))
            taken.append(running[-1].items)
            while len(running) > max_pending(num_cpus):
                running = _still_running(running)
        while running:
            running = _still_running(running)
    except BaseException:
        for followed in reversed(running):
            cancel(followed.stream)
        for followed in running:
            with contextlib.suppress(ExoshuffleError):
                list(followed.stream)
        raise
    return list(itertools.chain.from_iterable(taken))


class _Followed:
    """A stream, and the items of it that have been taken."""

    def __init__(self, stream: RefStream) -> None:
        self.stream = stream
        self.items: list[Ref] = []

    def has_ended(self, patience: float) -> bool:
        """Takes items for ``LOOK_SECONDS``, or until one takes longer than ``patience``; whether that was all.

        Raises:
            TaskError: The task failed.
        """
        end = time.monotonic() + LOOK_SECONDS
        with contextlib.suppress(TimeoutError):
            while time.monotonic() < end:
                item = self.stream.next(patience)
                if item is None:
                    return True
                self.items.append(item)
        return False


def _still_running(followed: Sequence[_Followed]) -> list[_Followed]:
    """Those that have not ended, when the first has, or after ``LOOK_SECONDS``: nobody can wait for several."""
    first, *others = followed
    ended = first.has_ended(LOOK_SECONDS)
    return [*([] if ended else [first]), *(other for other in others if not other.has_ended(0))]


def max_pending(num_cpus: int) -> int:
    """Reduces that are submitted and not done, at most."""
    return max(MAX_PENDING, MAX_PENDING_PER_CPU * num_cpus)
