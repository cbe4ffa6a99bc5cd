"""Names that users of pandas, Polars and Spark guess, and steps on nulls, types and lists: Polars is the oracle."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pyarrow as pa
import pytest

import exoshuffle as xs

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

# Polars starts its threads when it first needs them, and they hold descriptors.
pl.LazyFrame({"x": [1]}).group_by("x").len().collect()
pl.DataFrame({"x": [1, 1]}).unique("x", maintain_order=True)

FRAME = pl.DataFrame(
    {
        "k": ["b", "a", None, "a"],
        "x": [3, None, 1, 2],
        "f": [0.5, float("nan"), None, 2.0],
        "items": [[1, 2], [], None, [None, 3]],
        "flag": [True, None, False, True],
        "day": [dt.date(2024, 1, 1), None, None, dt.date(2025, 1, 1)],
    }
)


@pytest.fixture
def rows() -> xs.Dataset:
    return xs.from_polars(FRAME)


def same(made: xs.Dataset, wanted: pl.DataFrame) -> None:
    assert made.to_polars().equals(wanted)


def test_other_names(rows: xs.Dataset) -> None:
    ordered = FRAME.sort("x", nulls_last=True)
    for made in (rows.order_by("x"), rows.sort_values("x")):
        same(made, ordered)
    same(rows.sort_values(["k", "x"], ascending=[False, True], na_position="first"),
         FRAME.sort(["k", "x"], descending=[True, False]))  # fmt: skip
    same(rows.sort_values("x", ascending=False), FRAME.sort("x", descending=True, nulls_last=True))
    same(rows.where("x > 1"), FRAME.filter(pl.col("x") > 1))
    same(
        rows.with_column("n 1", "x + 1").select("n 1"), FRAME.select((pl.col("x") + 1).alias("n 1"))
    )
    wanted = FRAME.unique("k", keep="first", maintain_order=True).select("k", "x").sort("x")
    for made in (rows.unique("k"), rows.drop_duplicates("k"), rows.drop_duplicates(subset=["k"])):
        same(made.select("k", "x").sort("x", nulls="first"), wanted)
    assert rows.groupby("k").count().sort("k").to_pydict() == {
        "k": ["a", "b", None],
        "count": [2, 1, 1],
    }


def test_aggregates_as_text(rows: xs.Dataset) -> None:
    made = rows.group_by("k").agg("n=count(), total=sum(x)", "most=max(x)", least=("x", "min"))
    assert made.sort("k").to_pydict() == {
        "k": ["a", "b", None],
        "n": [2, 1, 1],
        "total": [2, 3, 1],
        "most": [2, 3, 1],
        "least": [2, 3, 1],
    }


def test_concat(rows: xs.Dataset) -> None:
    same(xs.concat([rows, rows, rows]), pl.concat([FRAME] * 3))
    assert xs.concat([rows]) is rows


def test_cast(rows: xs.Dataset) -> None:
    made = rows.select("x").cast({"x": "float64"}).to_polars()
    assert made.equals(FRAME.select(pl.col("x").cast(pl.Float64)))
    assert rows.astype({"x": pa.int8(), "k": pa.string()}).schema.field("x").type == pa.int8()
    kinds = rows.cast({"x": float, "k": str, "f": "float32", "flag": "int8"}).schema
    assert [str(kinds.field(name).type) for name in ("x", "k", "f", "flag")] == [
        "double",
        "string",
        "float",
        "int8",
    ]
    assert rows.select("x").cast({"x": "text"}).to_pydict() == {"x": ["3", None, "1", "2"]}


def test_fill_null(rows: xs.Dataset) -> None:
    same(rows.fill_null({"x": 7, "k": "?"}), FRAME.with_columns(
        pl.col("x").fill_null(7), pl.col("k").fill_null("?")))  # fmt: skip
    numbers = FRAME.with_columns(pl.col("x").fill_null(0), pl.col("f").fill_null(0))
    same(rows.fillna(0), numbers)
    same(rows.fill_null(False), FRAME.with_columns(pl.col("flag").fill_null(False)))
    same(rows.fill_null("?"), FRAME.with_columns(pl.col("k").fill_null("?")))
    day = dt.date(1999, 1, 1)
    same(rows.fill_null(day), FRAME.with_columns(pl.col("day").fill_null(day)))
    views = xs.from_arrow(pa.table({"v": pa.array([None, "a"], pa.string_view())})).fill_null("b")
    assert views.to_arrow() == pa.table({"v": pa.array(["b", "a"], pa.string_view())})


def test_drop_nulls(rows: xs.Dataset) -> None:
    same(rows.drop_nulls("x"), FRAME.drop_nulls("x"))
    same(rows.dropna(subset=["x", "k"]), FRAME.drop_nulls(["x", "k"]))
    same(rows.dropna(), FRAME.drop_nulls())
    odd = xs.from_pydict({'a "b"': [None, 1]})
    assert odd.dropna().to_pydict() == {'a "b"': [1]}


def test_explode(rows: xs.Dataset) -> None:
    same(rows.explode("items"), FRAME.explode("items", empty_as_null=True))
    same(
        rows.filter("x is null").explode("items"),
        FRAME.filter(pl.col("x").is_null()).explode("items", empty_as_null=True),
    )
    assert rows.explode("items").select("x").count() == 6
    fixed = pa.table({"l": pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), "i": [5, 6]})
    assert xs.from_arrow(fixed).explode("l").to_pydict() == {"l": [1, 2, None], "i": [5, 5, 6]}


def test_exploded_rows_are_sampled_one_by_one() -> None:
    """The values of one list do not come together."""
    lists = xs.from_pydict({"l": [list(range(1000))] * 3})
    for made in (
        lists.explode("l").sample(fraction=0.5, seed=1),
        lists.explode("l").sample(1500, seed=1),
    ):
        values = made.to_pydict()["l"]
        assert 1300 < len(values) < 1700
        assert 800 < len(set(values)) < 1000


def test_a_long_list_is_exploded_beside_long_texts() -> None:
    """A list was repeated with its row, once for each of its values: one of 3 million values never came to an end."""
    lists = pa.array([list(range(50_000)), [], list(range(40))], pa.list_(pa.int64()))
    rows = xs.from_arrow(pa.table({"l": lists, "s": ["a", "b", "x" * 1_000_000]}))
    lengths = (
        rows.explode("l").with_columns(n="length(s)").group_by("n").agg(m="count", t=("l", "sum"))
    )
    assert lengths.sort("n").to_pylist() == [
        {"n": 1, "m": 50_001, "t": sum(range(50_000))},
        {"n": 1_000_000, "m": 40, "t": sum(range(40))},
    ]


def test_unpivot() -> None:
    frame = pl.DataFrame(
        {"id": [1, 2, 3], "a": [4, None, 6], "b": [7, 8, 9], "s": ["x", "y", None]}
    )
    rows = xs.from_polars(frame)
    same(rows.unpivot(["a", "b"], index="id"), frame.unpivot(["a", "b"], index="id"))
    same(rows.drop("s").unpivot(index="id"), frame.drop("s").unpivot(index="id"))
    same(rows.unpivot("s"), frame.unpivot("s"))
    same(
        rows.melt("id", ["b"], var_name="n", value_name="v"),
        frame.unpivot(["b"], index="id", variable_name="n", value_name="v"),
    )
    assert rows.unpivot(["a", "b"]).select("variable").count() == 6
    assert rows.unpivot(["a", "b"], index="id").select("id").to_pydict() == {"id": [1, 2, 3] * 2}


def test_pivot() -> None:
    frame = pl.DataFrame(
        {
            "shop": ["a", "b", "a", "b", "a", None],
            "day": [1, 1, 2, 2, 2, 1],
            "x": [5, 6, 7, None, 9, 2],
            "word": ["u", "it's", None, "u", "u", "it's"],
        }
    )
    rows = xs.from_polars(frame)
    for on in ("day", "word"):
        made = rows.pivot(on, index="shop", values="x", aggregate="max").sort("shop")
        wanted = frame.pivot(
            on, index="shop", values="x", aggregate_function="max", sort_columns=True
        )
        wanted = wanted.sort("shop", nulls_last=True).select(made.columns)
        same(made, wanted)
    some = rows.pivot("day", index="shop", values="x", aggregate="sum", on_columns=[2, 3]).sort(
        "shop"
    )
    assert some.to_pydict() == {"shop": ["a", "b", None], "2": [16, None, None], "3": [None] * 3}
    assert rows.pivot("day", index=["shop"], values="word").columns == ["shop", "1", "2"]
