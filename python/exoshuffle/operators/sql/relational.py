"""Relational kernels inside one task: SQL on Arrow data in memory, run by DuckDB on the calling thread.

Guarantee: columns keep their types. DuckDB has no type for some that Arrow has (dictionaries, durations, half floats).
These go in as their plain form (``storable``) and come out cast to the schema that the caller expects (``conform``).
Columns that are only passed on need not go in at all: let a query find row numbers and ``take`` the rows.

Why DuckDB: per core it grouped 10.5 million rows a second, pyarrow 9.1, Polars 6.9 (2 million rows in 0.86 million
groups). And rows must compare as its users expect: NaN equals NaN, null is a group, −0.0 equals 0.0. DataFusion's
kernels would have been in our language, but take 8 minutes to build on two cores and need an older Arrow.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING

from exoshuffle.errors import InputError, MemoryLimitError, SchemaError
from exoshuffle.futures import Value
from exoshuffle.operators.arrow_values import int64
from exoshuffle.operators.batches import movable_column, movable_type, picking
from exoshuffle.operators.kernels import call, cast
from exoshuffle.operators.sql.databases import (
    Relation,
    idle_cursor,
    is_out_of_memory,
    relational_cursor,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes that offsets of 32 bits can address: the most that one chunk of a string or binary column can hold.
MAX_CHUNK_BYTES = 2**31 - 1

#: The most digits of a decimal that DuckDB computes with.
_MOST_DIGITS = 38
#: Rows of a batch of a result that is read whole: from numbers in one chunk, rows are taken in a fifth of the time.
_WHOLE_ROWS = 1 << 20
_MAX_KEPT_NUMBERS = 1 << 20
_kept_numbers: pa.Array | None = None
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)

#: Types to take rows from if a column's own type is too small, or if pyarrow cannot take from it (views).
_WIDE = {
    "string": "large_string",
    "string_view": "large_string",
    "binary": "large_binary",
    "binary_view": "large_binary",
}
#: Types that every key and every aggregate function that is defined for them takes; a test tries all.
_COMMON = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)) | {
    "bool",
    "double",
    "float",
    "string",
    "large_string",
    "string_view",
    "date32[day]",
    "timestamp[us]",
}


def query(sql: str, **tables: object) -> pa.RecordBatchReader:
    """Runs a query over Arrow tables or streams, which keywords name; the result streams.

    Cost: about 1.5 ms beside the work itself; the GIL is released while DuckDB works.
    """
    return _run(sql, tables).to_arrow_reader()


def computed(sql: str, **tables: object) -> pa.Table:
    """Runs a ``query`` and reads it whole.

    Raises:
        SchemaError: A column is of a type that DuckDB cannot read.
        InputError: A value is out of range, for example a sum of more than 38 digits.
        MemoryLimitError: It takes more than the whole budget.
    """
    try:
        return _run(sql, tables).to_arrow_reader(_WHOLE_ROWS).read_all()
    except Exception as error:
        line = first_line(error)
        if is_out_of_memory(error):
            raise MemoryLimitError(
                f"DuckDB found no memory for the rows of a partition: {line}; raise memory_limit, or make more and "
                "smaller partitions with num_partitions="
            ) from None
        # The errors are told by name, since only databases.py may import DuckDB.
        match type(error).__name__:
            case "NotImplementedException":
                raise SchemaError(f"cannot compute with a column, cast it first: {line}") from None
            case "OutOfRangeException":
                raise InputError(
                    f"a result is out of range, cast the column to double first: {line}"
                ) from None
        raise


def as_table(rows: pa.Table | pa.RecordBatchReader) -> pa.Table:
    """Returns the rows as a table; batches are read, not copied."""
    import pyarrow as pa

    return rows if isinstance(rows, pa.Table) else rows.read_all()


def row_numbers(num_rows: int) -> pa.Array:
    """Returns 0, 1, 2 … as int64, the names of rows in queries. Up to a million are kept for all tasks: 8 MB."""
    global _kept_numbers
    if num_rows > _MAX_KEPT_NUMBERS:
        return _numbers(num_rows)
    kept = _kept_numbers
    if kept is None or len(kept) < num_rows:
        _kept_numbers = kept = _numbers(1 << (num_rows - 1).bit_length())
    return kept.slice(0, num_rows)


def _numbers(count: int) -> pa.Array:
    import pyarrow as pa

    return call("subtract", call("cumulative_sum", pa.repeat(int64(1), count)), int64(1))


def take(table: pa.Table, rows: pa.Array) -> pa.Table:
    """Returns the rows of these numbers (an int64 array), columns as they are; a null number gives a row of nulls.

    Cost: pyarrow first joins the chunks of a column, so for a moment there is a second copy of the largest one.
    """
    import pyarrow as pa

    columns = [take_column(column, rows) for column in table.columns]
    return pa.table(columns, schema=table.schema)


def take_column(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """Does what ``take`` does for one column.

    Raises:
        InputError, SchemaError: See ``batches.picking``.
    """
    import pyarrow as pa

    wide = _WIDE.get(str(column.type))
    if wide is not None and not len(rows):
        return column.slice(
            0, 0
        )  # queries are tried without rows, and methods of arrays import pyarrow.compute
    fits = column.nbytes <= MAX_CHUNK_BYTES and not str(column.type).endswith("_view")
    if wide is None or fits:
        with picking([column.type]):
            taken = call("take", movable_column(column), rows)
            return cast(taken, column.type)
    taken = column.cast(wide).take(rows)
    return pa.chunked_array(
        [part.cast(column.type).combine_chunks() for part in _parts(taken)], column.type
    )


def by_number(table: pa.Table, name: str) -> pa.Table:
    """Returns the rows in ascending order of a column of numbers; rows of equal numbers keep their order.

    Why not ORDER BY: among a million rows of five numbers, DuckDB took 40 ns a row, and this 20. If rows are in order
    already, as they often are after a query on one thread, this takes 2.
    """
    numbers = table[name]
    before = numbers.slice(0, max(len(numbers) - 1, 0))
    if len(numbers) <= 1 or call("all", call("greater_equal", numbers.slice(1), before)).as_py():
        return table
    return take(table, call("sort_indices", numbers))


def in_row_order(results: pa.Table, name: str) -> pa.Table:
    """Returns results of all rows in the order of the rows, which their column of this name counts.

    Why not ``by_number``: all numbers are there, so nothing has to be sorted. For a million rows that takes 5 ms and
    not 144, with pyarrow 20 or later.
    """
    import pyarrow as pa

    try:
        places = call("inverse_permutation", results[name])
    except pa.ArrowKeyError:  # an older pyarrow has no such kernel
        places = call("sort_indices", results[name])
    return take(results, places)


def storable(table: pa.Table) -> pa.Table:
    """Returns the table with types that DuckDB keeps, so that ``conform`` can bring the declared ones back.

    Raises:
        SchemaError: The type of a column has no such form; names the column.
    """
    import pyarrow as pa

    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = _stored_type(field.type, field.name)
        columns.append(column if kind == field.type else plain(column).cast(kind))
    return pa.table(columns, names=table.column_names)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns the columns of ``schema``, in its order and with its types."""
    import pyarrow as pa

    columns = [_conformed(table[field.name], field.type) for field in schema]
    return pa.table(columns, schema=schema)


def first_line(error: BaseException) -> str:
    """Returns the first line of DuckDB's message; further lines repeat the query, which users did not write."""
    return str(error).partition("\n")[0]


def is_common(kind: pa.DataType) -> bool:
    """Whether DuckDB is known to read, compare and aggregate a type, so that it need not be asked: that takes 3 ms.

    A sum of decimals took 12 ms.
    """
    import pyarrow as pa

    is_decimal = pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision
    return is_decimal or str(kind) in _COMMON


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a dictionary's values, plain text instead of views; any other type as it is."""
    import pyarrow as pa

    return movable_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


def has_too_many_digits(kind: pa.DataType) -> bool:
    """Whether a type is of decimals with more digits than DuckDB computes with."""
    import pyarrow as pa

    return bool(pa.types.is_decimal(kind)) and _num_digits(kind) > _MOST_DIGITS


def _num_digits(kind: pa.DataType) -> int:
    """Returns the digits before and behind the point of decimals; a scale below 0 stands for zeros before it."""
    return int(kind.precision - min(kind.scale, 0))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column of dictionaries as their values, in ``plain_type``; any other as it is."""
    import pyarrow as pa

    kind = column.type
    if not pa.types.is_dictionary(kind):
        return column
    values = plain_type(kind)
    # pyarrow cannot take values out of views.
    return column.cast(pa.dictionary(kind.index_type, values, kind.ordered)).cast(values)


def as_python(value: pa.Scalar) -> Value:
    """Returns a value as Python's; as text if Python has no such value: nanoseconds, years after 9999."""
    import pyarrow as pa

    try:
        plain = _in_micros(value)
        has_zone = pa.types.is_timestamp(plain.type) and plain.type.tz and plain.is_valid
        return _in_zone(plain) if has_zone else plain.as_py()
    except (ValueError, OverflowError):
        is_nested = pa.types.is_nested(value.type)
        return f"a value of {value.type}" if is_nested else value.cast(pa.string()).as_py()


def _in_zone(value: pa.Scalar) -> dt.datetime:
    """Returns a moment in its time zone, in UTC if nobody knows the zone; ``as_py`` would import pandas."""
    from zoneinfo import ZoneInfo

    import pyarrow as pa

    name = value.type.tz
    zone: dt.tzinfo | None = dt.timezone.utc
    with contextlib.suppress(KeyError, ValueError):
        is_offset = name[0] in "+-"
        zone = dt.time.fromisoformat(f"00:00{name}").tzinfo if is_offset else ZoneInfo(name)
    micros = value.cast(pa.timestamp("us", name)).cast(pa.int64()).as_py()
    return (_EPOCH + dt.timedelta(microseconds=micros)).astimezone(zone)


def _in_micros(value: pa.Scalar) -> pa.Scalar:
    """Returns a time in nanoseconds as microseconds; raises ``ValueError`` if that loses any.

    Arrow gives such times as values of pandas, if that is installed. Results do not depend on it.
    """
    import pyarrow as pa

    kind = value.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return value.cast(pa.timestamp("us", kind.tz))
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return value.cast(pa.duration("us"))
    return value.cast(pa.time64("us")) if kind == pa.time64("ns") else value


def quoted(name: str) -> str:
    """Returns a column name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _conformed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    import pyarrow as pa

    if kind == column.type:
        return column
    # DuckDB 1.5 turns nulls without a type into integers, and Arrow casts nothing to that type.
    return pa.nulls(len(column)) if pa.types.is_null(kind) else column.cast(kind)


def _parts(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """Returns the column in parts that fit into a chunk; if a single value does not, the cast refuses it."""
    if column.nbytes <= MAX_CHUNK_BYTES or len(column) < 2:
        return [column]
    half = len(column) // 2
    return [*_parts(column.slice(0, half)), *_parts(column.slice(half))]


def _stored_type(kind: pa.DataType, name: str) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _stored_type(plain_type(kind), name)
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        # DuckDB 1.5 would cut it to microseconds if it had a zone; the instants, in UTC, need none.
        return pa.timestamp("ns")
    # DuckDB has no scales below 0, and fails at them with words about itself.
    if pa.types.is_decimal256(kind) or (pa.types.is_decimal(kind) and kind.scale < 0):
        if has_too_many_digits(kind):
            raise SchemaError(
                f"column {name!r} is {kind}; at most {_MOST_DIGITS} digits can be computed with, so cast it first"
            )
        return pa.decimal128(_num_digits(kind), max(kind.scale, 0))
    return _stored_nested_type(kind, name)


def _stored_nested_type(kind: pa.DataType, name: str) -> pa.DataType:
    import pyarrow as pa

    def stored(field: pa.Field) -> pa.Field:
        return field.with_type(_stored_type(field.type, name))

    if pa.types.is_list(kind):
        return pa.list_(stored(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(stored(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(stored(kind.value_field), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([stored(kind.field(index)) for index in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(stored(kind.key_field), stored(kind.item_field), kind.keys_sorted)
    return kind


def _run(sql: str, tables: dict[str, pa.Table | pa.RecordBatchReader]) -> Relation:
    has_rows = any(getattr(table, "num_rows", 1) for table in tables.values())
    cursor = relational_cursor() if has_rows else idle_cursor()
    for name, table in tables.items():
        cursor.register(name, table)
    return cursor.sql(sql)
