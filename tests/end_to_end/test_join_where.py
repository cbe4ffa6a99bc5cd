"""Joins by conditions: DuckDB is the oracle, and Polars for the names of columns."""

from __future__ import annotations

import random
from collections.abc import Callable

import polars as pl
import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import ExoshuffleError
from tests.support.duck import duck

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

# Polars starts its threads when it first collects, and they hold descriptors.
pl.LazyFrame({"x": [1]}).join_where(pl.LazyFrame({"y": [1]}), pl.col("x") < pl.col("y")).collect()

NAN = float("nan")
SALES = pa.table(
    {
        "shop": ["a", "b", None, "a", "c"],
        "price": [3.0, NAN, 5.0, None, -0.0],
        "qty": [1, 2, 3, 4, 5],
    }
)
BANDS = pa.table(
    {
        "shop": pa.array(["a", "c", None, "a"]).dictionary_encode(),
        "low": [0.0, 0.0, 4.0, None],
        "high": pa.array([4, 1, 9, 7], pa.int16()),
    }
)

CONDITIONS: dict[str, tuple[str, ...]] = {
    "a range": ("low <= price", "price < high"),
    "between": ("price between low and high",),
    "a range of the other side": ("low between qty and price",),
    "one text": ("low <= price and price < high",),
    "equal, too": ("shop = shop_right", "price >= low"),
    "equal alone": ("shop_right = shop",),
    "equal in other types": ("qty = high",),
    "equal expressions": ("qty + 3 = high",),
    "equal columns of one side": ("qty = qty", "price < high"),
    "one side each": ("qty > 1", "high > 3", "price < high"),
    "either": ("price < low or qty = high",),
    "unequal": ("shop <> shop_right",),
    "null": ("low is null and price > 0",),
    "nothing true": ("price < high and false",),
    "without columns": ("1 = 1",),
    "two keys": ("shop = shop_right and qty = high",),
    "numbers and text": ("shop = shop_right", "cast(qty as varchar) < shop_right"),
}


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("empty", ["", "left", "right"])
def test_pairs(name: str, empty: str) -> None:
    left = SALES.slice(0, 0) if empty == "left" else SALES
    right = BANDS.slice(0, 0) if empty == "right" else BANDS
    made = xs.from_arrow(left).join_where(xs.from_arrow(right), *CONDITIONS[name])
    with duck(l=left, r=right) as database:
        where = " AND ".join(f"({condition})" for condition in CONDITIONS[name])
        sql = f"SELECT * FROM l, (SELECT shop AS shop_right, low, high FROM r) WHERE {where}"  # noqa: S608
        wanted = database.sql(sql).to_arrow_table()
    assert made.columns == wanted.column_names

    def rows(table: pa.Table) -> list[str]:
        return sorted(repr(list(row.values())) for row in table.to_pylist())

    assert rows(made.to_arrow()) == rows(wanted)


def test_objects_as_in_polars() -> None:
    left, right = pl.from_arrow(SALES), pl.from_arrow(BANDS.drop_columns("shop"))
    assert isinstance(left, pl.DataFrame)
    assert isinstance(right, pl.DataFrame)
    wanted = left.join_where(
        right, pl.col("qty") < pl.col("high"), pl.col("price") >= pl.col("low")
    )
    made = xs.from_polars(left).join_where(
        xs.from_polars(right), xs.col("qty") < xs.col("high"), xs.col("price") >= xs.col("low")
    )
    assert made.sort("qty", "high").to_polars().equals(wanted.sort("qty", "high"))


def test_two_large_sides_within_the_limit() -> None:
    """A cross join that keeps few pairs: neither side is given to every task."""
    rng = random.Random(1)
    starts = [rng.randrange(10**6) for _ in range(2000)]
    left = xs.from_pydict({"start": starts, "stop": [each + 50 for each in starts]})
    right = xs.from_pydict({"spot": [rng.randrange(10**6) for _ in range(2000)]})
    made = left.join_where(right, "start <= spot", "spot < stop")
    spots = right.to_pydict()["spot"]
    wanted = sum(start <= spot < start + 50 for start in starts for spot in spots)
    assert made.count() == wanted > 0


def test_many_rows_with_many_bands() -> None:
    """Two billion pairs, looked at one by one, took more than 190 s."""
    rows = xs.range(200_000).with_columns(v="id * 7919 % 1000000")
    bands = xs.range(10_000).select(low=xs.col("id") * 100, high=xs.col("id") * 100 + 60)
    made = rows.join_where(bands, "low <= v", "v < high")
    wanted = sum(number * 7919 % 1_000_000 % 100 < 60 for number in range(200_000))
    assert made.count() == wanted
    assert made.filter("v < low or v >= high").count() == 0


REFUSED: dict[str, tuple[Callable[[xs.Dataset, xs.Dataset], object], str]] = {
    "nothing": (lambda a, b: a.join_where(b), "join_where got no condition; write one, such as"),
    "no condition": (lambda a, b: a.join_where(b, "qty + high"), "it must be true or false"),
    "an unknown column": (lambda a, b: a.join_where(b, "qty < hihg"), "there is no column 'hihg'"),
    "a number": (lambda a, b: a.join_where(b, 3), "an expression is 3; write SQL as text"),  # type: ignore[arg-type]
    "no dataset": (lambda a, _: a.join_where(SALES, "qty < 3"), "join_where takes a Dataset"),  # type: ignore[arg-type]
    "an aggregate": (lambda a, b: a.join_where(b, "qty < max(high)"), r"max\(\) sees other rows"),
    "a suffix that is taken": (
        lambda a, b: a.rename({"price": "shop_right"}).join_where(b, "qty < high"),
        "two columns named 'shop_right' with suffix='_right'; choose another suffix",
    ),
    "a condition in join": (
        lambda a, b: a.join(b, on="qty < high"),
        r"on is the condition 'qty < high'; write join_where\(other, condition\)",
    ),
    "an object in join": (
        lambda a, b: a.join(b, on=xs.col("qty") < xs.col("high")),  # type: ignore[arg-type]
        "on is the condition sql",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(ExoshuffleError, match=words) as caught:
        call(xs.from_arrow(SALES), xs.from_arrow(BANDS))
    assert "\n" not in str(caught.value)
