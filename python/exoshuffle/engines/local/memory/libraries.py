"""Libraries that the program loads after the engine has started: what they take is taken off the budget.

Guarantee: the budget and what is resident of libraries stay within the memory limit together. Why by a table instead of
measuring: once tasks run, resident memory does not tell whose it is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from exoshuffle._native import Reservation
from exoshuffle.engines.allocators import keep_little_of_arrow

#: Resident memory of a library that was just loaded, as measured (pyarrow 26, DuckDB 1.5).
LIBRARY_BYTES = {"pyarrow": 34_000_000, "duckdb": 60_000_000}


class Libraries:
    """What has to be taken off the budget for libraries.

    Args:
        reserve: Takes bytes off the budget until what it returns is gone; raises if that can never be.
        on_loaded: Called when one was loaded, before.
    """

    def __init__(
        self, reserve: Callable[[int], Reservation], on_loaded: Callable[[], None]
    ) -> None:
        self._reserve = reserve
        self._on_loaded = on_loaded
        self._lock = threading.Lock()
        self._known = {name for name in LIBRARY_BYTES if name in sys.modules}
        self._seen = set(self._known)
        self._reservations: list[Reservation] = []
        self._taken_bytes = 0
        self._has_allocator = False

    @property
    def reserved_bytes(self) -> int:
        """What was taken off until the last look."""
        return self._taken_bytes

    @property
    def loaded_bytes(self) -> int:
        """What has to be taken off, whether it was until now or not; waits for nothing."""
        loaded = [name for name in LIBRARY_BYTES.keys() - self._known if name in sys.modules]
        return sum(LIBRARY_BYTES[name] for name in loaded)

    def taken_bytes(self) -> int:
        """What was taken off until now; takes libraries into account that were loaded meanwhile.

        Waits until there is room. So no task may call it, which has memory that others wait for.

        Raises:
            MemoryLimitError: They leave nothing of the budget.
        """
        with self._lock:
            if not self._has_allocator and "pyarrow" in sys.modules:
                self._has_allocator = True
                keep_little_of_arrow()
            for name in LIBRARY_BYTES.keys() - self._seen:
                if name in sys.modules:
                    self._on_loaded()
                    self._reservations.append(self._reserve(LIBRARY_BYTES[name]))
                    self._seen.add(name)
                    self._taken_bytes += LIBRARY_BYTES[name]
            return self._taken_bytes
