"""Runs native calls that each work on one file, side by side, with progress; Ctrl-C ends them within some MB."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TypeVar

from exoshuffle import _native
from exoshuffle.engines.machine import usable_cpus
from exoshuffle.observe.progress import Progress

T = TypeVar("T")

#: Without such looks, 8 of 120 interrupts right at the beginning took effect only at the end of a file of 8 GB.
LOOK_UP_SECONDS = 0.1


def each_file(
    call: Callable[[int, _native.Stop], T], file_bytes: Sequence[int], progress: Progress | None
) -> list[T]:
    """Calls a function with the number of every file, as many at once as there are CPUs; returns the results.

    Args:
        call: Gets the number of a file, and an object that tells it to stop. It has to stop after an interrupt, which
            is raised in this thread only, or when another call has failed. Running calls are waited for.
        file_bytes: Size of each file.
        progress: Is told of every file that is done.
    """
    stop = _native.Stop()
    finished: SimpleQueue[int] = SimpleQueue()

    def made(index: int) -> T:
        try:
            return call(index, stop)
        finally:
            finished.put(index)

    with contextlib.ExitStack() as after:
        pool = ThreadPoolExecutor(usable_cpus())
        after.callback(pool.shutdown, cancel_futures=True)
        # Runs before the others are waited for; if all went well, nobody looks at it any more.
        after.callback(stop.set)
        if progress is not None:
            after.callback(progress.stop)
            progress.begin(sum(file_bytes))
        results = [pool.submit(made, index) for index in range(len(file_bytes))]
        for _ in results:
            index = _next(finished)
            results[index].result()
            if progress is not None:
                progress.advance(file_bytes[index])
        return [result.result() for result in results]


def _next(finished: SimpleQueue[int]) -> int:
    """Returns the number of a finished file. Wakes now and then: a signal just before a wait does not end the wait."""
    while True:
        with contextlib.suppress(Empty):
            return finished.get(timeout=LOOK_UP_SECONDS)
