"""Groups by Arrow's kernels are those of DuckDB, to the bit; where they could differ, DuckDB makes them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pyarrow as pa
import pytest

from exoshuffle.operators import exact_keys, kernels
from exoshuffle.operators.group_by import aggregate, by_arrow
from exoshuffle.operators.group_by.aggregate import Uncombined
from exoshuffle.operators.group_by.parsing import parse_aggregates
from exoshuffle.operators.join.pairs import match
from exoshuffle.operators.sql.groups import Operands, first_rows

NAN = float("nan")
_Draw = Callable[[random.Random], object]
COLUMNS: dict[str, tuple[_Draw, pa.DataType]] = {
    "int8": (lambda draw: draw.randrange(-128, 128), pa.int8()),
    "int64": (lambda draw: draw.randrange(-(2**40), 2**40), pa.int64()),
    "large": (lambda draw: draw.randrange(-(2**63), 2**63), pa.int64()),
    "unsigned": (lambda draw: draw.randrange(2**32), pa.uint32()),
    "float": (lambda draw: draw.choice([1e-9, 1e20, -3.5]) * draw.random(), pa.float64()),
    "special": (lambda draw: draw.choice([NAN, 0.0, -0.0, float("inf")]), pa.float64()),
    "single": (lambda draw: draw.randrange(100) / 7, pa.float32()),
    "text": (lambda draw: draw.choice("abc"), pa.string()),
    "flag": (lambda draw: draw.random() < 0.5, pa.bool_()),
    "moment": (lambda draw: draw.randrange(10**15), pa.timestamp("us", "UTC")),
    "day": (lambda draw: draw.randrange(20_000), pa.date32()),
}
KEYS = (("text",), ("day", "flag"), ("int8",), ("special",), ())


def _rows(num_rows: int) -> pa.Table:
    """Returns rows in three chunks, in which a fifth of the values is null."""
    draw = random.Random(num_rows)
    columns = {
        name: pa.array(
            [None if draw.random() < 0.2 else value(draw) for _ in range(num_rows)], kind
        )
        for name, (value, kind) in COLUMNS.items()
    }
    rows, third = pa.table(columns), num_rows // 3
    return pa.concat_tables([rows.slice(0, third), rows.slice(third, third), rows.slice(2 * third)])


def _grouping(rows: pa.Table, keys: tuple[str, ...]) -> Uncombined:
    numbers = ("int8", "int64", "unsigned", "float", "special", "single")
    specs = {
        "rows": "count",
        **{f"{name} count": (name, "count") for name in COLUMNS},
        **{f"{name} {wanted}": (name, wanted) for name in COLUMNS for wanted in ("min", "max")},
        **{f"{name} {wanted}": (name, wanted) for name in numbers for wanted in ("sum", "mean")},
    }
    return Uncombined(rows.schema, keys, parse_aggregates(rows.schema, keys, specs).aggregates)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("num_rows", [0, 1, 7, 5_000])
def test_groups_are_those_of_duckdb(
    num_rows: int, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows(num_rows)
    grouping = _grouping(rows, keys)
    expected = grouping.final(rows)
    asked: list[str] = []
    computed = Operands.computed

    def counted(self: Operands, sql: str) -> pa.Table:
        asked.append(sql)
        return computed(self, sql)

    monkeypatch.setattr(Operands, "computed", counted)
    # One aggregate at a time: each goes the way that it can.
    monkeypatch.setattr(aggregate, "MOST_AT_ONCE", 1)
    found = grouping.final(rows)
    # As text, NaN equals itself, and both zeros differ.
    assert str(found.to_pylist()) == str(expected.to_pylist())
    assert found.schema == expected.schema
    all_by_duckdb = not (num_rows and keys) or "special" in keys
    assert len(asked) == 46 if all_by_duckdb else 0 < len(asked) < 20


def test_few_rows_are_grouped_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(300).select(["text", "int64", "float"])
    specs = {"n": "count", "total": ("int64", "sum"), "mean": ("float", "mean")}
    aggregates = parse_aggregates(rows.schema, ("text",), specs).aggregates
    grouping = Uncombined(rows.schema, ("text",), aggregates)
    monkeypatch.setattr(exact_keys, "ARROW_ROWS", 299)
    expected = grouping.final(rows)

    def refused(_: Operands, sql: str) -> pa.Table:
        raise AssertionError(sql)

    monkeypatch.setattr(Operands, "computed", refused)
    with pytest.raises(AssertionError, match="GROUP BY"):
        grouping.final(rows)
    monkeypatch.setattr(exact_keys, "ARROW_ROWS", 300)
    assert grouping.final(rows).equals(expected)


def test_a_pyarrow_without_groups_leaves_them_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conda's ``pyarrow-core`` has no ``pyarrow._acero``."""
    rows = _rows(300).select(["text", "int64"])
    grouped = parse_aggregates(rows.schema, ("text",), {"total": ("int64", "sum")})
    grouping = Uncombined(rows.schema, ("text",), grouped.aggregates)
    others = pa.table({"text": ["b", None, "b", "x"]})

    def results() -> list[object]:
        matches = match(rows.select(["text"]), others)
        numbers = [matches.starts, matches.sizes, matches.right_rows]
        return [
            grouping.final(rows),
            first_rows(rows, ["text"]).to_pylist(),
            [column.to_pylist() for column in numbers],
        ]

    expected = results()
    monkeypatch.setitem(sys.modules, "pyarrow._acero", None)
    kernels.has_groups.cache_clear()
    try:
        assert results() == expected
    finally:
        kernels.has_groups.cache_clear()


@pytest.mark.parametrize(
    ("function", "column"),
    [("sum", "large"), ("mean", "large"), ("min", "special"), ("sum", "unsigned"), ("max", "text")],
)
def test_duckdb_makes_what_could_differ(function: str, column: str) -> None:
    rows = _rows(50)
    parsed = parse_aggregates(rows.schema, ("day",), {"x": (column, function)})
    assert by_arrow.grouped(rows, ("day",), parsed.aggregates) is None


def test_means_of_integers_are_exact() -> None:
    """A sum beyond 2**53 is no double, and Arrow would refuse it."""
    for value in (2**52, 2**53):
        rows = pa.table({"k": [1, 1], "c": pa.array([value, value + 1], pa.int64())})
        grouping = parse_aggregates(rows.schema, ("k",), {"x": ("c", "mean")})
        plain = Uncombined(rows.schema, ("k",), grouping.aggregates)
        assert by_arrow.grouped(rows, ("k",), plain.aggregates) is None
        assert plain.final(rows)["x"].to_pylist() == [float(2 * value + 1) / 2]
