"""Files side by side, one per CPU, that end soon when the program is interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from exoshuffle import _native

T = TypeVar("T")
R = TypeVar("R")


def on_all_cpus(work: Callable[[T, _native.Stop], R], items: Iterable[T]) -> list[R]:
    """The results of ``work`` for all items, in their order.

    An interrupt is raised in this thread only, and leaving the pool waits for the others: so they are told to stop.
    """
    stop = _native.Stop()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            return list(pool.map(lambda item: work(item, stop), items))
        except BaseException:
            stop.set()
            raise
