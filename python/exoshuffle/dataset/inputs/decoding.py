"""Tells how much memory decoding files takes beside the rows, and refuses files for which the memory limit is too low.

Some formats have parts that are indivisible, such as pages of Parquet. Most are small, but one of 800 MB may lie in a
file of 75 kB. Guarantee: a part that has no room is refused before any of it is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures import current_engine
from exoshuffle.plan.memory import USABLE_PERCENT
from exoshuffle.plan.workload import buffer_bytes
from exoshuffle.units import format_bytes

#: Memory of a task for rows, beside its buffers: a small split, and a block of it.
_ROWS_BYTES = 4_000_000


def decoding_bytes(source: _native.Source, columns: Iterable[str]) -> int:
    """Returns the bytes that reading these columns of files holds at once, beside the buffers of a task.

    Raises:
        MemoryLimitError: The memory limit leaves fewer.
    """
    indivisible = FORMATS[source.format].indivisible
    if indivisible is None:
        return 0
    reading, remedy, copies = indivisible
    names = set(columns)
    needed, path = source.working_bytes(names)
    buffers = buffer_bytes(len(names))
    engine = current_engine()
    usable = engine.budget_bytes * USABLE_PERCENT // 100
    missing = needed + buffers + _ROWS_BYTES - usable
    if needed and missing > 0:
        # The engine keeps a little more of a larger limit for itself.
        enough = (engine.memory_limit + missing * 100 / USABLE_PERCENT) * 1.05
        raise MemoryLimitError(
            f"{reading} {path!r} takes {format_bytes(needed)}, which does not fit into a "
            f"memory limit of {format_bytes(engine.memory_limit)}; set memory_limit to {format_bytes(enough)} or "
            f"more, or {remedy}",
            needed,
            min(needed, source.memory_bytes),
        )
    needed = max(needed, min(copies * needed, engine.budget_bytes // 2))
    return max(0, needed - buffers)
