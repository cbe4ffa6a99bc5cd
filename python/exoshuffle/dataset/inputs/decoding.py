"""Tells how much memory decoding files takes beside the rows, and refuses files for which the memory limit is too low.

A page of Parquet and a batch of Arrow IPC are decoded in one piece. Most are small, but one of 800 MB may lie in a file
of 75 kB. Guarantee: a page or batch that has no room is refused before any of it is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable

from exoshuffle import _native
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures import current_engine
from exoshuffle.plan.memory import USABLE_PERCENT
from exoshuffle.plan.workload import buffer_bytes
from exoshuffle.units import format_bytes

#: Memory of a task for rows, beside its buffers: a small split, and a block of it.
_ROWS_BYTES = 4_000_000
#: A batch of Arrow IPC does not tell whether few rows have most of its bytes. If so, writing them takes copies of
#: it: pages of an encoder, as they are and compressed. So a task sets memory apart for these, up to half of the budget.
#: Four texts of 50 MB, written within 400 MB, peaked at 436, since two tasks had one each; now they take 292.
_BATCH_COPIES = 4
#: For formats with pieces that are read whole: the words for the piece, and the remedy beside more memory.
_UNITS = {
    "parquet": (
        "decoding the largest page of",
        "write the file again with smaller pages and row groups",
    ),
    "arrow": ("decoding the largest batch of", "write the file again with smaller batches"),
    "binary": ("reading the whole file", "leave it out, or select other columns than its bytes"),
}


def decoding_bytes(source: _native.Source, columns: Iterable[str]) -> int:
    """Returns the bytes that reading these columns of files holds at once, beside the buffers of a task.

    Raises:
        MemoryLimitError: The memory limit leaves fewer.
    """
    names = set(columns)
    needed, path = source.working_bytes(names)
    buffers = buffer_bytes(len(names))
    engine = current_engine()
    usable = engine.budget_bytes * USABLE_PERCENT // 100
    missing = needed + buffers + _ROWS_BYTES - usable
    if needed and missing > 0:
        what, instead = _UNITS[source.format]
        # The engine keeps a little more of a larger limit for itself.
        enough = (engine.memory_limit + missing * 100 / USABLE_PERCENT) * 1.05
        raise MemoryLimitError(
            f"{what} {path!r} takes {format_bytes(needed)}, which does not fit into a "
            f"memory limit of {format_bytes(engine.memory_limit)}; set memory_limit to {format_bytes(enough)} or "
            f"more, or {instead}"
        )
    if source.format == "arrow":
        needed = max(needed, min(_BATCH_COPIES * needed, engine.budget_bytes // 2))
    return max(0, int(needed) - buffers)
