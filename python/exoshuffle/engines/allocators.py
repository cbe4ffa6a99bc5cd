"""What the allocators of this process keep of the memory that was freed, beside that of the native module.

Guarantee: a small share of the memory limit for each thread. Memory that is new has to be touched first, at a hundredth
of the speed of memory that is used again; but what is kept stays resident. What the user has chosen stays as it is.
"""

from __future__ import annotations

import ctypes
import os

#: How long Arrow's allocator keeps what was freed. A join of 1 GB within 600 MB peaked at 663-676 MB with mimalloc,
#: pyarrow's default, which keeps it for longer than it is of use; at 531-562 MB with jemalloc and this, at 556 with a
#: quarter of it. But grouping 40 million rows took a tenth longer then, for memory that is new has to be touched first.
#: With 10 s it took 3 % less, but what is kept cannot be had back: ``release_unused`` does nothing (pyarrow 26).
ARROW_DECAY_MS = 400
#: How users choose Arrow's allocator; an unknown one is ignored with a warning.
_ARROW_CHOICE = "ARROW_DEFAULT_MEMORY_POOL"

#: What the C library keeps for each thread: a share of the memory limit, and so much at most. DuckDB's results come
#: from there. Grouping 40 million rows touched 0.3 million new pages instead of 0.5 and took 4 % less with 32 MB, the
#: same with 64, and 1 to 2 % less with 16; it made 50 MB more resident.
HEAP_SHARE = 64
MAX_HEAP_BYTES = 32 << 20
_HEAP_CHOICES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
# Of <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_little_of_arrow() -> None:
    """Has Arrow use an allocator that gives back what is free, unless the user has chosen one or there is none."""
    import pyarrow as pa

    if _ARROW_CHOICE not in os.environ and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(ARROW_DECAY_MS)


def keep_some_of_heap(memory_limit: int | None = None) -> None:
    """Has the C library keep some of what is freed, where it can be told (glibc) and the user has not told it.

    Args:
        memory_limit: Of the program; None: whoever runs it sets no limit that we know of.
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
    """The environment of a worker process, where Arrow is loaded later, if at all."""
    return {_ARROW_CHOICE: "jemalloc", **os.environ}
