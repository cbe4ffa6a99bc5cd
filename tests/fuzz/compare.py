"""Compares the rows of a result with the wanted ones."""

from __future__ import annotations

import contextlib
import datetime as dt
import struct
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa

from tests.fuzz.operations import Operation

#: From so many rows on, DuckDB compares: Python takes a second for a million values.
MANY_ROWS = 20_000
_UNITS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_DAY = 24 * 3600 * 10**9
Row = tuple[Any, ...]


def difference(found: pa.Table, wanted: pa.Table, operation: Operation) -> str | None:
    """Returns the fault of a result in a line; None if there is none."""
    if sorted(found.column_names) != sorted(wanted.column_names):
        return f"columns {found.column_names}, wanted {wanted.column_names}"
    found = found.select(wanted.column_names)
    if operation.is_part is not None:
        count = operation.is_part
        if count >= 0 and found.num_rows != min(count, wanted.num_rows):
            return f"{found.num_rows} rows of {wanted.num_rows}, wanted {count}"
    found, wanted = _unlike(found, wanted, operation.is_ordered)
    if not wanted.num_columns:
        return None
    missing, extra = _missing_and_extra(found, wanted, operation)
    if operation.is_part is None and missing:
        return f"missing {missing}; too many {extra}"
    return f"too many {extra}" if extra else None


def _unlike(found: pa.Table, wanted: pa.Table, is_ordered: bool) -> tuple[pa.Table, pa.Table]:
    """Leaves out columns that Arrow calls equal, value by value: Python takes half of a case's time for them.

    Without an order a row may have its values in any columns, so all columns go or none does.
    """
    names = [name for name in wanted.column_names if not _is_equal(found[name], wanted[name])]
    if names and not is_ordered:
        return found, wanted
    return found.select(names), wanted.select(names)


def _is_equal(found: pa.ChunkedArray, wanted: pa.ChunkedArray) -> bool:
    with contextlib.suppress(pa.ArrowException):
        return bool(found.type == wanted.type and found.equals(wanted))
    return False


def _missing_and_extra(found: pa.Table, wanted: pa.Table, operation: Operation) -> tuple[str, str]:
    """Returns how many rows of one are not in the other, and some of them; empty if none.

    Where there is an order, rows are compared by their place.
    """
    if max(found.num_rows, wanted.num_rows) >= MANY_ROWS and not operation.close:
        with contextlib.suppress(pa.ArrowException, duckdb.Error):
            return _by_duckdb(found, wanted, operation.is_ordered)
    rows, expected = (rows_of(table, operation.close) for table in (found, wanted))
    if operation.is_ordered:
        rows, expected = list(enumerate(rows)), list(enumerate(expected))
    return _told(Counter(expected) - Counter(rows)), _told(Counter(rows) - Counter(expected))


def _told(rows: Counter[Any]) -> str:
    return f"{rows.total()}: {list(rows)[:2]}" if rows else ""


def _by_duckdb(found: pa.Table, wanted: pa.Table, is_ordered: bool) -> tuple[str, str]:
    """Does the same for many rows of plain types."""
    same = found.cast(wanted.schema) if found.schema != wanted.schema else found
    names = [f"c{number}" for number in range(wanted.num_columns)]
    told = []
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        for name, table in (("found", same), ("wanted", wanted)):
            rows = table.rename_columns(names)
            numbers = pa.array(range(table.num_rows))
            connection.register(name, rows.append_column("n", numbers) if is_ordered else rows)
        for one, other in (("wanted", "found"), ("found", "wanted")):
            sql = f"from {one} except all from {other}"
            (count,) = connection.sql(f"select count(*) from ({sql})").fetchall()[0]  # noqa: S608
            told.append(f"{count}: {connection.sql(sql).limit(2).fetchall()}" if count else "")
    return told[0], told[1]


def rows_of(table: pa.Table, close: tuple[str, ...] = ()) -> list[Row]:
    """Returns rows of values that are equal if and only if they mean the same, whatever types carry them."""
    columns = [
        [None if each is None else _rounded(each) for each in column.to_pylist()]
        if name in close
        else _values(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _rounded(value: float) -> Any:
    """Rounds a number; the offset keeps numbers in the middle of two from going one way or the other."""
    return float(f"{value + 0.000123456789:.8g}") if value == value else "nan"  # noqa: PLR0124


def _values(column: pa.ChunkedArray) -> list[Any]:
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        # Dictionaries of views are not cast.
        is_view = types.is_string_view(kind.value_type)
        return column.to_pylist() if is_view else _values(column.cast(kind.value_type))
    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind):
        width = pa.int32() if types.is_time32(kind) else pa.int64()
        factor = _UNITS[kind.unit]
        return [None if each is None else each * factor for each in column.cast(width).to_pylist()]
    if types.is_date32(kind):
        return column.cast(pa.int32()).to_pylist()
    return [frozen(value) for value in column.to_pylist()]


def frozen(value: Any) -> Any:
    """Returns a value that can be counted."""
    if isinstance(value, float):
        # Zeros are one key, and so are NaNs.
        return "nan" if value != value else struct.pack("d", value + 0.0)  # noqa: PLR0124
    if isinstance(value, list):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return tuple((key, frozen(each)) for key, each in value.items())
    if isinstance(value, pa.MonthDayNano):
        # A duration is an interval to DuckDB.
        return value.days * _DAY + value.nanoseconds if value.months == 0 else tuple(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc)
    return value
