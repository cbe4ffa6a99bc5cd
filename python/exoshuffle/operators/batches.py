"""Rows as they stream through a task: tables of a good size for one call, and back to batches.

Guarantee: no more rows are held than one chunk has; only ``movable`` may copy any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: Batches are collected up to so many rows for one query: it costs 1.5 ms however few they are.
CHUNK_ROWS = 262_144
#: Or up to so many bytes.
CHUNK_BYTES = 32_000_000


def streamed(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """The batches of tables; none is without rows, since ``to_batches`` leaves those out."""
    import pyarrow as pa

    made = (batch for table in tables for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(schema, made)


def tables_of(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Batches as tables, those without rows left out."""
    import pyarrow as pa

    return (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)


def chunks_of(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """The rows in tables that are worth a query each."""
    import pyarrow as pa

    pending: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    for batch in batches:
        pending.append(batch)
        num_rows += batch.num_rows
        num_bytes += batch.nbytes
        if num_rows >= CHUNK_ROWS or num_bytes >= CHUNK_BYTES:
            yield pa.Table.from_batches(pending)
            pending, num_rows, num_bytes = [], 0, 0
    if num_rows:
        yield pa.Table.from_batches(pending)


def movable(table: pa.Table) -> pa.Table:
    """The table with types whose rows pyarrow can pick: it cannot those of string and binary views."""
    import pyarrow as pa

    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    fields = [field.with_type(plain.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))
