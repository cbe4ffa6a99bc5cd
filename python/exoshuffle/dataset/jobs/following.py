"""Follows the parts of jobs: takes parts ahead of their consumer, or waits until all are made.

Guarantee: no more tasks are unfinished than keep the CPUs busy. After a failure or Ctrl-C no task runs or will run.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from exoshuffle.errors import ExoshuffleError
from exoshuffle.futures import Ref, RefStream, cancel, raise_errors, wait
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.strategies.mechanisms.dealing import max_ahead

_Item = TypeVar("_Item")

#: Most bytes of a part that are made, and spilled, before the consumer takes them, so that tasks seldom wait; at least
#: two blocks.
MAX_AHEAD_BYTES = 500_000_000
MIN_AHEAD = 2
#: Seconds between looks for failures while results are made.
LOOK_SECONDS = 0.25


def await_first(part: Ref | RefStream) -> None:
    """Waits for a part, or for the first block of it, and raises the error of its task."""
    if isinstance(part, RefStream):
        part.peek()
    else:
        wait([part])
        raise_errors([part])


def bounded(parts: Iterable[Ref | RefStream], sink: BlocksSink) -> Iterator[Ref | RefStream]:
    """Yields the parts of a job; none gets more than ``MAX_AHEAD_BYTES`` ahead of the consumer of its blocks.

    The parts of a user's strategy need not be streams.
    """
    for part in parts:
        if isinstance(part, RefStream):
            part.limit_ahead(max(MIN_AHEAD, MAX_AHEAD_BYTES // sink.piece_bytes))
        yield part


def in_advance(items: Iterable[_Item], count: int) -> Iterator[_Item]:
    """Yields the items; takes each from its source ``count`` items before it is wanted."""
    pending: deque[_Item] = deque()
    for item in items:
        pending.append(item)
        if len(pending) > count:
            yield pending.popleft()
    yield from pending


def finished(refs: Iterator[Ref], num_cpus: int) -> list[Ref]:
    """Returns the references, once all are done. After a failure or Ctrl-C none of the tasks runs or will run."""
    taken: list[Ref] = []
    pending: list[Ref] = []
    try:
        for ref in refs:
            taken.append(ref)
            pending.append(ref)
            while len(pending) >= max_ahead(num_cpus):
                pending = _unfinished(pending, len(pending) // 2)
        while pending:
            pending = _unfinished(pending, len(pending))
    except BaseException:
        if isinstance(refs, Generator):
            refs.close()  # it may have submitted some that nobody has taken
        for ref in reversed(taken):
            cancel(ref)
        wait(taken, num_ready=len(taken))
        raise
    return taken


def _unfinished(pending: list[Ref], num_ready: int) -> list[Ref]:
    """Waits until ``num_ready`` are done, or for ``LOOK_SECONDS``; returns the references that are not done.

    Raises:
        TaskError: One of the tasks has failed.
    """
    done, pending = wait(pending, num_ready=num_ready, timeout=LOOK_SECONDS)
    raise_errors(done)
    return pending


def collected(streams: Iterator[RefStream], num_cpus: int) -> list[Ref]:
    """Returns the items of all streams, in order, once all are made. After a failure or Ctrl-C it acts as ``finished``.

    A failure in any stream is seen about ``LOOK_SECONDS`` later, because all streams are looked at that often. A look
    took 0.08 ms per stream on Ray.
    """
    taken: list[list[Ref]] = []
    running: list[_Followed] = []
    try:
        for stream in streams:
            running.append(_Followed(stream))
            taken.append(running[-1].items)
            while len(running) > max_ahead(num_cpus):
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
        """Takes items for ``LOOK_SECONDS``, or until one takes longer than ``patience``; returns whether it ended.

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
    """Waits until the first has ended, or for ``LOOK_SECONDS``; returns those that have not ended.

    Why the first: a program cannot wait for several streams at once.
    """
    first, *others = followed
    ended = first.has_ended(LOOK_SECONDS)
    return [*([] if ended else [first]), *(other for other in others if not other.has_ended(0))]
