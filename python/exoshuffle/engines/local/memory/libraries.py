"""Takes libraries that the program loads after the engine has started off the budget.

Guarantee: the budget and the resident memory of libraries stay within the memory limit together. Why a table instead of
measuring: once tasks run, resident memory does not tell whose it is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from exoshuffle._native import Reservation
from exoshuffle.engines.allocators import keep_little_of_arrow
from exoshuffle.operators.sql.databases import LOADED_BYTES

#: Resident memory of the libraries that operators load, as measured (pyarrow 26, DuckDB 1.5). Where other processes
#: have loaded the same files, as workers do, the pages that all of them share are 40 MB of that. They are taken off all
#: the same, since the others may end at any time.
NEEDED_BYTES = {"pyarrow": 34_000_000, "duckdb": LOADED_BYTES}
#: The same for those that only programs load, or ``to_pandas`` and ``to_polars`` for them. pandas 3.0 with NumPy, and a
#: frame made, took 48 to 54 MB; Polars 2.1 took 24 to 33.
LIBRARY_BYTES = {**NEEDED_BYTES, "pandas": 50_000_000, "polars": 32_000_000}


class Libraries:
    """Knows how many bytes have to be taken off the budget for libraries.

    Args:
        reserve: Takes bytes off the budget as long as its result lives; raises if they can never fit.
        on_loaded: Called when a library was loaded, before ``reserve``.
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
        """The bytes that were taken off until the last look."""
        return self._taken_bytes

    @property
    def loaded_bytes(self) -> int:
        """The bytes that have to be taken off, whether they were taken yet or not; waits for nothing."""
        loaded = [name for name in LIBRARY_BYTES.keys() - self._known if name in sys.modules]
        return sum(LIBRARY_BYTES[name] for name in loaded)

    def taken_bytes(self) -> int:
        """Takes off libraries that were loaded meanwhile, and returns the bytes that were taken off in all.

        Waits until there is room. So no task may call it, since a task has memory that others wait for.

        Raises:
            MemoryLimitError: The libraries leave nothing of the budget.
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
