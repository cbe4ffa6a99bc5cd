"""The reading of an input's files: their schema, the options of the reader, and whether they tell their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.futures import current_engine

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(source: _native.Source) -> pa.Schema:
    """Returns the schema of the rows of files."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(source.schema_ipc))


def bounded(source: _native.Source, row_copies: int | None = None) -> _native.ReadOptions:
    """Returns the options of the reader of files, with the longest row of text or page that memory has room for.

    Longer rows and pages than all tasks have memory for at once are read by one task at a time.

    Args:
        source: The files.
        row_copies: The most copies of a large row at once in what takes it, with the row itself; None if unknown.
    """
    engine = current_engine()
    return source.read_options_within(
        engine.memory_limit, engine.budget_bytes, engine.num_cpus, row_copies
    )


def is_text(source: _native.Source) -> bool:
    """Whether files do not tell how many rows they have."""
    return FORMATS[source.format].is_text
