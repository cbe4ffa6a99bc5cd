"""Native calls that each work on one file, side by side, with progress; Ctrl-C is not kept waiting by them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from exoshuffle.observe.progress import Progress

T = TypeVar("T")


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

    def done(index: int) -> T:
        result = call(index)
        if progress is not None:
            progress.advance(file_bytes[index])
        return result

    with contextlib.ExitStack() as after:
        # Waits for nothing: where all went well there is nothing left to wait for.
        after.callback(pool.shutdown, wait=False, cancel_futures=True)
        if progress is not None:
            after.callback(progress.stop)
            progress.begin(sum(file_bytes))
        return list(pool.map(done, range(len(file_bytes))))
