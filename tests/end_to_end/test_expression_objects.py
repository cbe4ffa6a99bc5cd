"""Expressions as objects: the same values as those of Polars, and the same rows as SQL text."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, SchemaError

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # noqa: DTZ001  without a zone


FRAME = pl.DataFrame(
    {
        "x": [3, -7, None, 2],
        "y": [2, 3, 1, -3],
        "f": [0.5, float("nan"), None, -2.25],
        "s": ["abc", "it's", None, "Ünï%_"],
        "b": [True, None, False, True],
        "l": [[1, 2], [], None, [None, 3]],
        "d": ["2024-02-29", "1969-12-31", None, "2030-01-07"],
        'odd "name"': [1, 2, 3, 4],
        "t": [
            moment(2024, 1, 31, 5, 6),
            None,
            moment(1969, 12, 31),
            moment(2030, 7, 1),
        ],
    }
)
MOMENT = moment(2024, 1, 31, 5, 6)

#: Arguments that tell Polars that a missing value is null.
NULL: dict[bool, dict[str, bool]] = {True: {"null_on_oob": True}, False: {}}
#: Expressions that both libraries write alike.
ALIKE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda m: m.col("x") + 1,
    "sum from the right": lambda m: 1 + m.col("x"),
    "difference": lambda m: m.col("x") - m.col("y"),
    "difference from the right": lambda m: 10 - m.col("x"),
    "product": lambda m: m.col("x") * 0.1,
    "quotient": lambda m: m.col("x") / m.col("y"),
    "remainder": lambda m: m.col("x") % 3,
    "minus": lambda m: -m.col("x"),
    "absolute": lambda m: m.col("x").abs(),
    "floats": lambda m: m.col("f") * 2.5 + 1e300,
    "order": lambda m: (m.col("x") + m.col("y")) * m.col("y") - m.col("x") / 2,
    "text": lambda m: m.col("s") + "!",
    "text from the right": lambda m: "it's " + m.col("s"),
    "equal": lambda m: m.col("s") == "it's",
    "unequal": lambda m: m.col("x") != 3,
    "smaller": lambda m: m.col("x") < m.col("y"),
    "not larger": lambda m: m.col("x") <= 2,
    "larger": lambda m: 2 < m.col("x"),  # noqa: SIM300  on purpose
    "not smaller": lambda m: m.col("t") >= MOMENT,
    "and": lambda m: (m.col("x") > 0) & m.col("b"),
    "or": lambda m: (m.col("x") > 0) | m.col("b"),
    "not": lambda m: ~(m.col("x") > 0),
    "between": lambda m: m.col("x").is_between(-7, 2),
    "one of": lambda m: m.col("s").is_in(["abc", "it's"]),
    "one of none": lambda m: m.col("y").is_in([]),
    "null": lambda m: m.col("x").is_null(),
    "not null": lambda m: m.col("x").is_not_null(),
    "nan": lambda m: m.col("f").is_nan(),
    "filled": lambda m: m.col("x").fill_null(0),
    "contains": lambda m: m.col("s").str.contains("^[ai]."),
    "contains signs": lambda m: m.col("s").str.contains("%_", literal=True),
    "starts": lambda m: m.col("s").str.starts_with("ab"),
    "ends": lambda m: m.col("s").str.ends_with("'s"),
    "lower": lambda m: m.col("s").str.to_lowercase(),
    "upper": lambda m: m.col("s").str.to_uppercase(),
    "characters": lambda m: m.col("s").str.len_chars().cast(pl.Int64 if m is pl else "int64"),
    "year": lambda m: m.col("t").dt.year().cast(pl.Int64 if m is pl else "int64"),
    "hour": lambda m: m.col("t").dt.hour().cast(pl.Int64 if m is pl else int),
    "to float": lambda m: m.col("x").cast(pl.Float64 if m is pl else float),
    "to text": lambda m: m.col("x").cast(pl.String if m is pl else "text"),
    "odd name": lambda m: m.col('odd "name"') * 2,
    "parts": lambda m: m.col("d").str.split("-"),
    "stripped": lambda m: (" " + m.col("s") + "  ").str.strip_chars(),
    "date": lambda m: m.col("d").str.to_date("%Y-%m-%d"),
    "moment": lambda m: m.col("d").str.to_datetime("%Y-%m-%d"),
    "date as text": lambda m: m.col("t").dt.strftime("%d/%m/%y %H:%M"),
    "second": lambda m: m.col("t").dt.second().cast(pl.Int64 if m is pl else int),
    "quarter": lambda m: m.col("t").dt.quarter().cast(pl.Int64 if m is pl else int),
    "length of a list": lambda m: m.col("l").list.len().cast(pl.Int64 if m is pl else int),
    "first of a list": lambda m: m.col("l").list.first(),
    "last of a list": lambda m: m.col("l").list.last(),
    "second of a list": lambda m: m.col("l").list.get(1, **NULL[m is pl]),
    "last but one of a list": lambda m: m.col("l").list.get(-2, **NULL[m is pl]),
    "in a list": lambda m: m.col("l").list.contains(2),
    "when": lambda m: (
        m.when(m.col("x") > 2).then(1).when(m.col("y") > 2).then(m.col("y")).otherwise(0)
    ),
    "when without otherwise": lambda m: m.when(m.col("x") > 2).then(1),
    "coalesce": lambda m: m.coalesce("x", m.col("y") * 10),
}


@pytest.fixture
def rows() -> xs.Dataset:
    return xs.from_polars(FRAME)


@pytest.mark.parametrize("name", ALIKE)
def test_values_are_those_of_polars(name: str, rows: xs.Dataset) -> None:
    wanted = FRAME.select(v=ALIKE[name](pl))["v"].to_list()
    made = rows.select(v=ALIKE[name](xs)).to_pydict()["v"]
    # A NaN is not equal to itself.
    assert [str(value) for value in made] == [str(value) for value in wanted]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        2**63 - 1,
        0.1,
        -1e-300,
        float("inf"),
        "a'b\"c\nd",
        b"\x00'",
        decimal.Decimal("-1.10"),
        dt.date(1, 1, 1),
        dt.time(1, 2, 3, 4),
        moment(2024, 1, 31, 1, 2, 3, 4),
        dt.datetime(2024, 1, 31, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    ],
    ids=str,
)
def test_values_come_back(value: Any, rows: xs.Dataset) -> None:
    assert rows.select("y", v=xs.lit(value)).limit(1).to_pydict()["v"] == [value]


def test_times_apart(rows: xs.Dataset) -> None:
    day = dt.timedelta(days=1, microseconds=1)
    made = rows.select("t", v=xs.col("t") - day).to_pydict()
    assert made["v"] == [None if each is None else each - day for each in made["t"]]


def test_where_they_go(rows: xs.Dataset) -> None:
    x, y = xs.col("x"), xs.col("y")
    assert rows.filter((x > 0) & (y > 0)).to_pydict() == rows.filter("x > 0 and y > 0").to_pydict()
    assert rows.select("s", (x + 1).alias("z"), y, ["b"]).columns == ["s", "z", "y", "b"]
    assert rows.select(x * 2).to_pydict() == {"x": [6, -14, None, 4]}
    assert rows.select(x).schema == rows.select("x").schema
    assert rows.with_columns(x * 2, z=y).select("x", "z").to_pydict()["x"] == [6, -14, None, 4]
    assert rows.with_column("n m", x + xs.sql("y * 2")).to_pydict()["n m"] == [7, -1, None, -4]
    assert rows.filter(xs.sql("x > 2 or y = 1") & xs.col("y").between(1, 2)).count() == 2


def test_aggregates_are_those_of_polars() -> None:
    frame = pl.DataFrame({"k": ["a", "b", "a", "a"], "x": [3, 1, None, 8]})

    def aggregates(m: Any) -> list[Any]:
        x = m.col("x")
        return [
            x.sum(),
            x.mean().alias("mean"),
            x.min().alias("least"),
            x.max().alias("most"),
            x.count().alias("n"),
            x.median().alias("half"),
            x.std().alias("std"),
            x.quantile(0.0).alias("q"),
            m.len(),
            m.len().alias("rows"),
        ]

    made = xs.from_polars(frame).group_by("k").agg(*aggregates(xs), top=xs.col("x").max()).sort("k")
    wanted = frame.group_by("k").agg(*aggregates(pl), top=pl.col("x").max()).sort("k")
    assert made.to_pylist() == wanted.to_dicts()


def test_they_prune_files(tmp_path, rows: xs.Dataset) -> None:
    rows.select("x", "y").write_parquet(tmp_path / "out", partition_by="y")
    kept = xs.read_parquet(tmp_path / "out").filter(xs.col("y") == 2)
    assert len(kept.files) == 1


REFUSED: dict[str, tuple[Callable[[xs.Dataset], object], str]] = {
    "and": (
        lambda d: d.filter(xs.col("x") > 1 and xs.col("y") > 1),
        "has a value for each row, so none by itself. Write & for and, | for or, ~ for not, between",
    ),
    "a chain": (lambda d: d.filter(0 < xs.col("x") < 3), "between.low, high. for low <= x <= high"),
    "no parentheses": (
        lambda d: d.filter((xs.col("x") > 1) & 2),
        r"& got 2; put parentheses around comparisons, as in \(a > 1\) & \(b < 2\)",
    ),
    "text beside an object": (
        lambda d: d.filter((xs.col("x") > 1) & "y > 2"),
        r"& got the text 'y > 2'; write xs.sql\('y > 2'\) for SQL, or xs.col\(\)",
    ),
    "text in arithmetic": (
        lambda d: d.select(v=xs.col("x") * "y"),
        r"\* got the text 'y'; write xs.col\('y'\) for a column, or xs.sql\(\) for SQL",
    ),
    "equal to None": (
        lambda d: d.filter(xs.col("x") == None),  # noqa: E711  on purpose
        "== None is null for every row; write is_null",
    ),
    "unequal to None": (lambda d: d.filter(xs.col("x") != None), "!= None .*; write is_not_null"),  # noqa: E711  on purpose
    "a list": (
        lambda d: d.filter(xs.col("x") == [1]),
        r"cannot hold \[1\]; give a number, text, a d",
    ),
    "one of text": (lambda d: d.filter(xs.col("s").is_in("abc")), "is_in got 'abc'; give a list"),
    "a number as column": (lambda d: d.filter(xs.col(1)), "col got 1; give the name of a column"),
    "no name": (
        lambda d: d.select("x", xs.lit(1)),
        "the expression sql.'1'. without a name; add .al",
    ),
    "a name twice": (
        lambda d: d.select(xs.col("x"), xs.col("x") + 1),
        "two columns the name 'x'; add",
    ),
    "text for with_columns": (
        lambda d: d.with_columns("x + 1"),
        r"with_columns got 'x \+ 1'; give xs.col\(...\).alias\(\"name\"\), or name=\"SQL\"",
    ),
    "no SQL": (lambda d: d.filter(xs.sql(" ")), "sql got ' '; write SQL as text"),
    "no type": (
        lambda d: d.select(v=xs.col("x").cast("number")),
        "type 'number'; known are bool, i",
    ),
    "when of text": (lambda d: d.select(v=xs.when("x > 1")), "when got 'x > 1'; give a condition"),
    "coalesce of nothing": (
        lambda d: d.select(v=xs.coalesce()),
        "coalesce got nothing; give names",
    ),
    "no alias": (lambda d: d.select(xs.col("x").alias(1)), "alias got 1; give the name"),
    "aggregated": (
        lambda d: d.group_by("x").agg(n=xs.col("y")),
        "aggregate 'n' is col.'y'.; write",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, rows: xs.Dataset) -> None:
    call, words = REFUSED[name]
    with pytest.raises(OptionsError, match=words) as caught:
        call(rows)
    assert "\n" not in str(caught.value)


def test_an_unknown_column_is_named(rows: xs.Dataset) -> None:
    with pytest.raises(SchemaError, match="there is no column 'z'"):
        rows.filter(xs.col("z") > 1)
