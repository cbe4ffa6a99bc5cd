"""Programs of Polars' user guide, with names as their users guess them: each gives the values that it must."""

from __future__ import annotations

from datetime import date

import pytest

import exoshuffle as xs

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]


def test_select_filter() -> None:
    df = xs.from_dict(
        {
            "name": ["Alice Archer", "Ben Brown", "Chloe Cooper", "Daniel Donovan"],
            "birthdate": [
                date(1997, 1, 10),
                date(1985, 2, 15),
                date(1983, 3, 22),
                date(1981, 4, 30),
            ],
            "weight": [57.9, 72.5, 53.6, 83.1],
            "height": [1.56, 1.77, 1.65, 1.75],
        }
    )
    result = df.select(
        xs.col("name"),
        xs.col("birthdate").dt.year().alias("birth_year"),
        (xs.col("weight") / (xs.col("height") ** 2)).alias("bmi"),
    )
    out = result.to_dict()
    assert out["birth_year"] == [1997, 1985, 1983, 1981], out
    assert out["bmi"][0] == pytest.approx(57.9 / 1.56**2)
    young = df.filter(xs.col("birthdate").dt.year() < 1985)
    assert young.to_dict()["name"] == ["Chloe Cooper", "Daniel Donovan"]
    between = df.filter(
        xs.col("birthdate").is_between(date(1982, 12, 31), date(1996, 1, 1)), xs.col("height") > 1.7
    )
    assert between.to_dict()["name"] == ["Ben Brown"]


def test_with_columns() -> None:
    df = xs.from_dict({"a": [1, 2, 3], "b": [4.0, 5.0, 6.0]})
    r = df.with_columns(
        (xs.col("a") * 2).alias("double"), total=xs.col("a") + xs.col("b"), one=xs.lit(1)
    )
    assert r.columns == ["a", "b", "double", "total", "one"], r.columns
    assert r.to_dict()["total"] == [5.0, 7.0, 9.0]
    r2 = df.with_columns(
        xs.when(xs.col("a") > 1).then(xs.lit("big")).otherwise(xs.lit("small")).alias("size")
    )
    assert r2.to_dict()["size"] == ["small", "big", "big"]


def test_group_by_agg() -> None:
    df = xs.from_dict(
        {
            "decade": [1980, 1990, 1980, 1980],
            "name": ["b", "a", "c", "d"],
            "weight": [72.5, 57.9, 53.6, 83.1],
            "height": [1.77, 1.56, 1.65, 1.75],
        }
    )
    r = (
        df.group_by("decade")
        .agg(
            xs.len().alias("sample_size"),
            xs.col("weight").mean().alias("avg_weight"),
            xs.col("height").max().alias("tallest"),
        )
        .with_columns(xs.col("avg_weight").round(2))
        .sort("decade")
    )
    d = r.to_dict()
    assert d["sample_size"] == [3, 1], d
    assert d["avg_weight"] == [69.73, 57.9], d
    assert d["tallest"] == [1.77, 1.56]


def test_join() -> None:
    df = xs.from_dict({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    df2 = xs.from_dict({"id": [1, 2, 4], "parent": [True, False, False]})
    left = df.join(df2, on="id", how="left").sort("id")
    assert left.to_dict()["parent"] == [True, False, None], left.to_dict()
    inner = df.join(df2, on="id")
    assert inner.count() == 2
    anti = df.join(df2, on="id", how="anti")
    assert anti.to_dict()["name"] == ["c"]
    semi = df.join(df2, on="id", how="semi")
    assert sorted(semi.to_dict()["id"]) == [1, 2]
    other = xs.from_dict({"key": [3], "x": [9]})
    assert df.join(other, left_on="id", right_on="key").to_dict()["x"] == [9]
    cross = df.join(other, how="cross")
    assert cross.count() == 3


def test_sort() -> None:
    df = xs.from_dict({"a": [3, 1, 2, None], "b": ["x", "y", "z", "w"]})
    assert df.sort("a", nulls_last=True).to_dict()["b"] == ["y", "z", "x", "w"]
    assert df.sort("a", descending=True, nulls_last=True).to_dict()["b"] == ["x", "z", "y", "w"]
    assert df.sort(["a", "b"], descending=[True, False], nulls_last=True).to_dict()["b"] == [
        "x",
        "z",
        "y",
        "w",
    ]
    assert df.sort(xs.col("b")).to_dict()["b"] == ["w", "x", "y", "z"]
    assert df.top_k(2, by="a").to_dict()["b"] == ["x", "z"]


def test_concat() -> None:
    v1 = xs.from_dict({"a": [1], "b": [3]})
    v2 = xs.from_dict({"a": [2], "b": [4]})
    v = xs.concat([v1, v2])
    assert v.to_dict() == {"a": [1, 2], "b": [3, 4]}
    d = xs.concat([v1, xs.from_dict({"a": [2], "d": [4]})], how="diagonal")
    assert d.to_dict() == {"a": [1, 2], "b": [3, None], "d": [None, 4]}, d.to_dict()


def test_pivot_unpivot() -> None:
    df = xs.from_dict(
        {"foo": ["A", "A", "B", "B", "C"], "bar": ["k", "l", "m", "n", "o"], "N": [1, 2, 2, 4, 2]}
    )
    p = df.pivot("bar", index="foo", values="N").sort("foo")
    d = p.to_dict()
    assert d["foo"] == ["A", "B", "C"]
    assert d["k"] == [1, None, None]
    w = xs.from_dict({"A": ["a", "b"], "B": [1, 3], "C": [10, 11]})
    m = w.unpivot(["B", "C"], index="A").sort(["A", "variable"])
    assert m.to_dict() == {
        "A": ["a", "a", "b", "b"],
        "variable": ["B", "C", "B", "C"],
        "value": [1, 10, 3, 11],
    }, m.to_dict()


def test_lists_explode() -> None:
    df = xs.from_dict({"station": ["1", "2"], "temps": [[20, 5, 5], [19, 8]]})
    e = df.explode("temps")
    assert e.to_dict() == {"station": ["1", "1", "1", "2", "2"], "temps": [20, 5, 5, 19, 8]}
    lists = df.with_columns(
        xs.col("temps").list.len().alias("n"), xs.col("temps").list.first().alias("first")
    )
    assert lists.to_dict()["n"] == [3, 2]
    assert lists.to_dict()["first"] == [20, 19]
    s = xs.from_dict({"w": ["a b", "c d e"]}).select(xs.col("w").str.split(" ")).explode("w")
    assert s.to_dict()["w"] == list("abcde")


def test_strings_dates() -> None:
    df = xs.from_dict(
        {
            "animal": ["Crab", "cat and dog", "rab$bit", None],
            "day": ["2020-01-02", "2020-02-03", "2021-03-04", None],
        }
    )
    r = df.select(
        "animal",
        xs.col("animal").str.contains("cat|bit").alias("regex"),
        xs.col("animal").str.starts_with("Cr").alias("starts"),
        xs.col("animal").str.ends_with("dog").alias("ends"),
        xs.col("animal").str.to_uppercase().alias("upper"),
        xs.col("animal").str.len_chars().alias("n"),
        xs.col("animal").str.replace("rab", "x").alias("rep"),
    )
    d = r.to_dict()
    assert d["regex"] == [False, True, True, None], d
    assert d["starts"] == [True, False, False, None]
    assert d["ends"] == [False, True, False, None]
    assert d["upper"][0] == "CRAB"
    assert d["n"] == [4, 11, 7, None]
    assert d["rep"][2] == "x$bit"
    t = df.with_columns(xs.col("day").str.to_date("%Y-%m-%d").alias("date")).with_columns(
        xs.col("date").dt.month().alias("month"),
        xs.col("date").dt.strftime("%d/%m/%Y").alias("text"),
    )
    d = t.to_dict()
    assert d["date"][0] == date(2020, 1, 2)
    assert d["month"] == [1, 2, 3, None]
    assert d["text"][0] == "02/01/2020"
    assert df.select(xs.col("day").cast(xs.Date)).to_dict()["day"][1] == date(2020, 2, 3)


def test_missing_data() -> None:
    df = xs.from_dict({"a": [1, None, 3], "b": ["x", "y", None]})
    assert df.null_count().to_dict() == {"a": [1], "b": [1]}
    assert df.select(xs.col("a").is_null()).to_dict()["a"] == [False, True, False]
    assert df.with_columns(xs.col("a").fill_null(0)).to_dict()["a"] == [1, 0, 3]
    assert df.drop_nulls().to_dict() == {"a": [1], "b": ["x"]}
    assert df.drop_nulls("a").count() == 2
    assert df.fill_null({"a": 0, "b": "z"}).to_dict() == {"a": [1, 0, 3], "b": ["x", "y", "z"]}
    assert df.filter(~xs.col("a").is_null() & xs.col("b").is_not_null()).count() == 1
    assert df.with_columns(xs.coalesce("a", xs.lit(9)).alias("c")).to_dict()["c"] == [1, 9, 3]
