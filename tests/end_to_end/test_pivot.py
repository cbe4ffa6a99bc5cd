"""Columns made of rows travel as the rows that they are made of, whatever the function and the types."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import SchemaError

pytestmark = pytest.mark.usefixtures("engine")

ROWS: dict[str, list[Any]] = {
    "k": [1, 1, 1, 2, 2, 3],
    "on": ["a", "b", "a", "b", None, "c"],
    "v": [5, None, 7, 4, 6, 9],
}


@pytest.fixture
def rows() -> xs.Dataset:
    return xs.from_pydict(ROWS)


def test_rows_have_few_columns_on_their_way() -> None:
    """With a column for each value, a row of 21 bytes took 250 on its way."""
    numbers = xs.range(30_000).with_columns(k="id * 7919 % 1000", p="id % 30")
    bill = numbers.pivot("p", index="k", values="id", aggregate="max").explain()
    assert max(one.row_bytes / one.rows for one in (bill, *bill.before)) < 40


@pytest.mark.parametrize(
    ("function", "of_1", "of_2"),
    [
        ("list", [[5, 7], [None], None, None], [None, [4], None, [6]]),
        ("count", [2, 0, 0, 0], [0, 1, 0, 1]),
        ("n_unique", [2, 0, 0, 0], [0, 1, 0, 1]),
        ("approx_n_unique", [2, 0, 0, 0], [0, 1, 0, 1]),
        ("sum", [12, None, None, None], [None, 4, None, 6]),
        ("mean", [6.0, None, None, None], [None, 4.0, None, 6.0]),
        ("first", [5, None, None, None], [None, 4, None, 6]),
        ("last", [7, None, None, None], [None, 4, None, 6]),
    ],
)
def test_functions_see_the_rows_of_the_value_alone(
    rows: xs.Dataset, function: str, of_1: list[object], of_2: list[object]
) -> None:
    made = rows.pivot("on", index="k", values="v", aggregate=function).sort("k")
    assert made.columns == ["k", "a", "b", "c", "null"]
    _, *found = made.to_pydict().values()
    assert [[column[row] for column in found] for row in (0, 1)] == [of_1, of_2]


def test_values_that_become_no_column_keep_their_groups(rows: xs.Dataset) -> None:
    made = rows.pivot("on", index="k", values="v", aggregate="max", on_columns=["c"]).sort("k")
    assert made.to_pydict() == {"k": [1, 2, 3], "c": [None, None, 9]}


@pytest.mark.parametrize(("on", "values"), [("k", "v"), ("on", "k"), ("on", "on"), ("k", "k")])
def test_a_column_may_be_used_twice(rows: xs.Dataset, on: str, values: str) -> None:
    made = rows.pivot(on, index="k", values=values, aggregate="count").to_pylist()
    counts = Counter[tuple[object, str]]()
    for key, name, value in zip(ROWS["k"], ROWS[on], ROWS[values], strict=True):
        counts[key, "null" if name is None else str(name)] += value is not None
    found = {(row["k"], name): count for row in made for name, count in row.items() if name != "k"}
    assert {pair: count for pair, count in found.items() if count} == +counts


@pytest.mark.parametrize(
    "value",
    [
        decimal.Decimal("1.25"),
        dt.date(2020, 2, 29),
        dt.datetime(2020, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001  it has no zone
        dt.time(1, 2, 3),
        b"bytes",
        {"a": 1, "b": ["x"]},
        [1, None],
        True,
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_come_back_as_they_were(value: object) -> None:
    table = pa.table({"k": [1, 2], "on": ["x", "y"], "v": pa.array([value, value])})
    made = xs.from_arrow(table).pivot("on", index="k", values="v").sort("k").to_pydict()
    assert made == {"k": [1, 2], "x": [value, None], "y": [None, value]}


def test_errors_name_the_column_of_the_user(rows: xs.Dataset) -> None:
    with pytest.raises(SchemaError, match="sum is asked of column 'on', which is string"):
        rows.pivot("k", index="v", values="on", aggregate="sum")
    large = pa.table({"k": [1], "v": pa.array([decimal.Decimal(1)], pa.decimal256(50, 2))})
    with pytest.raises(SchemaError, match="column 'v' is decimal256"):
        xs.from_arrow(large).pivot("k", index="k", values="v")
