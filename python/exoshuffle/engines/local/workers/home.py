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

#: The memory of a worker before it imports anything of the user's (19 MB, and a share of libraries). It is reserved for
#: each worker from the engine's budget.
WORKER_BYTES = 24_000_000


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
