"""Tells how much memory decoding files takes beside the rows, and refuses files for which the memory limit is too low.

Some formats have parts that are indivisible, such as pages of Parquet. Most are small, but one of 800 MB may lie in a
file of 75 kB. Guarantee: a part that has no room is refused before any of it is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.inputs.reading import bounded
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures import current_engine
from exoshuffle.futures.session import engine_in_use
from exoshuffle.plan.memory import USABLE_PERCENT
from exoshuffle.plan.workload import buffer_bytes
from exoshuffle.units import format_bytes, parse_bytes

#: Memory of a task for rows, beside its buffers: a small split, and a block of it.
_ROWS_BYTES = 4_000_000
#: The words before the limit that an error names.
_NAMED = re.compile(r"(?<=memory_limit to )\d+(\.\d+)? [kMGT]?B")


def decoding_bytes(
    source: _native.Source,
    columns: Iterable[str],
    row_copies: int | None = None,
    *,
    is_planned: bool = False,
) -> int:
    """Returns the bytes that reading these columns of files holds at once, beside the buffers of a task.

    Args:
        source: The files.
        columns: The columns that are read.
        row_copies: The most copies of a large row at once in what takes it, with the row itself; None if unknown.
        is_planned: Whether a plan knows the longest row; else a part counts as if it were one.

    Raises:
        MemoryLimitError: The memory limit leaves fewer. A part may be mostly one row, which nobody has seen yet; so the
            error names a limit that does even then.
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
        short = int((engine.memory_limit + missing * 100 / USABLE_PERCENT) * 1.05)
        longest = source.longest_row_bytes(names)
        enough = max(short, bounded(source, row_copies).enough_bytes(longest) or 0)
        if_short = f" (if its rows are short, {format_bytes(short)})" if enough > short else ""
        raise MemoryLimitError(
            f"{reading} {path!r} takes {format_bytes(needed)}, which does not fit into a "
            f"memory limit of {format_bytes(engine.memory_limit)}; set memory_limit to {format_bytes(enough)} or "
            f"more{if_short}, or {remedy}",
            needed,
            longest,
        )
    if not is_planned:
        needed = max(needed, min(copies * needed, engine.budget_bytes // 2))
    return max(0, needed - buffers)


def listing_memory() -> tuple[int, int] | None:
    """Returns the memory limit, and the memory for the footer of a file; None if there is no engine yet.

    The footer is in memory while a task reads. So the buffers and the rows of a task are left out.
    """
    engine = engine_in_use()
    if engine is None:
        return None
    beside = (buffer_bytes(0) + _ROWS_BYTES) * 100 // USABLE_PERCENT
    return engine.memory_limit, max(0, engine.budget_bytes - beside)


def naming(error: MemoryLimitError, limit_bytes: int) -> MemoryLimitError:
    """Returns the error of a long row or a large part, which names a limit that also does for what takes the rows."""
    named = _NAMED.search(str(error))
    if named is None or parse_bytes(named[0]) >= limit_bytes:
        return error
    message = _NAMED.sub(format_bytes(limit_bytes), str(error), count=1)
    return MemoryLimitError(message, error.part_bytes, error.row_bytes)
