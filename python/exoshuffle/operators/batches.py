"""Rows as they stream through a task: tables of a good size for one call, and back to batches.

Guarantee: no function holds more rows than one chunk has; only ``movable`` may copy any.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.futures.session import engine_in_use
from exoshuffle.operators.dictionaries import without_null_values
from exoshuffle.operators.kernels import call, cast, cast_table

if TYPE_CHECKING:
    import pyarrow as pa

#: Batches are collected up to so many rows for one query: a query costs 1.5 ms however few they are.
CHUNK_ROWS = 262_144
#: Or up to so many bytes.
CHUNK_BYTES = 32_000_000
#: Or this share of the budget, for each task that runs at once, if it is no less than is worth a query. Steps may make
#: many columns of few: 30 numbers, made of each of 300,000 rows, had 235 MB within 200. With twice the share, and
#: ``evaluation.MADE_PART`` at 1, 50,000 groups of them had 220 MB; so it is 184.
CHUNK_SHARE = 16
MIN_CHUNK_BYTES = 2_000_000
#: A batch that has more than half of that is a chunk alone. Two texts of 20 MB with the short rows between them were
#: one chunk, and copied together. A filter of six such texts wrote them with 376 MB within 300.
LARGE_BYTES = CHUNK_BYTES // 2
#: So many small batches are put together. Each costs 8 kB beside its rows, and its results as much again. A filter of
#: two files of 2,500 batches of one row took 247 MB within 200.
LOOSE_BATCHES, LOOSE_BYTES = 256, 4_000_000
#: Batches with fewer rows or bytes are taken together; batches that were read mostly have as many rows.
NEIGHBOUR_ROWS = 4096
NEIGHBOUR_BYTES = 1_000_000


def streamed(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """Returns the batches of tables; none is without rows, since ``to_batches`` leaves those out."""
    import pyarrow as pa

    made = (batch for table in tables for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(schema, made)


def neighbours(batches: pa.RecordBatchReader) -> Iterator[list[pa.RecordBatch]]:
    """Yields batches with rows; small ones come together, for work that costs the same for few rows as for many."""
    bytes_of = sizes_of(batches.schema)
    pending: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        num_rows += batch.num_rows
        num_bytes += bytes_of(batch)
        if num_rows >= NEIGHBOUR_ROWS or num_bytes >= NEIGHBOUR_BYTES:
            yield pending
            pending, num_rows, num_bytes = [], 0, 0
    if pending:
        yield pending


def sizes_of(schema: pa.Schema) -> Callable[[pa.RecordBatch], int]:
    """Returns what tells the bytes of a batch; those of numbers follow from their rows, each with a bit for null.

    Why: Arrow looks at the ranges of every column, which took 35 ms for a batch of 3,000 on busy CPUs. A group-by of
    them by a computed key spent a third of its time so.
    """
    import pyarrow as pa

    if all(pa.types.is_primitive(kind) for kind in schema.types):
        bits = sum(kind.bit_width + 1 for kind in schema.types)
        return lambda batch: batch.num_rows * bits // 8
    return lambda batch: batch.nbytes


def tables_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields batches as tables, without those that have no rows."""
    import pyarrow as pa

    return (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)


def chunk_bytes() -> int:
    """Returns the bytes of a chunk, within the memory of the engine."""
    engine = engine_in_use()
    if engine is None:
        return CHUNK_BYTES
    share = engine.budget_bytes // (CHUNK_SHARE * engine.num_cpus)
    return min(CHUNK_BYTES, max(MIN_CHUNK_BYTES, share))


def chunks_of(
    batches: pa.RecordBatchReader, num_bytes: int | None = None, num_rows: int | None = None
) -> Iterator[pa.Table]:
    """Yields the rows in tables worth a query each.

    Args:
        batches: The rows.
        num_bytes: About the most bytes of a table; default: ``chunk_bytes``.
        num_rows: About the most rows of a table; default: ``CHUNK_ROWS``.
    """
    import pyarrow as pa

    most_bytes = chunk_bytes() if num_bytes is None else num_bytes
    most_rows = CHUNK_ROWS if num_rows is None else num_rows
    bytes_of = sizes_of(batches.schema)

    pending: list[pa.RecordBatch] = []
    rows = size = loose = 0
    for batch in batches:
        batch_bytes = bytes_of(batch)
        is_large = batch_bytes > LARGE_BYTES
        if rows and is_large:
            yield pa.Table.from_batches(pending)
            pending, rows, size, loose = [], 0, 0, 0
        pending.append(batch)
        rows += batch.num_rows
        size += batch_bytes
        loose += 1
        if rows >= most_rows or size >= most_bytes or is_large:
            yield pa.Table.from_batches(pending)
            pending, rows, size, loose = [], 0, 0, 0
        elif loose == LOOSE_BATCHES:
            pending[-loose:] = _together(pending[-loose:])
            loose = 0
    if rows:
        yield pa.Table.from_batches(pending)


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Returns small batches as one; larger ones, and types that Arrow cannot put together, as they are."""
    import pyarrow as pa

    if sum(batch.nbytes for batch in batches) > LOOSE_BYTES:
        return batches
    together: list[pa.RecordBatch] = joined(pa.Table.from_batches(batches)).to_batches()
    return together


def joined(table: pa.Table) -> pa.Table:
    """Returns a table of one batch; one with types that Arrow cannot put together, as it is. Cost: copies it."""
    import pyarrow as pa

    try:
        return table.combine_chunks()
    except pa.ArrowException:
        return table


def movable(table: pa.Table) -> pa.Table:
    """Returns the table with columns whose rows pyarrow can pick; see ``movable_column``."""
    import pyarrow as pa

    columns = list(map(movable_column, table.columns))
    kinds = [column.type for column in columns]
    fields = [field.with_type(kind) for field, kind in zip(table.schema, kinds, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))


def movable_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the column as ``movable_type`` says, and with dictionaries that pyarrow can join."""
    return without_null_values(cast(column, movable_type(column.type)))


def picked(rows: pa.Table, mask: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Returns the rows for which the mask is true, in the types that they have.

    All are no copy, so that one of 20 MB among short ones costs nothing more.

    Raises:
        InputError, SchemaError: See ``picking``.
    """
    if not mask.null_count and call("all", mask).as_py():
        return rows
    with picking(rows.schema.types):
        return cast_table(call("filter", movable(rows), mask), rows.schema)


def movable_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type with plain text and binary instead of views, also nested: pyarrow cannot pick rows of views."""
    import pyarrow as pa

    def plain(field: pa.Field) -> pa.Field:
        return field.with_type(movable_type(field.type))

    types = pa.types
    if types.is_list(kind):
        return pa.list_(plain(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(plain(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(plain(kind.value_field), kind.list_size)
    if types.is_struct(kind):
        return pa.struct([plain(kind.field(index)) for index in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(plain(kind.key_field), plain(kind.item_field), kind.keys_sorted)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


@contextlib.contextmanager
def picking(kinds: Iterable[pa.DataType]) -> Iterator[None]:
    """Wraps code that picks rows of columns of these types; if it joins chunks, their dictionaries become one.

    Raises:
        InputError: That dictionary has more values than its keys can number.
        SchemaError: A type that pyarrow cannot pick from, such as a run-end encoded one.
    """
    import pyarrow as pa

    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            f"a column has a type whose rows cannot be picked, so write it as another or leave it out: {error}"
        ) from error
    except pa.ArrowInvalid as error:
        found = next(filter(pa.types.is_dictionary, kinds), None)
        if found is None:
            raise
        raise InputError(
            f"a column of {found} has more distinct values than its keys can number; cast it to a wider key type or "
            "to the value type"
        ) from error
