"""Bounds that Arrow compares with a literal say of each line what DuckDB says."""

from __future__ import annotations

import dataclasses
import itertools

import pyarrow as pa
import pytest

from exoshuffle.operators.sql.spreads import OfColumn, on_spreads, possible

NUMBERS = (-7, 0, 5, 6, None)
FLOATS = (float("-inf"), -0.0, 0.0, 1.5, 7.0, float("nan"), None)
TEXTS = ("", "a", "ab", "ä", None)


def _spread(values: tuple[int | float | str | None, ...], kind: pa.DataType) -> pa.Table:
    """Returns lines of all bounds, known or not, whose rows are all null, some, none, or nobody knows."""
    pairs = [
        (low, high)
        for low, high in itertools.product(values, values)
        if low is None or high is None or not low > high  # type: ignore[operator]
    ]
    lines = [(low, high, nulls) for low, high in pairs for nulls in (0, 3, 10, None)]
    lows, highs, nulls = zip(*lines, strict=True)
    return pa.table(
        {
            "nulls": pa.array(nulls, pa.uint64()),
            "low": pa.array(lows, kind),
            "high": pa.array(highs, kind),
            "rows": pa.array([10] * len(lines), pa.int64()),
        }
    )


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("values", "kind", "literals"),
    [
        (NUMBERS, pa.int64(), ["5", "-7", "9"]),
        (NUMBERS, pa.int8(), ["5", "-8"]),
        (FLOATS, pa.float64(), ["1.5", "-1", "0", "0.0"]),
        (TEXTS, pa.string(), ["''", "'ab'", "'{0}'"]),
    ],
)
def test_lines_are_those_of_duckdb(
    sign: str, values: tuple[int | float | str | None, ...], kind: pa.DataType, literals: list[str]
) -> None:
    spread = _spread(values, kind)
    for literal in literals:
        found = on_spreads(f"x {sign} {literal}", pa.schema([("x", kind)]))
        assert isinstance(found, OfColumn)
        assert found.comparison is not None
        by_duckdb = dataclasses.replace(found, comparison=None)
        assert possible([found], spread) == possible([by_duckdb], spread)
        # Bounds of another type, as of a column that a step has cast, are DuckDB's to compare.
        if kind == pa.int8():
            wide = spread.set_column(1, "low", spread["low"].cast(pa.int64()))
            assert possible([found], wide) == possible([by_duckdb], wide)


def test_what_must_be_equal_is_told() -> None:
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    for text, equals in {"x = -7": ("(-7)",), "s = '{0}'": ("'{0}'",), "x < 5": ()}.items():
        found = on_spreads(text, schema)
        assert isinstance(found, OfColumn)
        assert found.equals == equals
