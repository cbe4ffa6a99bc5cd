"""Programs of "10 minutes to pandas", with names as its readers guess them: each gives the values that it must."""

from __future__ import annotations

from datetime import date

import polars as pl
import pytest

import exoshuffle as xs

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

# Polars starts its threads when it collects for the first time, and they hold descriptors.
pl.LazyFrame({"x": [1]}).collect()


def test_create_view() -> None:
    pd = pytest.importorskip("pandas")
    pdf = pd.DataFrame({"A": 1.0, "B": pd.Timestamp("20130102"), "C": list(range(4)), "F": "foo"})
    df = xs.from_pandas(pdf)
    assert list(df.columns) == ["A", "B", "C", "F"]
    assert df.tail(3).column("C").to_pylist() == [1, 2, 3]
    assert list(df.dtypes) == ["A", "B", "C", "F"]
    assert len(df) == 4
    assert df.shape == (4, 4)
    assert df.head(2).to_pandas()["C"].tolist() == [0, 1]
    pd.testing.assert_frame_equal(df.to_pandas(), pdf, check_dtype=False)
    assert df.to_numpy()["C"].tolist() == [0, 1, 2, 3]


def test_describe() -> None:
    df = xs.from_dict({"a": [1, 2, 3, 4], "b": [1.5, 2.5, 3.5, 4.5]})
    frame = pl.from_arrow(df.describe())
    assert dict(frame.select("statistic", "a").iter_rows())["mean"] == 2.5


def test_sort_values() -> None:
    df = xs.from_dict({"A": [3, 1, 2], "B": list("xyz")})
    assert df.sort_values(by="A").to_dict()["B"] == ["y", "z", "x"]
    assert df.sort_values("A", ascending=False).to_dict()["B"] == ["x", "z", "y"]
    assert df.sort_values(["A", "B"], ascending=[False, True]).to_dict()["A"] == [
        3,
        2,
        1,
    ]
    assert df.nlargest(1, "A").to_dict()["B"] == ["x"]
    assert df.nsmallest(1, "A").to_dict()["B"] == ["y"]


def test_selection() -> None:
    df = xs.from_dict({"A": [3, -1, 2], "B": [1, 2, 3], "C": list("xyz")})
    assert df[["A", "B"]].columns == ["A", "B"]
    assert df[df["A"] > 0].to_dict()["C"] == ["x", "z"]
    assert df[(df["A"] > 0) & (df["B"] > 1)].to_dict()["C"] == ["z"]
    assert df[df["A"] > 0][["C"]].to_dict()["C"] == ["x", "z"]
    assert df.query("A > 0 and B > 1").to_dict()["C"] == ["z"]
    assert df[0:2].to_dict()["A"] == [3, -1]
    assert df[df.A > 0].to_dict()["C"] == ["x", "z"]


def test_isin() -> None:
    df = xs.from_dict({"A": [1, 2, 3, 4], "E": ["one", "two", "three", "four"]})
    assert df[df["E"].isin(["two", "four"])].to_dict()["A"] == [2, 4]
    assert df[~df["E"].isin(["two", "four"])].to_dict()["A"] == [1, 3]
    r = df.assign(F=df["A"] * 10, G=lambda d: d["A"] + 1)
    assert r.to_dict()["F"] == [10, 20, 30, 40]
    assert r.to_dict()["G"] == [2, 3, 4, 5]


def test_missing() -> None:
    df = xs.from_dict({"A": [1.0, None, 3.0], "B": [None, 2.0, 3.0]})
    assert df.dropna(how="any").to_dict()["A"] == [3.0]
    assert df.fillna(value=5).to_dict()["A"] == [1.0, 5.0, 3.0]
    assert df.dropna(subset=["A"]).count() == 2
    assert df.isna().to_dict()["A"] == [False, True, False]
    assert df[df["A"].notna()].to_dict()["A"] == [1.0, 3.0]


def test_value_counts() -> None:
    df = xs.from_dict({"A": ["x", "y", "x", "z", "x"], "v": [1, 2, 3, 4, 5]})
    vc = df.value_counts("A")
    d = vc.to_polars()
    assert d["A"][0] == "x"
    assert d["count"].to_list() == [3, 1, 1]
    assert df.mean("v") == 3
    assert df.sum("v") == 15
    assert df.select(df["A"].str.upper()).to_dict()["A"][0] == "X"
    assert df.drop_duplicates("A").count() == 3


def test_merge_concat() -> None:
    left = xs.from_dict({"key": ["foo", "bar"], "lval": [1, 2]})
    right = xs.from_dict({"key": ["foo", "bar"], "rval": [4, 5]})
    m = left.merge(right, on="key").sort_values("key")
    assert m.to_dict()["rval"] == [5, 4]
    m2 = xs.merge(left, right, on="key", how="outer")
    assert m2.count() == 2
    c = xs.concat([left, left])
    assert len(c) == 4
    d = xs.from_dict({"k": [1], "v": [1]}).merge(
        xs.from_dict({"k": [1], "v": [2]}), on="k", suffixes=("_l", "_r")
    )
    assert sorted(d.columns) == ["k", "v_l", "v_r"], d.columns


def test_groupby_pivot() -> None:
    df = xs.from_dict(
        {
            "A": ["foo", "bar", "foo", "bar"],
            "B": ["one", "one", "two", "two"],
            "C": [1, 2, 3, 4],
            "D": [10.0, 20.0, 30.0, 40.0],
        }
    )
    g = df.groupby("A")[["C", "D"]].sum().sort_values("A").to_polars()
    assert g["C"].to_list() == [6, 4], g
    g2 = df.groupby(["A", "B"]).sum().to_polars()
    assert len(g2) == 4
    g3 = df.groupby("A").agg({"C": "sum", "D": "mean"}).sort_values("A").to_polars()
    assert g3["D"].to_list() == [30.0, 20.0], g3
    g4 = df.groupby("A").agg(total=("C", "sum")).sort_values("A").to_polars()
    assert g4["total"].to_list() == [6, 4]
    p = df.pivot_table(values="D", index=["A"], columns=["B"]).to_polars()
    assert sorted(p.columns)[-2:] == ["one", "two"], p
    m = df.melt(id_vars=["A"], value_vars=["C", "D"])
    assert m.count() == 8


def test_files_strings(tmp_path) -> None:
    df = xs.from_dict(
        {
            "s": ["Aa", "Bb", None],
            "t": [date(2020, 1, 1), date(2020, 6, 1), date(2021, 1, 1)],
            "v": [1, 2, 3],
        }
    )
    assert df.assign(l=df["s"].str.lower()).to_dict()["l"][:2] == ["aa", "bb"]
    assert df.assign(y=df["t"].dt.year()).to_dict()["y"] == [2020, 2020, 2021]
    assert df.astype({"v": "float"}).dtypes["v"] == "double"
    assert df.rename(columns={"v": "w"}).drop(columns=["s"]).columns == ["t", "w"]
    df.to_csv(tmp_path / "foo.csv")
    assert len(xs.read_csv(tmp_path / "foo.csv")) == 3
    df.to_parquet(tmp_path / "foo.parquet")
    assert xs.read_parquet(tmp_path / "foo.parquet").to_dict()["v"] == [1, 2, 3]
