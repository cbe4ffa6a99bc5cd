"""Computes expressions for the rows of a table, for as many rows at a time as there is memory for.

Guarantee: the result is exactly the values of all rows, in order, or an error that names the expression and the row.
``sizes`` tells beforehand how much functions may make of rows. Rows are taken in parts that make no more than a task's
share. If DuckDB still finds no memory, half of the rows are tried, down to one. The results that come out at once are
about as large as that share, or as the rows that went in.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import InputError, shown
from exoshuffle.operators.kernels import call
from exoshuffle.operators.sql.comparisons import compared
from exoshuffle.operators.sql.databases import (
    Cursor,
    expression_bytes,
    is_out_of_memory,
    lone_cursor,
)
from exoshuffle.operators.sql.queries import MANY_ROWS, readable, select
from exoshuffle.operators.sql.relational import as_python, first_line
from exoshuffle.operators.sql.types import Expression, too_large
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a batch of text or lists; after each, its size is checked. Vectors have 2,048.
_BATCH_ROWS = 16_384
#: DuckDB computes so many rows at a time.
_VECTOR_ROWS = 2_048
#: Expressions of a query. DuckDB found no memory for 3,000 of them, so that rows were computed one by one.
_MOST_TOGETHER = 256
#: The most that a function has of its text: a list of its parts, of 16 bytes each.
_TIMES_TEXT = 16
#: Rows of a batch if functions of the expressions make much of little.
_GROWING_ROWS = _VECTOR_ROWS
#: Numbers that are made at once may take this part of a task's share, or as much as the rows that they are made of.
MADE_PART = 4
#: Columns that an error about a row shows.
_SHOWN_COLUMNS = 4


def evaluated(
    expressions: Sequence[Expression], table: pa.Table
) -> Iterator[tuple[pa.Table, list[pa.ChunkedArray]]]:
    """Yields parts of the table, in order, with the values of each expression for their rows.

    Raises:
        InputError: A value that cannot be computed, such as a number from other text, or one that is larger than there
            is memory for.

    Cost: one query (1.5 ms) if anything is computed, another for each further time zone, and two for each part if
    values are large. Memory for the results, and for copies of dictionary columns.
    """
    computed = [one for one in expressions if not one.is_column and not one.comparisons]
    parts = _bounded(computed, table) if computed else iter((table,))
    for part in parts:
        for rows, values in _fitting(computed, part):
            results = iter(values)
            yield rows, [_value(expression, rows, results) for expression in expressions]


def _value(
    expression: Expression, rows: pa.Table, results: Iterator[pa.ChunkedArray]
) -> pa.ChunkedArray:
    if expression.is_column:
        return rows.column(expression.text)
    if expression.comparisons:
        return compared(expression.comparisons, rows)
    return next(results)


def _fitting(
    expressions: list[Expression], table: pa.Table
) -> Iterator[tuple[pa.Table, list[pa.ChunkedArray]]]:
    """Yields results in pieces that there is memory for."""
    if not expressions:
        yield table, []
        return
    most = _most_rows(expressions, table)
    start, size = 0, most
    while start < table.num_rows:
        rows = table.slice(start, size)
        try:
            values = _computed(expressions, rows)
        except Exception as error:  # noqa: BLE001  DuckDB's, which only databases.py may import
            if not is_out_of_memory(error):
                raise _failed(expressions, rows) from None
            if rows.num_rows > 1:
                size = rows.num_rows // 2
                continue
            values = _of_one_row(expressions, rows)
        # Results that became large have fewer rows than were asked for.
        done = min(map(len, values))
        yield rows.slice(0, done), [column.slice(0, done) for column in values]
        start += done
        size = min(2 * size, most) if done == rows.num_rows else done


def _most_rows(expressions: Sequence[Expression], table: pa.Table) -> int:
    """Returns of how many rows the numbers that are made take a part of a task's share, or as much as these rows.

    They come out at once. 30 numbers of each of 300,000 rows had 126 MB within 200 MB, where one row had 24 bytes.
    """
    bits = max(1, sum(one.type.bit_width for one in expressions if _has_fixed_width(one.type)))
    most = max(8 * (expression_bytes() // MADE_PART) // bits, _VECTOR_ROWS)
    # The bytes of a table are asked for only if they matter: that takes milliseconds for thousands of columns.
    if most < table.num_rows:
        most = max(most, 8 * table.nbytes // bits)
    return int(min(table.num_rows, most))


def _computed(
    expressions: Sequence[Expression],
    rows: pa.Table,
    cursor: Cursor | None = None,
) -> list[pa.ChunkedArray]:
    """Returns the values of each expression for the first of the rows: for all, unless the values become large."""
    import pyarrow as pa

    for name, part in {name: part for one in expressions for name, part in one.parts}.items():
        [values] = _computed([part], rows, cursor)
        rows = rows.slice(0, len(values)).append_column(name, values)
    found: dict[Expression, pa.ChunkedArray] = {}
    for _, group in itertools.groupby(sorted(expressions, key=_setting), key=_setting):
        for together in _queries(group, rows):
            found |= zip(together, _queried(together, rows, cursor), strict=True)
    return [pa.chunked_array(found[one].chunks, found[one].type) for one in expressions]


def _queries(expressions: Iterable[Expression], rows: pa.Table) -> Iterator[list[Expression]]:
    """Yields the expressions by query.

    DuckDB has what all of a query make of a vector at once, and does not count it. 500 of ``split_part`` had 1.2 GB in
    one query, for 300 rows of 2 kB. Nor does a query know columns apart whose names differ in case.
    """
    share = min(1.0, _VECTOR_ROWS / max(1, rows.num_rows))
    sizes = {name: _text_bytes(rows.column(name)) * share for name in rows.column_names}
    limit, held = expression_bytes(), 0.0
    together: list[Expression] = []
    known: dict[str, str] = {}
    for expression in expressions:
        makes = _TIMES_TEXT * sum(sizes[name] for name in expression.reads)
        is_full = held + makes > limit or len(together) == _MOST_TOGETHER
        is_taken = any(known.get(name.lower(), name) != name for name in expression.reads)
        if together and (is_full or is_taken):
            yield together
            together, known, held = [], {}, 0.0
        together.append(expression)
        known |= {name.lower(): name for name in expression.reads}
        held += makes
    yield together


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Returns the bytes of a column of text or lists; 0 of one of numbers, of which expressions make as much."""
    return 0 if _has_fixed_width(column.type) else int(column.nbytes)


def _setting(expression: Expression) -> tuple[str, bool]:
    """Returns the settings that expressions of one query have in common."""
    return expression.zone, expression.microseconds


def _queried(
    expressions: list[Expression], rows: pa.Table, cursor: Cursor | None
) -> list[pa.ChunkedArray]:
    """Returns the values of expressions of one setting."""
    import pyarrow as pa

    zone, microseconds = _setting(expressions[0])
    names = sorted({name for expression in expressions for name in expression.reads})
    batches = select(
        [expression.sql for expression in expressions],
        readable(rows, names, microseconds=microseconds),
        zone,
        cursor=cursor,
        batch_rows=_batch_rows(expressions),
    )
    share = expression_bytes()
    made: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        made.append(batch)
        size += batch.nbytes
        if size > share and size > rows.nbytes:
            break
    results = pa.Table.from_batches(made, batches.schema)
    return [
        column if column.type == expression.type else column.cast(expression.type)
        for column, expression in zip(results.columns, expressions, strict=True)
    ]


def _batch_rows(expressions: Sequence[Expression]) -> int:
    """Returns the rows of a batch: few, to keep its bytes small; many if all values are numbers."""
    if any(expression.growth for expression in expressions):
        return _GROWING_ROWS
    is_fixed = all(_has_fixed_width(expression.type) for expression in expressions)
    return MANY_ROWS if is_fixed else _BATCH_ROWS


def _has_fixed_width(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _bounded(expressions: list[Expression], table: pa.Table) -> Iterator[pa.Table]:
    """Yields parts of the table for whose rows growing functions make no more than a task's share."""
    levels = [(expression, sql) for expression in expressions for sql in expression.growth]
    return _cut(levels, table, expression_bytes())


def _cut(
    levels: Sequence[tuple[Expression, str]], table: pa.Table, limit: int
) -> Iterator[pa.Table]:
    if not levels:
        yield table
        return
    (expression, sql), *others = levels
    rows = readable(table, expression.columns, microseconds=True)
    try:
        column = select([sql], rows, expression.zone).read_all().column(0)
    except Exception as error:
        if is_out_of_memory(error) or not table.num_rows:
            raise
        raise _failed([expression], table) from None
    if (call("sum", column).as_py() or 0) <= limit:
        yield from _cut(others, table, limit)
        return
    sizes = column.to_pylist()
    ends = list(itertools.accumulate(sizes, initial=0.0))
    start = 0
    while start < table.num_rows:
        end = bisect.bisect_right(ends, ends[start] + limit) - 1
        if end <= start:
            what = f"makes about {format_bytes(int(sizes[start]))} where {_row(expression, table.slice(start, 1))}"
            raise too_large(expression.text, what, limit)
        yield from _cut(others, table.slice(start, end - start), limit)
        start = end


def _of_one_row(expressions: list[Expression], row: pa.Table) -> list[pa.ChunkedArray]:
    """Returns the values of one row, computed alone, so that other tasks take no part of the memory."""
    values = []
    for expression in expressions:
        try:
            values += _computed([expression], row, lone_cursor())
        except Exception as error:  # noqa: BLE001  DuckDB's, which only databases.py may import
            if not is_out_of_memory(error):
                raise _failed([expression], row) from None
            what = f"needs more where {_row(expression, row)}"
            raise too_large(expression.text, what, expression_bytes()) from None
    return values


def _failed(expressions: Sequence[Expression], rows: pa.Table) -> Exception:
    """Returns the error about the first of the rows for which an expression fails."""
    for expression in expressions:
        error = _error([expression], rows)
        if error is None:
            continue
        while rows.num_rows > 1:
            half = rows.num_rows // 2
            first, second = rows.slice(0, half), rows.slice(half)
            found = _error([expression], first)
            rows = second if found is None else first
        error = _error([expression], rows) or error
        where = _row(expression, rows)
        return InputError(f"cannot compute {expression.text!r} where {where}: {_reason(error)}")
    names = ", ".join(repr(expression.text) for expression in expressions)
    return InputError(f"cannot compute {names}")


def _reason(error: Exception) -> str:
    """Returns what DuckDB says, and what to write; its own remedy for divisions is a setting, which nobody has here."""
    said = first_line(error)
    if "Division by zero" in said:
        return "an integer is divided by 0; write nullif(divisor, 0) for the divisor, or try(...) around all, for null"
    return f"{said}; try_cast() and case when pass over such rows"


def _error(expressions: Sequence[Expression], rows: pa.Table) -> Exception | None:
    """Returns why these rows fail; None if they do not, or fail for want of memory."""
    try:
        _computed(expressions, rows)
    except Exception as error:  # noqa: BLE001  DuckDB's, which only databases.py may import; or pyarrow's
        return None if is_out_of_memory(error) else error
    return None


def _row(expression: Expression, row: pa.Table) -> str:
    """Returns the values that an expression reads of a row, as text."""
    values = [
        f"{name} is {_shown(row.column(name)[0])}" for name in expression.columns[:_SHOWN_COLUMNS]
    ]
    return " and ".join(values) or "it reads no column"


def _shown(value: pa.Scalar) -> str:
    import pyarrow as pa

    kind = value.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return shown(value.as_py()[:200] if value.is_valid else None)
    return shown(as_python(value))
