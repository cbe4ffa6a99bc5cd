"""How much of the budget workers and their fork servers take, and how many workers have room.

Workers that are forked share the modules of their server. Where the site's startup files start threads, workers are
started anew and share nothing; the first server tells. Once a server was ended from outside, others are to stand by.
They start when their memory is set apart.
"""

from __future__ import annotations

from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.workers import preloading
from exoshuffle.engines.local.workers.home import (
    ALONE_BYTES,
    STANDBY_BYTES,
    UNSHARED_BYTES,
    WORKER_BYTES,
    reserved_bytes,
)
from exoshuffle.errors import MemoryLimitError
from exoshuffle.units import format_bytes

#: Share of the budget that workers may take.
_WORKERS_PERCENT = 75
#: Libraries that workers share take this part of the rest at most, and so do servers that stand by. So programs within
#: 300 MB work that had no room.
_SHARED_PART = 4
#: Where libraries have no room yet, workers take this part of what a budget grows by.
GROWING_PART = _WORKERS_PERCENT / 100 / _SHARED_PART


class WorkersRoom:
    """The room for the workers of an engine.

    Args:
        num_cpus: How many tasks run at once.
        budget_bytes: The budget that workers take a share of.
    """

    def __init__(self, num_cpus: int, budget_bytes: int) -> None:
        self._num_cpus = num_cpus
        self._bytes = budget_bytes * _WORKERS_PERCENT // 100
        #: Whether workers share no modules with a server.
        self.is_alone = False
        #: How many servers are wanted to stand by, beside the one that forks.
        self.num_wanted_standby = 0
        #: How many do: those whose memory is set apart.
        self.num_standby = 0

    @property
    def worker_bytes(self) -> int:
        """The memory of one more worker."""
        return WORKER_BYTES + (ALONE_BYTES if self.is_alone else 0)

    @property
    def max_workers(self) -> int:
        """The most workers that have room."""
        return max(0, self._bytes - reserved_bytes(0)) // self.worker_bytes

    @property
    def max_running(self) -> int:
        """The most that run at once, while others wait: those that have room beside what all share, or one.

        With pandas and two workers, a program took 250 MB within 200. It takes 217 with one.
        """
        left = self._bytes - reserved_bytes(0) - self._shared_bytes
        return min(self.max_workers, max(1, left // self.worker_bytes))

    @property
    def _shared_bytes(self) -> int:
        """The memory of libraries that workers share with their server, beside that of our own modules."""
        return 0 if self.is_alone else preloading.pandas_bytes()

    @property
    def num_base(self) -> int:
        """Workers whose memory is set apart first: a task that has its memory must not wait for that of a worker."""
        return min(self._num_cpus, self.max_running)

    @property
    def base_bytes(self) -> int:
        """The least that workers take of the budget."""
        return self._bytes_of(self.num_base)

    @property
    def all_bytes(self) -> int:
        """The memory of a worker for each CPU."""
        return self._bytes_of(self._num_cpus)

    def _bytes_of(self, num_workers: int) -> int:
        """Returns what so many workers take. Where what they share has no room, the slack has to do for it."""
        own = reserved_bytes(num_workers, self.worker_bytes)
        left = max(0, self._bytes - reserved_bytes(self._num_cpus, self.worker_bytes))
        shared = self._shared_bytes
        if self.num_wanted_standby:
            shared += self.num_wanted_standby * STANDBY_BYTES
            shared += 0 if self.is_alone else num_workers * UNSHARED_BYTES
        return own + min(shared, left // _SHARED_PART)

    def too_small(self, num_workers: int, memory_limit: int) -> MemoryLimitError:
        """Returns the error for a limit without room for so many workers."""
        needed_bytes = reserved_bytes(num_workers, self.worker_bytes)
        smallest = limits.limit_for(needed_bytes * 100 // _WORKERS_PERCENT)
        return MemoryLimitError(
            f"{num_workers} worker processes are needed at once, and a memory limit of "
            f"{format_bytes(memory_limit)} has room for {self.max_workers}. Set it to "
            f'{format_bytes(smallest)}, or run tasks that wait for others with executor="thread"'
        )
