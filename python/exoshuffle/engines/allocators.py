"""Limits the freed memory that the allocators of this process keep; the native module's allocator is not touched here.

Guarantee: each thread keeps a small share of the memory limit. New memory has to be touched first, at a hundredth of
the speed of memory that is used again; but kept memory stays resident. A choice of the user is left as it is.
"""

from __future__ import annotations

import ctypes
import os

#: How long Arrow's allocator keeps freed memory. A join of 1 GB within 600 MB peaked at 663-676 MB with mimalloc,
#: pyarrow's default. It keeps memory for longer than it is of use. With jemalloc and this time, the join peaked at
#: 531-562 MB; with a quarter of this time, at 556 MB. But with the quarter, grouping 40 million rows took a tenth
#: longer, since new memory has to be touched first. With 10 s the grouping took 3 % less, but kept memory cannot be had
#: back: ``release_unused`` does nothing (pyarrow 26).
ARROW_DECAY_MS = 400
#: How users choose Arrow's allocator; an unknown one is ignored with a warning.
_ARROW_CHOICE = "ARROW_DEFAULT_MEMORY_POOL"
#: Arrow's allocator in workers: the C library, which gives all idle memory back when it is told. Arrow's jemalloc gives
#: it back in a thread that no fork has. Idle workers kept 13 MB each, and 15 of them took a pipeline to 512 of 431 MB.
#: Three kinds of functions over 12 million rows took as much CPU time as before (6.6, 9.4 and 11.6 s).
_OF_WORKERS = "system"

#: The C library keeps, for each thread, this share of the memory limit and at most so many bytes. DuckDB's results come
#: from there. With 32 MB, grouping 40 million rows touched 0.3 million new pages instead of 0.5, took 4 % less time,
#: and made 50 MB more resident. 64 MB saved as much time; 16 MB saved 1 to 2 %.
HEAP_SHARE = 64
MAX_HEAP_BYTES = 32 << 20
_HEAP_CHOICES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
# From <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_little_of_arrow() -> None:
    """Has Arrow use an allocator that gives free memory back, unless the user has chosen one or there is none."""
    import pyarrow as pa

    if _ARROW_CHOICE not in os.environ and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(ARROW_DECAY_MS)


def keep_some_of_heap(memory_limit: int | None = None) -> None:
    """Has the C library keep some freed memory, where it can be told (glibc) and the user has not told it.

    Args:
        memory_limit: The program's memory limit; None if we know of none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _HEAP_CHOICES):
        return
    kept = MAX_HEAP_BYTES
    if memory_limit is not None:
        kept = min(kept, memory_limit // HEAP_SHARE)
    mallopt(_M_TRIM_THRESHOLD, kept)
    # Larger blocks are mapped and given back one by one.
    mallopt(_M_MMAP_THRESHOLD, kept // 2)


def environment() -> dict[str, str]:
    """Returns the environment of a worker process, whose Arrow takes memory of the C library; see ``_OF_WORKERS``."""
    return {_ARROW_CHOICE: _OF_WORKERS, **os.environ}
