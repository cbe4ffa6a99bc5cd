"""Libraries that the program loads after the engine has started: what they take is taken off the budget.

Guarantee: the budget and what is resident of libraries stay within the memory limit together. Why by a table instead of
measuring: once tasks run, resident memory does not tell whose it is.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

#: Resident memory of a library that was just loaded, as measured (pyarrow 26, DuckDB 1.5).
LIBRARY_BYTES = {"pyarrow": 34_000_000, "duckdb": 60_000_000}
#: How long Arrow's allocator keeps what was freed. A join of 1 GB within 600 MB peaked at 663-676 MB with mimalloc,
#: pyarrow's default, which keeps it for longer than it is of use; at 531-562 MB with jemalloc and this, at 556 with a
#: quarter of it. But grouping 40 million rows took a tenth longer then, for memory that is new has to be touched first.
#: With 10 s it took 3 % less, but what is kept cannot be had back: ``release_unused`` does nothing (pyarrow 26).
ARROW_DECAY_MS = 400
#: How users choose Arrow's allocator; an unknown one is ignored with a warning.
_CHOICE = "ARROW_DEFAULT_MEMORY_POOL"


class Libraries:
    """What has to be taken off the budget for libraries.

    Args:
        reserve: Takes bytes off the budget until what it returns is gone.
    """

    def __init__(self, reserve: Callable[[int], Any]) -> None:
        self._reserve = reserve
        self._lock = threading.Lock()
        self._seen = {name for name in LIBRARY_BYTES if name in sys.modules}
        self._reservations: list[Any] = []
        self._taken_bytes = 0
        self._has_allocator = False

    @property
    def reserved_bytes(self) -> int:
        """What was taken off until the last look."""
        return self._taken_bytes

    def taken_bytes(self) -> int:
        """What was taken off until now; takes libraries into account that were loaded meanwhile."""
        with self._lock:
            if not self._has_allocator and "pyarrow" in sys.modules:
                self._has_allocator = True
                keep_little()
            for name in LIBRARY_BYTES.keys() - self._seen:
                if name in sys.modules:
                    self._seen.add(name)
                    self._reservations.append(self._reserve(LIBRARY_BYTES[name]))
                    self._taken_bytes += LIBRARY_BYTES[name]
            return self._taken_bytes


def keep_little() -> None:
    """Has Arrow use an allocator that gives back what is free, unless the user has chosen one or there is none."""
    import pyarrow as pa

    if _CHOICE not in os.environ and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(ARROW_DECAY_MS)


def environment() -> dict[str, str]:
    """The environment of a worker process, where Arrow is loaded later, if at all."""
    return {_CHOICE: "jemalloc", **os.environ}
