"""Aggregates of two columns, against DuckDB's over all rows at once, however rows are split and combined."""

from __future__ import annotations

import math
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, SchemaError

FUNCTIONS = ["corr", "covar_samp", "covar_pop", "regr_slope"]
PAIRS = [("a", "b"), ("b", "c"), ("b", "b"), ("d", "a")]


def rows() -> pa.Table:
    """Keys with many rows and with one; values far from 0, with nulls, infinities and NaN."""
    rng = random.Random(4)
    numbers = range(4000)
    odd = [float("nan"), float("inf"), *[3.0] * 300]
    return pa.table(
        {
            "k": [rng.randint(0, 20) if row % 4 else row for row in numbers],
            "a": [rng.choice([None, *(rng.gauss(1e6, 1) for _ in range(3))]) for _ in numbers],
            "b": pa.array([rng.choice([None, rng.randint(-5, 100)]) for _ in numbers], pa.int16()),
            "c": [rng.choice([1.0, 2.0, rng.choice(odd)]) for _ in numbers],
            "d": pa.array([rng.randint(0, 9) for _ in numbers]).cast(pa.decimal128(21, 2)),
        }
    )


def alike(found: float | None, wanted: float | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    if math.isnan(wanted):
        return math.isnan(found)
    return math.isclose(found, wanted, rel_tol=1e-7, abs_tol=1e-9)


@pytest.mark.parametrize("strategy", ["auto", "simple", "push", "streaming"])
def test_they_are_duckdbs(strategy: str, engine: LocalEngine) -> None:
    del engine
    table = rows()
    named = {f"{name} {y} {x}": (y, name, x) for name in FUNCTIONS for y, x in PAIRS}
    listed = ", ".join(f'{name}({y}, {x}) "{column}"' for column, (y, name, x) in named.items())
    text = f"select k, {listed} from t group by k order by k"  # noqa: S608
    with duckdb.connect() as connection:
        connection.register("t", table)
        wanted = connection.sql(text).to_arrow_table().to_pydict()
    parts: dict[str, Any] = {} if strategy == "auto" else {"num_partitions": 3}
    source = xs.from_arrow(table).repartition(5)
    found = source.group_by("k", strategy=strategy, **parts).agg(**named).sort("k").to_pydict()
    assert found["k"] == wanted["k"]
    for column in named:
        pairs = list(zip(found[column], wanted[column], strict=True))
        assert all(alike(*pair) for pair in pairs), (
            column,
            [p for p in pairs if not alike(*p)][:3],
        )


def test_the_line_is_the_one_that_rows_lie_on(engine: LocalEngine) -> None:
    del engine
    made = xs.from_arrow(pa.table({"x": range(50)})).with_columns(y="3 * x - 7")
    found = made.agg("slope=regr_slope(y, x), at=regr_intercept(y, x), r=corr(y, x)").to_pydict()
    assert [each[0] for each in found.values()] == pytest.approx([3, -7, 1])
    alone = (
        made.filter("x = 1").agg("at=regr_intercept(y, x), r=corr(y, x), c=cov(y, x)").to_pydict()
    )
    assert str(alone) == "{'at': [nan], 'r': [nan], 'c': [None]}"
    none = made.filter("x < 0").agg("at=regr_intercept(y, x), r=corr(y, x), c=covar_pop(y, x)")
    assert none.to_pydict() == {"at": [None], "r": [None], "c": [None]}


def test_they_are_written_in_all_ways(engine: LocalEngine) -> None:
    del engine
    table = pa.table(
        {"a": [1.0, 2.0, 4.0, None], "b": [2, 1, 5, 6], "k": [True, True, True, False]}
    )
    source = xs.from_arrow(table)
    wanted = 16 / math.sqrt(14 * 26)
    ways: list[Any] = [
        "r=corr(a, b)",
        {"r": ("a", "corr", "b")},
        {"r": "corr(a, b) FILTER (WHERE k)"},
        {"r": "corr(a * 2, 1 + b)"},
        {"r": xs.corr("a", xs.col("b"))},
        {"r": "covar_samp(a, b) / std(a) / std(b) FILTER (WHERE k)"},
        {"r": xs.cov("a", "b") / xs.col("a").std() / xs.sql("std(b) filter (where k)")},
    ]
    for way in ways:
        made = source.agg(way) if isinstance(way, str) else source.agg(**way)
        assert made.to_pydict()["r"] == [pytest.approx(wanted)], way


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("a", "corr"), r"corr takes two columns, and was asked of 'a' alone; write corr\(y, x\)"),
        ("corr(a)", r"corr takes two columns"),
        ("corr(a, b, a)", r"corr takes two columns, as in corr\(y, x\)"),
        ("corr(a, zz)", r"expression 'zz' does not fit: there is no column 'zz'"),
        (("a", "corr", "zz"), r"expression 'zz' does not fit: there is no column 'zz'"),
        ("corr(sum(a), b)", "an aggregate is in another"),
    ],
)
def test_what_cannot_be_is_named(given: Any, told: str, engine: LocalEngine) -> None:
    del engine
    source = xs.from_arrow(pa.table({"a": [1.0], "b": [2]}))
    with pytest.raises((OptionsError, SchemaError), match=told):
        source.agg(r=given)
