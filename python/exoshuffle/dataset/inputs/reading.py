"""How the files of an input are read: their schema, the options of the reader, and whether they tell their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.futures import current_engine

if TYPE_CHECKING:
    import pyarrow as pa

#: Memory of a row of text while it is read and handed on, in its sizes: a decoder's buffer, which doubles, its column,
#: and the result of a map, an encoder or a function. A large row took 3.6 to 5.7 sizes (sort, scan, map_batches).
ROW_COPIES = 7
#: Several tasks at once may read rows of text up to this size, whatever the limit.
MIN_ROW_BYTES = 4_000_000
#: Tasks that wait for their turn with a longer row keep what they have read of it, and the task that has the turn may
#: take all the budget. So they may keep a fourth of what they share without turns. With all of it, a join of texts of
#: 20 MB took up to 343 MB within 300.
WAITING_PART = 4
#: Memory of a large row of Arrow IPC, in its sizes: its batch as it was read, and pages of an encoder, as they are and
#: compressed. Texts of 100 MB took 4.4 to 4.7.
BATCH_ROW_COPIES = 5
#: Every row up to this size is read.
MIN_BATCH_ROW_BYTES = 4_000_000
#: Memory of a page while it is decoded, in its sizes: as it is stored, decompressed, and the rows that refer to it.
PAGE_COPIES = 4
#: Every page up to this size is decoded. The plan counts larger pages if they are the first of their column.
MIN_PAGE_BYTES = 25_000_000


def schema_of(source: _native.Source) -> pa.Schema:
    """Returns the schema of the rows of files."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(source.schema_ipc))


def bounded(source: _native.Source) -> _native.ReadOptions:
    """Returns the options of the reader of files, with the longest row of text or page that memory has room for.

    Longer rows and pages than all tasks have memory for at once are read by one task at a time.
    """
    engine = current_engine()
    at_once = max(MIN_ROW_BYTES, engine.budget_bytes // (ROW_COPIES * engine.num_cpus))
    row = page = None
    if is_text(source):
        row = longest_row_bytes()
        at_once = max(MIN_ROW_BYTES, at_once // WAITING_PART)
    elif source.format == "arrow":
        row = max(MIN_BATCH_ROW_BYTES, engine.budget_bytes // BATCH_ROW_COPIES)
        at_once = max(MIN_BATCH_ROW_BYTES, row // engine.num_cpus)
    elif source.format == "parquet":
        planned, _ = source.working_bytes(set(schema_of(source).names))
        share = engine.budget_bytes // (PAGE_COPIES * engine.num_cpus)
        page = max(MIN_PAGE_BYTES, planned, share)
    return source.read_options.with_limits(row, page, at_once)


def longest_row_bytes() -> int:
    """Returns the longest row of text that memory has room for."""
    return max(MIN_ROW_BYTES, current_engine().budget_bytes // ROW_COPIES)


def is_text(source: _native.Source) -> bool:
    """Whether files do not tell how many rows they have."""
    return FORMATS[source.format].is_text
