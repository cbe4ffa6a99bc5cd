"""Queries on Arrow data keep its types, and rows are taken whatever theirs."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.operators.sql import relational
from exoshuffle.operators.sql.relational import (
    as_table,
    by_number,
    computed,
    conform,
    query,
    quoted,
    row_numbers,
    storable,
    take,
)

DICTIONARY = pa.dictionary(pa.int8(), pa.string())


def dictionary(values: list[Any]) -> pa.Array:
    return pa.array(values).dictionary_encode().cast(DICTIONARY)


COLUMNS = {
    "half": pa.array([1.5, None], pa.float16()),
    "duration": pa.array([-1000, None], pa.duration("ns")),
    "zone": pa.array([10**18 + 1, None], pa.timestamp("ns", "Europe/Berlin")),
    "plain": pa.array([10**18 + 1, None], pa.timestamp("ns")),
    "decimal": pa.array([1, None], pa.decimal256(30, 2)),
    "thousands": pa.array([Decimal(5000), None], pa.decimal128(35, -3)),
    "few thousands": pa.array([Decimal(5000), None], pa.decimal32(5, -3)),
    "large": pa.array(["a", None], pa.large_string()),
    "view": pa.array(["a", None], pa.string_view()),
    "time": pa.array([1, None], pa.time64("ns")),
    "dictionary": dictionary(["a", None]),
    "list": pa.array([["a"], None], pa.list_(DICTIONARY)),
    "empty lists": pa.array([[], None], pa.list_(DICTIONARY)),
    "large list": pa.array([[1], None], pa.large_list(pa.duration("s"))),
    "fixed list": pa.array([[1.5], None], pa.list_(pa.float16(), 1)),
    "struct": pa.array(
        [{"a": 1, "b": "x"}, None], pa.struct([("a", pa.duration("s")), ("b", DICTIONARY)])
    ),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.decimal256(20, 1))),
    "nothing": pa.nulls(2),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_come_back_with_their_types(name: str) -> None:
    table = pa.table({name: COLUMNS[name]})
    result = query(f"SELECT {quoted(name)} FROM t", t=storable(table)).read_all()  # noqa: S608  a name of this test
    back = conform(result, table.schema)
    assert back.schema == table.schema
    assert back.equals(table)


@pytest.mark.parametrize(
    "kind", [pa.decimal256(39, 0), pa.list_(pa.decimal256(39, 0)), pa.decimal128(38, -1)]
)
def test_a_type_without_a_stored_form(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"column 'd' is decimal\d+\(3\d, -?\d\).* 38 digits"):
        storable(pa.table({"d": pa.array([], kind)}))


def test_results_out_of_range() -> None:
    table = pa.table({"d": pa.array([9 * 10**37] * 2, pa.decimal128(38, 0))})
    with pytest.raises(InputError, match="out of range, cast the column to double first"):
        computed("SELECT sum(d) FROM t", t=table)


def test_types_that_duckdb_cannot_read() -> None:
    table = pa.table({"d": pa.array([1], pa.decimal256(60, 0))})
    with pytest.raises(SchemaError, match="cast it first"):
        computed("SELECT max(d) FROM t", t=table)


def test_names_are_quoted() -> None:
    table = pa.table({'a "b"': [1]})
    assert computed(f"SELECT {quoted(table.column_names[0])} FROM t", t=table).equals(table)  # noqa: S608  as above


def test_tables_and_streams() -> None:
    table = pa.table({"x": [1, 2]})
    assert as_table(table) is table
    assert as_table(table.to_reader()).equals(table)


def test_row_numbers() -> None:
    assert row_numbers(3).equals(pa.array([0, 1, 2]))
    assert row_numbers(0).equals(pa.array([], pa.int64()))


@pytest.mark.parametrize("numbers", [[], [3], [1, 2, 2, 5], [5, 1, 2, 0], [2, 0, 2, 0]])
def test_rows_in_order_of_a_number(numbers: list[int]) -> None:
    pieces = [pa.array(piece, pa.int64()) for piece in (numbers[:1], numbers[1:])]
    rows = pa.array([str(row) for row in range(len(numbers))])
    found = by_number(pa.table({"row": rows, "n": pa.chunked_array(pieces)}), "n")
    # Python sorts stably, too.
    wanted = sorted(range(len(numbers)), key=numbers.__getitem__)
    assert found.to_pylist() == [{"row": str(row), "n": numbers[row]} for row in wanted]


def printable(kind: pa.DataType) -> pa.DataType:
    """Python has no nanoseconds."""
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) else kind


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_are_taken_as_they_are(name: str) -> None:
    column = COLUMNS[name]
    table = pa.table({name: pa.chunked_array([column, column.slice(1), column])})
    rows = pa.array([4, 0, None, 2, 3])
    taken = take(table, rows)
    assert taken.schema == table.schema
    whole = [str(value) for value in table[name].cast(printable(table[name].type))]
    wanted = ["None" if row is None else whole[row] for row in rows.to_pylist()]
    assert [str(value) for value in taken[name].cast(printable(taken[name].type))] == wanted
    assert take(table, pa.array([], pa.int64())).num_rows == 0


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.string_view(), pa.binary_view()])
def test_rows_of_more_bytes_than_a_chunk_holds(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relational, "MAX_CHUNK_BYTES", 1000)
    values = [str(number) * 20 for number in range(200)]
    table = pa.table({"x": pa.array(values).cast(kind)})
    taken = take(table, pa.array(range(199, -1, -1)))["x"]
    assert taken.type == kind
    assert taken.cast(pa.string()).to_pylist() == values[::-1]
    # Views have no such offsets; their chunks share bytes.
    assert "view" in str(kind) or all(chunk.nbytes <= 1000 for chunk in taken.chunks)
    assert take(table, pa.array([], pa.int64()))["x"].type == kind


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (pa.scalar(1, pa.date32()), dt.date(1970, 1, 2)),
        (pa.scalar(10_000_000, pa.int32()).cast(pa.date32()), "29349-01-26"),
        (pa.scalar(1, pa.timestamp("ns")), "1970-01-01 00:00:00.000000001"),
        (pa.scalar(2**62, pa.int64()).cast(pa.duration("s")), str(2**62)),
        (
            pa.array([[10_000_000]]).cast(pa.list_(pa.int32())).cast(pa.list_(pa.date32()))[0],
            "a value of list<item: date32[day]>",
        ),
    ],
)
def test_values_that_python_has_not_are_text(value: pa.Scalar, told: object) -> None:
    assert relational.as_python(value) == told


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.timestamp("us", "Europe/Rome"), "1970-01-01 01:00:01.000001+01:00"),
        (pa.timestamp("us", "+02:30"), "1970-01-01 02:30:01.000001+02:30"),
        (pa.timestamp("us", "-05:00"), "1969-12-31 19:00:01.000001-05:00"),
        (pa.timestamp("s", "UTC"), "1970-01-12 13:46:41+00:00"),
    ],
)
def test_moments_in_a_zone_are_those_of_pyarrow(kind: pa.DataType, text: str) -> None:
    value = pa.scalar(1_000_001, kind)
    found = relational.as_python(value)
    assert found == value.as_py()
    assert str(found) == text
    assert relational.as_python(pa.scalar(None, kind)) is None


def test_moments_in_a_zone_that_nobody_knows_are_in_utc() -> None:
    value = pa.scalar(1_000_001, pa.timestamp("us", "No/Where"))
    assert str(relational.as_python(value)) == "1970-01-01 00:00:01.000001+00:00"


def test_nanoseconds_in_a_zone_are_text() -> None:
    value = pa.scalar(1, pa.timestamp("ns", "UTC"))
    assert relational.as_python(value) == "1970-01-01 00:00:00.000000001Z"
