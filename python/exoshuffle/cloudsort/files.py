"""Native calls that each work on one file, side by side, with progress; Ctrl-C is not kept waiting by them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TypeVar

from exoshuffle.observe.progress import Progress

T = TypeVar("T")

#: Without it, 8 of 120 interrupts right at the beginning came into effect at the end of a file of 8 GB.
LOOK_UP_SECONDS = 0.1


def each_file(
    call: Callable[[int], T], file_bytes: Sequence[int], progress: Progress | None
) -> list[T]:
    """The results of calling a function with the number of every file, as many at once as there are CPUs.

    A call cannot be stopped before the end of its file. So after an interrupt, or an error, those that run are left
    alone: they end by themselves, and what they write has lost its name by then.

    Args:
        call: Gets the number of a file.
        file_bytes: Size of each file.
        progress: Told of every file that is done.
    """
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    finished: SimpleQueue[int] = SimpleQueue()

    def made(index: int) -> T:
        try:
            return call(index)
        finally:
            finished.put(index)

    with contextlib.ExitStack() as after:
        # Waits for nothing: where all went well there is nothing left to wait for.
        after.callback(pool.shutdown, wait=False, cancel_futures=True)
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
    """The number of a file that is done. Looks up now and then, because a signal just before a wait does not end it."""
    while True:
        with contextlib.suppress(Empty):
            return finished.get(timeout=LOOK_UP_SECONDS)
