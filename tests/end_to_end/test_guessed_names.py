"""Names that users of pandas, Polars and Spark guess, and steps on nulls, types and lists: Polars is the oracle."""

from __future__ import annotations

import datetime as dt
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.elsewhere import ON_DATASETS, ON_GROUPS, ON_PACKAGE, TYPES
from exoshuffle.errors import ExoshuffleError, SchemaError
from exoshuffle.operators.sql.elsewhere import ON_EXPRESSIONS

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
    named = rows.cast({"x": "float", "flag": "int", "k": "str"}).schema
    assert [str(named.field(name).type) for name in ("x", "flag", "k")] == [
        "double",
        "int64",
        "string",
    ]
    kinds = rows.cast({"x": float, "k": str, "f": "float32", "flag": "int8"}).schema
    assert [str(kinds.field(name).type) for name in ("x", "k", "f", "flag")] == [
        "double",
        "string",
        "float",
        "int8",
    ]
    assert rows.select("x").cast({"x": "text"}).to_pydict() == {"x": ["3", None, "1", "2"]}


def test_types_of_files_are_those_of_cast(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,x,s,f,b\n1,2,3,4,true\n")
    (tmp_path / "x.jsonl").write_text('{"id": 1, "x": 2, "s": "3", "f": 4, "b": true}\n')
    types = {"id": int, "x": "int8", "s": str, "f": "float", "b": bool}
    for read, name in ((xs.read_csv, "x.csv"), (xs.read_json, "x.jsonl")):
        made = read(tmp_path / name, schema=types)
        assert [str(kind) for kind in made.schema.types] == [
            "int64",
            "int8",
            "string",
            "double",
            "bool",
        ]
        assert made.to_pylist() == [{"id": 1, "x": 2, "s": "3", "f": 4.0, "b": True}]


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
    mixed = frame.with_columns(a=pl.col("a").cast(pl.Int8), b=pl.col("b") / 4)
    same(
        xs.from_polars(mixed).unpivot(["a", "b"], index="id"), mixed.unpivot(["a", "b"], index="id")
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


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pa.array([1, 5_000, 1], pa.timestamp("ns")), ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000005"]),
        (pa.array([-1_000_000, 0, -1_000_000], pa.date32()), ["-0768-02-04", "1970-01-01"]),
    ],
    ids=str,
)  # fmt: skip
def test_pivot_by_moments_that_python_does_not_have(values: pa.Array, names: list[str]) -> None:
    rows = xs.from_arrow(pa.table({"on": values, "k": [1, 1, 1], "v": [5, 6, 7]}))
    made = rows.pivot("on", index="k", values="v", aggregate="sum")
    assert made.to_pydict() == {"k": [1], names[0]: [12], names[1]: [6]}


def test_pivot_of_no_values_has_the_groups_alone() -> None:
    frame = pl.DataFrame({"on": [1, 2], "k": ["a", "b"], "v": [5, 6]})
    none = frame.clear()
    made = xs.from_polars(none).pivot("on", index="k", values="v")
    assert made.to_polars().equals(none.pivot("on", index="k", values="v"))
    chosen = xs.from_polars(frame).pivot("on", index="k", values="v", on_columns=[])
    assert sorted(chosen.to_pydict()["k"]) == ["a", "b"]
    assert chosen.columns == ["k"]


def test_brackets_and_attributes(rows: xs.Dataset) -> None:
    same(rows[["k", "x"]], FRAME.select("k", "x"))
    same(rows[rows["x"] > 1], FRAME.filter(pl.col("x") > 1))
    same(rows[rows.x > 1], FRAME.filter(pl.col("x") > 1))
    same(rows[:2], FRAME[:2])
    same(rows[:], FRAME)
    same(rows.sort(xs.col("x"), nulls_last=False), FRAME.sort("x"))
    same(rows.filter("x > 1 or x is null", rows.flag), FRAME.filter(
        (pl.col("x") > 1) | pl.col("x").is_null(), pl.col("flag")))  # fmt: skip
    assert rows.shape == FRAME.shape
    assert rows.dtypes == {field.name: field.type for field in rows.schema}
    with pytest.raises(TypeError, match=r"not iterable; write iter_rows\(\) for its rows"):
        list(rows)


def test_patterns_are_replaced_as_in_polars() -> None:
    frame = pl.DataFrame({"s": ["a.b.c", "", None, "xaay"]})
    made = xs.from_polars(frame).select(
        each=xs.col("s").str.replace_all("[ab]+", "<>"),
        text=xs.col("s").str.replace_all(".", "-", literal=True),
        group=xs.col("s").str.replace_all("(a+)", r"(\1)"),
        plain=xs.col("s").str.replace(".", "-"),
    )
    text = pl.col("s").str
    wanted = frame.select(
        each=text.replace_all("[ab]+", "<>"),
        text=text.replace_all(".", "-", literal=True),
        group=text.replace_all("(a+)", "(${1})"),
        plain=text.replace_all(".", "-", literal=True),
    )
    same(made, wanted)


def test_last_rows() -> None:
    numbers = xs.range(1000).repartition(7)
    expected = numbers.to_pydict()["id"]
    for n in (0, 1, 300, 1000, 2000):
        assert numbers.tail(n).column("id").to_pylist() == expected[max(0, 1000 - n) :]


def test_rows_that_lack_all_values(rows: xs.Dataset) -> None:
    some = rows.select("k", "x")
    assert some.dropna(how="all").to_pydict() == some.to_pydict()
    both = some.filter("x is null or k is null").with_columns(k="nullif(k, 'a')")
    assert both.dropna(how="all").to_pydict() == {"k": [None], "x": [1]}
    same(rows.null_count(), FRAME.null_count().cast(pl.Int64))


def test_one_value_for_all_rows(rows: xs.Dataset) -> None:
    for call in ("sum", "mean", "min", "max", "std", "median"):
        assert getattr(rows, call)("x") == getattr(FRAME["x"], call)()


def test_one_function_for_columns() -> None:
    frame = pl.DataFrame(
        {
            "k": ["b", "a", "b", "b"],
            "x": [3, 1, 5, 4],
            "f": [0.5, 1.5, None, 2.0],
            "s": list("wxyz"),
        }
    )
    grouped = xs.from_polars(frame).groupby("k")
    wanted = frame.group_by("k")
    numbers = frame.drop("s").group_by("k")
    for call in ("min", "max", "first", "last"):
        same(getattr(grouped, call)().sort("k"), getattr(wanted, call)().sort("k"))
    for call in ("sum", "mean", "median"):
        made = getattr(grouped, call)().sort("k")
        assert made.to_pylist() == getattr(numbers, call)().sort("k").to_dicts()
    assert grouped[["x"]].std().columns == ["k", "x"]
    assert grouped.sum("f").columns == ["k", "f"]


def in_any_order(frame: pl.DataFrame) -> list[str]:
    return sorted(map(str, frame.rows()))


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_merge(how: str) -> None:
    left = pl.DataFrame({"k": [1, 2, 2], "v": [1, 2, 3], "only": [4, 7, 6]})
    right = pl.DataFrame({"k": [2, 3], "v": [7, 8], "w": [1, 1]})
    ours, theirs = xs.from_polars(left), xs.from_polars(right)
    by_k = left.rename({"v": "v_x"}).join(
        right.rename({"v": "v_y"}), "k", how="full" if how == "outer" else how, coalesce=True
    )
    for arguments in ({"on": "k"}, {"on": ["k"], "suffixes": ("_a", "_b")}):
        made = xs.merge(ours, theirs, how=how, **arguments).to_polars()
        a, b = arguments.get("suffixes", ("_x", "_y"))
        assert made.columns == ["k", f"v{a}", "only", f"v{b}", "w"]
        wanted = by_k.select("k", "v_x", "only", "v_y", "w")
        assert in_any_order(made) == in_any_order(wanted)
    both = left.join(right, ["k", "v"], how="full" if how == "outer" else how, coalesce=True)
    assert in_any_order(ours.merge(theirs, how).to_polars()) == in_any_order(
        both.select("k", "v", "only", "w")
    )
    named = ours.merge(theirs, how, left_on="k", right_on=["k"]).to_polars()
    assert in_any_order(named) == in_any_order(ours.merge(theirs, how, on="k").to_polars())
    made = ours.merge(theirs, how, left_on="only", right_on="v").to_polars()
    assert made.columns == ["k_x", "v_x", "only", "k_y", "v_y", "w"]
    apart = left.rename({"k": "k_x", "v": "v_x"}).join(
        right.rename({"k": "k_y", "v": "v_y"}), left_on="only", right_on="v_y",
        how="full" if how == "outer" else how, coalesce=False,
    )  # fmt: skip
    assert in_any_order(made) == in_any_order(apart.select(made.columns))


@pytest.mark.parametrize("batch_size", [1, 7, 100, 1000])
def test_batches_of_a_size(batch_size: int) -> None:
    numbers = xs.range(250).repartition(6)
    expected = numbers.to_pydict()["id"]
    parts = [expected[start : start + batch_size] for start in range(0, 250, batch_size)]
    assert [batch.column(0).to_pylist() for batch in numbers.iter_batches(batch_size)] == parts
    installed = [name for name in ("numpy", "pandas", "polars") if importlib.util.find_spec(name)]
    for batch_format in installed:
        made = numbers.iter_batches(batch_size, batch_format=batch_format, drop_last=True)
        full = [part for part in parts if len(part) == batch_size]
        assert [
            batch["id"].tolist() if batch_format != "polars" else batch["id"].to_list()
            for batch in made
        ] == full
    assert [row["id"] for row in numbers.iter_rows()] == expected


REFUSED: dict[str, tuple[Callable[[xs.Dataset], object], str]] = {
    "a row by number": (lambda d: d[0], "brackets got 0; write a name, a list of names, a condi"),
    "rows behind others": (lambda d: d[1:3], r"brackets got slice\(1, 3, None\); .* no numbers"),
    "a name that is nearly one": (lambda d: d["flg"], "there is no column 'flg'"),
    "a column set": (lambda d: d.__setitem__("y", 1), "cannot set 'y', because a dataset never ch"),
    "a function that answers with a row": (
        lambda d: d.filter(lambda row: row).to_arrow(),
        "filter: the function .* returned .*; return True to keep a row, or False",
    ),
    "text in double quotes": (
        lambda d: d.filter('k == "y"'),
        "there is no column 'y'; .*; text takes single quotes: 'y'$",
    ),
    "an unknown name without quotes": (lambda d: d.filter("k == y"), "the columns are .*'day'$"),
    "an integer divided by 0": (
        lambda d: d.select(v="1 // (x - x)").to_arrow(),
        r"where x is 3: an integer is divided by 0; write nullif\(divisor, 0\) for .*, or try\(",
    ),
    "the rest of a division by 0": (
        lambda d: d.select(v=xs.col("x") % 0).to_arrow(),
        "where x is 3: an integer is divided by 0; write nullif",
    ),
    "no condition": (lambda d: d.filter(), "filter got nothing; write a condition"),
    "a function not called": (lambda d: d.assign(y=d.day.dt.year), "function year; write year"),
    "dropna": (lambda d: d.dropna(how="some"), 'how is \'some\'; write "any" or "all"'),
    "concat": (lambda d: xs.concat([d], how="across"), "how is 'across'; write \"vertical\" or"),
    "places of nulls": (lambda d: d.sort("x", nulls="first", nulls_last=True), "give one of them"),
    "suffixes": (lambda d: d.merge(d, on="x", suffixes="_r"), "suffixes is '_r'; give two texts"),
    "suffixes alike": (lambda d: d.merge(d, on="x", suffixes=("", "")), "the two must differ"),
    "a key to merge": (lambda d: d.merge(d, on="z"), "no column 'z'; the columns are 'k', 'x'"),
    "an aggregate as a value": (
        lambda d: bool(d.x.mean() == 2),
        "has a value for each row, so none by itself",
    ),
    "a place in a list": (lambda d: d["items"].list.get("1"), "get got '1'; give a place, 0 for"),
    "a table to merge": (
        lambda d: d.merge(FRAME, on="x"),
        "merge takes a Dataset, and got a polars",
    ),
    "pivot of two": (lambda d: d.pivot_table("x", "k", ["f", "day"]), "pivot_table takes one col"),
    "a size": (lambda d: d.iter_batches(0), "batch_size is 0; it must be a whole number from 1"),
    "a format": (
        lambda d: d.iter_batches(batch_format="arrow"),
        "batch_format is 'arrow'; write o",
    ),
    "a format of functions": (
        lambda d: d.map_batches(len, batch_format=3),
        'batch_format is 3; write one of "pyarrow", "numpy", "pandas", "polars"',
    ),
    "no column to sum": (
        lambda d: d.select("k", "day").group_by("k").sum(),
        r"no column beside the keys has a sum; name columns in agg\(\)",
    ),
}


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: xs.read_csv("x", sep=";"), "read_csv has no argument 'sep'; write delimiter="),
        (lambda: xs.read_csv("x", dtype={}), "'dtype'; write schema={name: type}"),
        (lambda: xs.read_csv("x", skiprows=1), "'skiprows'; write skip_rows="),
        (lambda: xs.read_parquet("x", columns=["a"]), "'columns'; write select(names)"),
        (lambda: xs.read_json("x", nrows=3), "'nrows'; write limit(n)"),
        (lambda: xs.range(3).to_csv("x", index=False), "'index'; rows have no index"),
        (lambda: xs.range(3).write_parquet("x", partition_cols=["a"]), "write partition_by="),
        (lambda: xs.range(3).write_csv("x", sep=";"), "CSV is written with commas"),
        (lambda: xs.range(3).map(dict, batched=True), "write map_batches(function) for batches"),
        (lambda: xs.range(3).map(dict, remove_columns=["id"]), "write drop(names)"),
        (lambda: xs.range(3).map(dict, with_indices=True), "rows have no numbers; write with_col"),
        (lambda: xs.range(3).filter(fn=bool), "'fn'; write filter(function)"),
        (lambda: xs.range(3).filter(bool, batched=True), "write map_batches(function) for batches"),
        (lambda: xs.range(3).pivot("id", index="id", values="id", aggregate_function="sum"), "write aggregate="),
        (lambda: xs.range(3).merge(xs.range(3), indicator=True), "merge has no argument 'indicator'; write with"),
        (lambda: xs.range(3).repartition(num_blocks=3), "'num_blocks'; write repartition(n)"),
        (lambda: xs.range(3).join(xs.range(3), "id", join_type="inner"), "'join_type'; write how="),
        (lambda: xs.range(3).filter(bool, with_indices=True), "'with_indices'; rows have no numbers"),
        (lambda: xs.range(3).astype("float64"), "types are 'float64'; give a pyarrow schema or a dict"),
        (lambda: xs.col("t").dt.truncate("5m"), "truncate got '5m'; write one unit, or xs.sql(\"time_buck"),
        (lambda: xs.init(address="auto"), "unknown option 'address' of engine 'local'; write engine="),
        (lambda: xs.range(3).sum(on="id"), "sum has no argument 'on'; name one column, as in sum(name)"),
        (lambda: xs.range(3).mean("id", skipna=True), "mean has no argument 'skipna'; nulls count for"),
        (lambda: xs.range(3).sum(), "sum got no column; name one"),
        (lambda: xs.range(3).drop("id", axis=1), "'axis'; drop takes names of columns alone, so leave"),
        (lambda: xs.range(3).drop(labels="id"), "'labels'; write drop(names)"),
        (lambda: xs.concat([xs.range(3)], axis=1), "'axis'; rows have no numbers; write join(other"),
        (lambda: xs.concat([xs.range(3)], ignore_index=True), "rows have no index; leave it out"),
        (lambda: xs.range(3).fill_null(strategy="forward"), "'strategy'; rows have no order by them"),
        (lambda: xs.range(3).fillna(method="ffill"), "write with_columns(x='last_value(x IGNORE NULLS)"),
    ],
)  # fmt: skip
def test_arguments_of_others(call: Callable[[], object], remedy: str) -> None:
    with pytest.raises(ExoshuffleError, match=re.escape(remedy)):
        call()


def test_unknown_arguments_are_type_errors_and_columns_may_have_foreign_names() -> None:
    with pytest.raises(TypeError, match=r"read_csv\(\) got an unexpected keyword argument 'nope'"):
        xs.read_csv("x", nope=1)
    with pytest.raises(TypeError, match=r"max\(\) got an unexpected keyword argument 'nope'"):
        xs.range(3).max("id", nope=1)
    assert xs.from_pydict({"fn": [1, 2]}).filter(fn=2).to_pydict() == {"fn": [2]}


def test_functions_that_are_not_here(rows: xs.Dataset) -> None:
    for function in (lambda: rows.k.str.title, lambda: rows.day.dt.week, lambda: rows["items"].list.std):  # fmt: skip
        with pytest.raises(
            AttributeError, match=r"have no function '\w+'; write one of DuckDB in SQL"
        ):
            function()
    for text in ("k + k", rows.k + rows.k):
        with pytest.raises(ExoshuffleError, match=r"write \|\| between texts"):
            rows.select(both=text)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, rows: xs.Dataset) -> None:
    call, sentence = REFUSED[name]
    with pytest.raises(ExoshuffleError, match=sentence):
        call(rows)


def test_names_that_mean_nothing_here(rows: xs.Dataset) -> None:
    for name, remedy in ON_DATASETS.items():
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}; {remedy}")):
            getattr(rows, name)
    for name, remedy in ON_PACKAGE.items():
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}; {remedy}")):
            getattr(xs, name)
    for name, remedy in ON_EXPRESSIONS.items():
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}; ")) as caught:
            getattr(xs.col("k"), name)
        assert str(caught.value).endswith(remedy.replace('"x"', "'k'"))
    for name, remedy in ON_GROUPS.items():
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}; {remedy}")):
            getattr(rows.group_by("k"), name)
    for made, name, remedy in (
        (rows, "groupBy", "write group_by(...)"),
        (rows, "unionAll", "write union(other)"),
        (xs.col("k"), "isNotNull", "write is_not_null(...)"),
        (rows.group_by("k")["x"], "cumsum", "write with_columns(total="),
        (xs, "concatenate_datasets", "write concat(datasets)"),
        (rows.group_by("k"), "applyInPandas", "write map_groups(function"),
    ):
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}; {remedy}")):
            getattr(made, name)
    with pytest.raises(AttributeError, match=r"groups have no attribute 'x'; write agg\(name=\("):
        rows.group_by("k").x  # noqa: B018  it is read
    with pytest.raises(
        AttributeError, match="no attribute 'colunms'; there is no column 'colunms'"
    ):
        rows.colunms  # noqa: B018  it is read


def test_functions_that_an_expression_has_elsewhere(rows: xs.Dataset) -> None:
    functions: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: rows.k.startswith("a"), "write xs.col('k').str.startswith(...)"),
        (lambda: rows.day.year, "write xs.col('day').dt.year(...)"),
        (lambda: rows.x.log, "write one of DuckDB in SQL"),
        (
            lambda: rows.day.dt.day_name,
            "moments have no function 'day_name'; write strftime(\"%A\")",
        ),
        (lambda: rows.k.str.zfill(3), "write xs.sql(\"lpad(s, 5, '0')\")"),
        (
            lambda: rows["items"].list.sum,
            "lists have no function 'sum'; write xs.sql(\"list_sum(l)\")",
        ),
        (lambda: rows.group_by("k").describe, 'write agg(n="count"'),
        (lambda: rows.group_by("k").foo, "write agg(name=(column, function))"),
    )
    for function, remedy in functions:
        with pytest.raises(AttributeError, match=re.escape(remedy)):
            function()


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("x + 1", "write select(name='x + 1') for an expression"),
        ("lower(k) AS low", "write select(low='lower(k)') for an expression"),
        ("k, x", "write select('k', 'x') for several columns"),
        ("*", "write select(*dataset.columns) for all"),
        ("items[1]", "write select(name='items[1]') for an expression"),
    ],
)
def test_sql_in_the_place_of_names(rows: xs.Dataset, given: str, remedy: str) -> None:
    with pytest.raises(
        SchemaError, match=re.escape(f"no column {given!r}; ") + ".*" + re.escape(remedy)
    ):
        rows.select(given)
    odd = xs.from_pydict({"x + 1": [1]})
    assert odd.select("x + 1").to_pydict() == {"x + 1": [1]}


@pytest.mark.parametrize("read", [xs.read_csv, xs.read_json, xs.read_ipc])
def test_files_that_are_read_as_another_format_than_their_names_say(
    tmp_path: Path, read: Callable[[Path], xs.Dataset]
) -> None:
    xs.range(3).write_parquet(tmp_path / "out")
    for path in (tmp_path / "out", tmp_path / "out" / "part-00000.parquet"):
        with pytest.raises(
            ExoshuffleError, match=r"part-00000\.parquet' says parquet, so read it as"
        ):
            read(path)


def test_units_by_the_names_of_polars(rows: xs.Dataset) -> None:
    units = ("1y", "1q", "1mo", "1w", "1d")
    same(
        rows.select(**{unit: xs.col("day").dt.truncate(unit) for unit in units}).cast(
            dict.fromkeys(units, "date")
        ),
        FRAME.select(**{unit: pl.col("day").dt.truncate(unit) for unit in units}),
    )


def test_functions_for_batches_of_others_are_told_of_the_formats(rows: xs.Dataset) -> None:
    def of_frame(batch: Any) -> Any:
        return batch.assign(y=1)

    for function in (lambda batch: batch["x"] * 2, of_frame):
        with pytest.raises(ExoshuffleError, match=r'batches are .*batch_format="numpy"\) makes'):
            rows.select("x").map_batches(function).to_arrow()


def test_a_prompt_shows_a_plan_as_print_does(rows: xs.Dataset) -> None:
    assert repr(rows.explain()) == str(rows.explain())


def test_groups_say_what_they_are(rows: xs.Dataset) -> None:
    assert repr(rows.group_by("k", day="year(day)")).startswith("Grouped(keys=['k', 'day']); agg()")
    assert repr(rows.group_by("k")["x"]).startswith("Grouped(keys=['k'], columns=['x']); agg()")


def test_columns_of_nulls_stay_in_a_pivot_table() -> None:
    rows = xs.from_pydict({"i": [1, 1], "c": ["a", "b"], "v": [None, 2]})
    made = rows.pivot_table("v", "i", "c", aggfunc="sum")
    assert made.to_pydict() == {"i": [1], "a": [None], "b": [2]}


def test_types_by_the_names_of_polars(rows: xs.Dataset) -> None:
    for name, text in TYPES.items():
        assert getattr(xs, name) == text
        assert xs.lit(None).cast(text).text.startswith("CAST(NULL AS ")
        kind = rows.select(v=xs.lit(None).cast(getattr(xs, name))).to_polars()["v"].dtype
        assert kind == (pl.Datetime("us") if name == "Datetime" else getattr(pl, name))


def test_kept_rows(rows: xs.Dataset, tmp_path) -> None:
    """The rows are there after the files that they came from."""
    rows.select("k", "x").write_parquet(tmp_path / "out")
    kept = xs.read_parquet(tmp_path / "out").filter("x > 1").materialize()
    for path in (tmp_path / "out").iterdir():
        path.unlink() if path.is_file() else path.rmdir()
    same(kept, FRAME.select("k", "x").filter(pl.col("x") > 1))
    assert repr(kept).startswith("Dataset(materialize)")


def test_columns_as_objects_where_names_go(rows: xs.Dataset) -> None:
    assert rows.sum(xs.col("x")) == rows.sum(rows.x) == 6
    sums = rows.group_by(rows.k).agg(total=(rows.x, "sum")).sort("k")
    assert sums.to_pydict()["total"] == [2, 3, 1]


def test_filter_by_the_name_of_its_argument(rows: xs.Dataset) -> None:
    assert rows.filter(expr="x > 1").to_pydict()["x"] == [3, 2]
    assert rows.filter("x > 1", expr=xs.col("f") > 1).to_pydict()["x"] == [2]
    assert rows.query(expr="x = 1").count() == 1


def test_filters_and_columns_as_in_polars(rows: xs.Dataset) -> None:
    x = pl.col("x")
    same(rows.filter(k="a"), FRAME.filter(k="a"))
    same(rows.filter(xs.col("x") > 1, k="a"), FRAME.filter(x > 1, k="a"))
    same(rows.filter([xs.col("x") > 1, "flag"]), FRAME.filter([x > 1, pl.col("flag")]))
    same(rows.with_columns([(xs.col("x") * 2).alias("y"), xs.col("k").alias("z")]),
         FRAME.with_columns([(x * 2).alias("y"), pl.col("k").alias("z")]))  # fmt: skip
    same(rows.select(["k", xs.col("x")]), FRAME.select("k", "x"))
    numbers = rows.with_columns(one=1, half=0.5, yes=True, day=dt.date(2024, 1, 1))
    same(numbers.select("one", "half", "yes", "day"), FRAME.select(
        pl.lit(1).alias("one"), pl.lit(0.5).alias("half"), pl.lit(True).alias("yes"),
        pl.lit(dt.date(2024, 1, 1)).alias("day"), pl.col("k")).drop("k"))  # fmt: skip
    assert rows.pipe(lambda ds, n: ds.limit(n), 2).count() == 2


def test_functions_as_in_polars() -> None:
    frame = pl.DataFrame(
        {
            "i": [7, -7, None, 6, 2**60 + 1],
            "f": [7.5, -7.5, None, -0.5, 4.0],
            "s": ["hello", "é…", None, "", "ab"],
            "t": [dt.datetime(2024, 2, day, 13, 5) for day in (1, 4, 5, 29)] + [None],  # noqa: DTZ001  without a zone
        }
    )

    def made(m: Any) -> list[Any]:
        i, f, s, t = (m.col(name) for name in "ifst")
        return [
            (i // 2).alias("halves"),
            (i // -3).alias("thirds"),
            (f // 2).alias("halves of floats"),
            f.floor().alias("floor"),
            f.ceil().alias("ceil"),
            f.clip(-1, 5).alias("clip"),
            (f * f).sqrt().alias("sqrt"),
            s.str.slice(1, 3).alias("slice"),
            s.str.slice(-2, 1).alias("slice from the end"),
            t.dt.date().alias("date"),
            t.dt.weekday().cast(m.Int64).alias("weekday"),
        ]

    assert xs.from_polars(frame).select(*made(xs)).to_pylist() == frame.select(made(pl)).to_dicts()
    months = xs.from_polars(frame).select(t=xs.col("t").dt.truncate("month"))
    assert months.to_pylist() == frame.select(pl.col("t").dt.truncate("1mo")).to_dicts()


def test_groups_as_in_polars(rows: xs.Dataset) -> None:
    groups = rows.select("k", "x", "f").group_by("k")
    polars = FRAME.select("k", "x", "f").group_by("k")
    assert groups.len().sort("k").to_pylist() == [
        {"k": "a", "len": 2}, {"k": "b", "len": 1}, {"k": None, "len": 1}]  # fmt: skip
    assert groups.len("n").columns == ["k", "n"]
    assert groups.nunique("x").sort("k").to_pydict()["x"] == [1, 1, 1]
    wanted = polars.agg(pl.col("x").var()).sort("k", nulls_last=True)
    assert groups.var("x").sort("k").to_pylist() == wanted.to_dicts()
    lists = polars.agg(pl.col("x").implode().first()).sort("k", nulls_last=True)
    assert groups.agg(xs.col("x").implode()).sort("k").to_pylist() == lists.to_dicts()


def test_joins_by_the_names_of_spark(rows: xs.Dataset) -> None:
    left, right = rows.select("k", "x"), rows.select("k", "f").filter(k="a")
    for name, ours in (
        ("left_outer", "left"),
        ("leftsemi", "semi"),
        ("left_anti", "anti"),
        ("outer", "full"),
    ):
        wanted = left.join(right, on="k", how=ours)
        assert left.join(right, on="k", how=name).columns == wanted.columns
        assert left.join(right, on="k", how=name).count() == wanted.count()


OTHER_ARGUMENTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "direction": (lambda d: d.sort("x", ascending=False), "sort has no argument 'ascending'; wri"),
    "order of groups": (lambda d: d.group_by("k", maintain_order=True), "groups come in any order"),
    "share": (lambda d: d.sample(frac=0.1), "sample has no argument 'frac'; write fraction="),
    "keys once": (lambda d: d.join(d, on="k", coalesce=True), "keys of on= come once, those of"),
    "the last one": (
        lambda d: d.unique("k", keep="last"),
        'keep is .last.; it must be "first", and',
    ),
    "order of rows": (lambda d: d.unique("k", maintain_order=True), "rows come in any order; sort"),
}


@pytest.mark.parametrize("name", OTHER_ARGUMENTS)
def test_arguments_that_mean_nothing_here(name: str, rows: xs.Dataset) -> None:
    call, words = OTHER_ARGUMENTS[name]
    with pytest.raises(ExoshuffleError, match=words):
        call(rows)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        rows.sort("x", nothing=1)
