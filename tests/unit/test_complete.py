"""Rows with a null in any of many columns are left out without a condition in SQL, and are the same rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.operators.steps import columns, complete
from exoshuffle.operators.steps.complete import MOST_CONDITIONS

pytestmark = pytest.mark.usefixtures("engine")
COUNT = MOST_CONDITIONS + 10
ROWS = 50


def _value(row: int, place: int) -> Any:
    """Each third row has a null, in a column of its own."""
    if row % 3 == 0 and place == row % COUNT:
        return None
    return [row, f"text {row}", [row, None], {"a": None}, float("nan")][place % 5]


def _table() -> pa.Table:
    return pa.table(
        {f"c{place}": [_value(row, place) for row in range(ROWS)] for place in range(COUNT)}
    )


def test_the_same_rows_remain_as_with_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = xs.from_arrow(_table())
    found = rows.drop_nulls().to_arrow()
    monkeypatch.setattr(complete, "MOST_CONDITIONS", COUNT)
    expected = rows.drop_nulls().to_arrow()
    assert found.num_rows == ROWS - 17
    assert str(found.to_pylist()) == str(expected.to_pylist())  # NaN is not equal to itself
    assert found.schema == expected.schema


@pytest.mark.parametrize("place", ["alone", "in a list", "in a struct"])
def test_decimals_that_no_condition_can_name(place: str) -> None:
    """DuckDB has 38 digits at most; rows with a null were refused as if something were computed."""
    value, kind = Decimal("1e40"), pa.decimal256(50, 2)
    places = {
        "alone": (value, kind),
        "in a list": ([value, None], pa.list_(kind)),
        "in a struct": ({"a": value}, pa.struct({"a": kind})),
    }
    held, whole = places[place]
    rows = pa.table({"x": pa.array([held, None, held], whole), "y": [1, 2, None]})
    dataset = xs.from_arrow(rows)
    assert dataset.drop_nulls().to_arrow().equals(rows.slice(0, 1))
    assert dataset.drop_nulls("x").to_pydict()["y"] == [1, None]
    assert dataset.drop_nulls("y").to_pydict()["y"] == [1, 2]


def test_a_column_behind_it_is_read_with_those_that_it_looks_at() -> None:
    rows = xs.from_arrow(_table()).drop_nulls()
    assert rows.select("c0").to_pydict() == {"c0": [row for row in range(ROWS) if row % 3]}


def test_no_condition_is_understood_for_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 3,000 columns took 4.6 s of CPU with one, and take 1.4."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("a text was parsed")

    monkeypatch.setattr(columns, "parse_expression", refuse)
    assert len(xs.from_arrow(_table()).drop_nulls().to_arrow()) == ROWS - 17


def test_dictionaries_that_have_a_null_are_left_to_a_condition() -> None:
    """Arrow does not count a null among the values of a dictionary."""
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    others = {f"c{place}": pa.array([1, 2, 3]) for place in range(COUNT)}
    rows = xs.from_arrow(pa.table(others | {"d": values}))
    assert rows.drop_nulls().to_pydict()["c0"] == [1, 3]
