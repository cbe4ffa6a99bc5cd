"""What the memory limit leaves for blocks, tasks and workers of an engine, and who takes of it.

Guarantee: what is taken here and what libraries take stay within the budget together.
"""

from __future__ import annotations

from collections.abc import Callable

from exoshuffle import _native
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.memory.libraries import Libraries
from exoshuffle.engines.local.memory.limits import Limits


class Budget:
    """The budget of an engine; the store gives it out.

    Args:
        bounds: The limit, and what it leaves.
        store: Gives out memory; waits until there is room.
        make_way: Called before so much is taken.
        on_library: Called when a library was loaded, before it is taken off.
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
        self._set_apart_bytes = 0

    @property
    def room_bytes(self) -> int:
        """What can ever be free for a task and its arguments: the budget less what nobody will give back."""
        taken_bytes = self._libraries.reserved_bytes + self._set_apart_bytes
        return self._bounds.budget_bytes - taken_bytes

    def outside_tasks(self) -> int:
        """The budget as of now, less libraries; waits until there is room for those that were loaded meanwhile."""
        return self._bounds.budget_bytes - self._libraries.taken_bytes()

    def inside_task(self) -> int:
        """The budget as of now, less libraries; waits for nothing.

        Two reduces that loaded DuckDB waited for memory that blocks had, which only they would free.
        """
        return self._bounds.budget_bytes - self._libraries.loaded_bytes

    def reserve(self, num_bytes: int) -> _native.Reservation:
        """Working memory; blocks until there is room."""
        self._make_way(num_bytes)
        return self._store.reserve(num_bytes)

    def set_apart(self, num_bytes: int) -> _native.Reservation:
        """As ``reserve``, for good: nobody will give it back."""
        reservation = self.reserve(num_bytes)
        self._set_apart_bytes += num_bytes
        return reservation

    def _reserve_library(self, num_bytes: int) -> _native.Reservation:
        """Takes a library off the budget; for one that can never fit it would wait for ever."""
        if num_bytes > self.room_bytes:
            taken_bytes = self.memory_limit - self.room_bytes + num_bytes
            raise limits.too_small(self.memory_limit, taken_bytes, self._bounds.num_cpus)
        return self.reserve(num_bytes)
