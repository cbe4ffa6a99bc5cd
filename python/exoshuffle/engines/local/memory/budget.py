"""The budget: the part of the memory limit that is left for blocks, tasks and workers of an engine.

Guarantee: memory that is reserved here and memory of libraries stay within the budget together.
"""

from __future__ import annotations

from collections.abc import Callable

from exoshuffle import _native
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.memory.libraries import Libraries
from exoshuffle.engines.local.memory.limits import Limits
from exoshuffle.errors import MemoryLimitError


class Budget:
    """The budget of an engine; the store gives it out.

    Args:
        bounds: The limit, and the budget that it leaves.
        store: Gives out memory; waits until there is room.
        make_way: Called before so many bytes are reserved.
        on_library: Called when a library was loaded, before its bytes are taken off.
    """

    def __init__(
        self,
        bounds: Limits,
        store: _native.Store,
        make_way: Callable[[int], None],
        on_library: Callable[[], None],
    ) -> None:
        self.memory_limit = bounds.memory_limit
        self._bounds = bounds
        self._store = store
        self._make_way = make_way
        self._libraries = Libraries(self._reserve_library, on_library)
        self._workers_bytes: Callable[[], int] = int

    @property
    def workers_bytes(self) -> int:
        """The bytes that workers have which run; idle ones give theirs back where they are waited for."""
        return self._workers_bytes()

    @property
    def room_bytes(self) -> int:
        """The most that can ever be free for a task and its arguments: the budget less what nobody will give back."""
        taken_bytes = self._libraries.reserved_bytes + self.workers_bytes
        return self._bounds.budget_bytes - taken_bytes

    def outside_tasks(self) -> int:
        """Returns the budget less libraries and workers; waits for room for libraries that were loaded meanwhile."""
        return self._bounds.budget_bytes - self._libraries.taken_bytes() - self.workers_bytes

    def inside_task(self) -> int:
        """Returns the budget less libraries and workers; waits for nothing.

        When it waited, two reduces that loaded DuckDB waited for memory of blocks that only these reduces would free.
        """
        return self._bounds.budget_bytes - self._libraries.loaded_bytes - self.workers_bytes

    def reserve(self, num_bytes: int) -> _native.Reservation:
        """Reserves working memory; blocks until there is room."""
        self._make_way(num_bytes)
        return self._store.reserve(num_bytes)

    def take_off(self, workers_bytes: Callable[[], int]) -> None:
        """Takes the bytes of workers off the budget, as they are whenever it is asked for."""
        self._workers_bytes = workers_bytes

    def _reserve_library(self, num_bytes: int) -> _native.Reservation:
        """Takes a library off the budget; raises if the library can never fit, since the wait would never end."""
        if num_bytes > self.room_bytes:
            raise self.too_small(self.room_bytes - num_bytes)
        return self.reserve(num_bytes)

    def too_small(self, left_bytes: int) -> MemoryLimitError:
        """Returns the error for a limit of which so little, mostly less than nothing, is left for tasks."""
        taken_bytes = self.memory_limit - left_bytes
        return limits.too_small(self.memory_limit, taken_bytes, self._bounds.num_cpus)
