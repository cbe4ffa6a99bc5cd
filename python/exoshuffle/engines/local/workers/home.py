"""The home of worker processes, before there is any worker: most programs start none, and import no more.

``processes`` and what it imports take 6 ms of a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from exoshuffle._native import MemoryGuard, Store
    from exoshuffle.engines.local.objects.results import Results
    from exoshuffle.engines.local.workers import wire
    from exoshuffle.engines.local.workers.requests import Requests

#: Reserved from the engine's budget for each worker. It takes 5 to 7 MB of its own before it imports anything of the
#: user's. The rest of the 25 MB that it has resident is shared with its fork server. Six workers that had run a
#: function, and their server, took 59 MB together, as their shares of pages tell (``smaps_rollup``).
WORKER_BYTES = 12_000_000
#: Reserved once, beside the workers', for what they share with their fork server. That is 20 MB, of which one worker
#: leaves a part unused.
SERVER_BYTES = 12_000_000
#: Further bytes of a worker that is started anew and shares no modules: it takes 25 to 30 MB in all, with pyarrow.
ALONE_BYTES = 18_000_000
#: Reserved for a server that stands by for the one that forks. It has imported the same, 20 to 24 MB.
STANDBY_BYTES = 24_000_000
#: Further bytes of a worker once servers stand by: a server forks before it has imported all, and the worker imports
#: the rest. Such workers took 13 to 19 MB, and their server 25, of which they share little.
UNSHARED_BYTES = 10_000_000
#: A worker is granted so much beside what its task declares, before it may be to blame: modules of the user's take it.
GRANTED_BYTES = 24_000_000


def reserved_bytes(num_workers: int, worker_bytes: int = WORKER_BYTES) -> int:
    """Returns the memory that is reserved for so many workers, and for their server."""
    return SERVER_BYTES + num_workers * worker_bytes


@dataclass(frozen=True)
class Home:
    """The parts of the engine that worker processes have.

    Attributes:
        store: Workers share its memory.
        guard: Watches the workers' memory.
        memory_limit: The program's memory limit.
        num_cpus: How many tasks run at once.
        results: Takes what tasks hand over while they run.
        hello: Returns what a worker is told when it starts.
        requests: Makes the part that answers the questions of a new worker.
        waiting_for_tasks: Lends the CPU of the task that the calling thread runs.
    """

    store: Store
    guard: MemoryGuard
    memory_limit: int
    num_cpus: int
    results: Results
    hello: Callable[[], wire.Hello]
    requests: Callable[[], Requests]
    waiting_for_tasks: Callable[[], AbstractContextManager[None]]
