"""Calls that one might well write and that mean nothing here: one sentence each, when the call is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, OptionsError, OutputError, SchemaError
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.strategies import Push

TABLE = pa.table(
    {
        "k": [3, 1, 2, 1],
        "x": [0.5, 1.5, 2.5, 3.5],
        "items": [[1], [], [2], [3]],
        "point": [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}],
    }
)


Call = Callable[[xs.Dataset], object]

OPTIONS: dict[str, tuple[Call, str]] = {
    "sort by a number": (
        lambda d: d.sort(0),
        "by names 0; it must be the name of a column, or a l",
    ),
    "sort by bytes": (lambda d: d.sort(b"k"), "by names b'k'; it must be the name"),
    "sort by pairs": (
        lambda d: d.sort([("k", "desc")]),
        r"by names \('k', 'desc'\); .*; directions are given by descending=",
    ),
    "two directions of one column": (
        lambda d: d.sort(["k", "k"], descending=[True, False]),
        "sort key 'k' is named twice, in different ways; name it once",
    ),
    "no direction": (lambda d: d.sort("k", descending=None), "descending is None; write True or F"),
    "a number as direction": (lambda d: d.sort("k", descending=1), "descending is 1; write True"),
    "a word as direction": (lambda d: d.sort("k", descending="desc"), "descending is 'desc'; writ"),
    "words as directions": (
        lambda d: d.sort("k", descending=["asc"]),
        "descending is 'asc'; write",
    ),
    "no placement": (lambda d: d.sort("k", nulls=None), 'nulls is None; write "first" or "last"'),
    "placements of numbers": (lambda d: d.sort("k", nulls=[1]), 'nulls is 1; write "first"'),
    "top_k by a number": (lambda d: d.top_k(3, 0), "by names 0"),
    "group by a number": (
        lambda d: d.group_by(0),
        "group_by names 0; it must be the name of a col",
    ),
    "distinct by a number": (lambda d: d.distinct(0), "subset names 0"),
    "join on a number": (lambda d: d.join(d, on=0), "on names 0"),
    "join left_on a number": (lambda d: d.join(d, left_on=[0], right_on="k"), "left_on names 0"),
    "join right_on a number": (lambda d: d.join(d, left_on="k", right_on=0), "right_on names 0"),
    "join with a table": (
        lambda d: d.join(TABLE, on="k"),
        "join takes a Dataset, and got a pyarrow.lib.Table; .* read_parquet",
    ),
    "union with a table": (
        lambda d: d.union(TABLE),
        "union takes a Dataset, and got a pyarrow.lib.Ta",
    ),
    "union with a list": (lambda d: d.union([d]), "union takes a Dataset, and got a builtins.list"),
    "a strategy's class": (
        lambda d: d.sort("k", strategy=Push),
        r"strategy is the class Push; pass an instance of it, such as Push\(\)",
    ),
    "no strategy": (
        lambda d: d.sort("k", strategy=None),
        "strategy is None; pass a name .auto, simp",
    ),
    "a number as strategy": (lambda d: d.distinct("k", strategy=5), "strategy is 5; pass a name"),
    "an object as strategy": (lambda d: d.join(d, "k", strategy=object()), "strategy is <object"),
    "unknown strategy of sort": (
        lambda d: d.sort("k", strategy="magic"),
        "unknown strategy 'magic'; known are auto, simple, push, pre_shuffle_merge, streaming$",
    ),
    "unknown strategy of group_by": (
        lambda d: d.group_by("k", strategy="x"),
        "unknown strategy 'x'",
    ),
    "unknown strategy of random_shuffle": (
        lambda d: d.random_shuffle(strategy="x"),
        "unknown strategy 'x'",
    ),
    "unknown strategy of repartition": (lambda d: d.repartition(2, strategy="x"), "strategy 'x'"),
    "results elsewhere": (
        lambda d: d.sort("k").explain(results="foo"),
        'results is \'foo\'; write "files" or "batches"',
    ),
    "results that are kept": (
        lambda d: d.sort("k").explain(results="blocks"),
        "results is 'blocks'",
    ),
    "a word as fraction": (
        lambda d: d.sample(fraction="x"),
        "fraction is 'x'; it must be above 0",
    ),
    "no function": (lambda d: d.map_batches("x"), "map_batches needs a function, and got 'x'"),
    "no function of groups": (
        lambda d: d.group_by("k").map_groups(None),
        "needs a function, and got",
    ),
    "a word as schema": (
        lambda d: d.map_batches(lambda batch: batch, schema="x"),
        "schema is 'x'; give a pyarrow.Schema",
    ),
    "a dictionary as schema": (
        lambda d: d.map_batches(lambda batch: batch, schema={}),
        "schema is {}; give a pyarrow.Schema",
    ),
    "an unknown method": (
        lambda d: d.repartition(2, method="magic"),
        "unknown method 'magic'; known are hash, range, round-robin",
    ),
    "an unknown method by a column": (
        lambda d: d.repartition(2, by="k", method=1),
        "unknown method 1",
    ),
    "hash of nothing": (
        lambda d: d.repartition(2, method="hash"),
        "method 'hash' goes by the values of columns; name them in by=",
    ),
    "range of nothing": (
        lambda d: d.repartition(2, method="range"),
        "method 'range' goes by the va",
    ),
    "hash of no columns": (
        lambda d: d.repartition(2, by=[], method="hash"),
        "method 'hash' goes by",
    ),
    "in turn by a column": (
        lambda d: d.repartition(2, by="k", method="round_robin"),
        "method 'round_robin' deals rows out in turn, whatever they hold; leave out by=",
    ),
    "partitions of another type": (
        lambda _: xs.shuffle([1], map=print, reduce=print, num_partitions="2"),  # type: ignore[arg-type]
        "num_partitions is '2'; it must be a whole number",
    ),
    "auto for functions": (
        lambda _: xs.shuffle([1], map=print, reduce=print, num_partitions=2, strategy="auto"),
        "unknown strategy 'auto'; known are simple, push, pre_shuffle_merge, streaming$",
    ),
    "a class for functions": (
        lambda _: xs.shuffle([1], map=print, reduce=print, num_partitions=2, strategy=Push),  # type: ignore[arg-type]
        "strategy is the class Push",
    ),
    "inputs that are none": (
        lambda _: xs.shuffle(7, map=print, reduce=print, num_partitions=2),  # type: ignore[arg-type]
        "inputs is 7; it must be a list",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str, dataset: xs.Dataset) -> None:
    call, message = OPTIONS[name]
    with pytest.raises(OptionsError, match=message) as caught:
        call(dataset)
    assert "\n" not in str(caught.value)


SCHEMAS: dict[str, tuple[Call, str]] = {
    "SQL as a column": (
        lambda d: d.sort("k desc"),
        "there is no column 'k desc'; for the order of 'k' write descending=True",
    ),
    "SQL in a list": (lambda d: d.sort(["x", "k ASC"]), "'k ASC'; for .* write descending=False"),
    "SQL of top_k": (
        lambda d: d.top_k(1, "k desc nulls first"),
        "for the order of 'k' write desce",
    ),
    "group_by lists": (
        lambda d: d.group_by("items").agg(n="count"),
        "column 'items' is list<.*>, which cannot be a key of groups; columns that can are 'k', 'x'$",
    ),
    "group_by structs": (lambda d: d.group_by(["k", "point"]).count(), "column 'point' is struct<"),
    "map_groups of lists": (
        lambda d: d.group_by("items").map_groups(lambda group: group),
        "column 'items' is list<.*>, which cannot be a key of groups",
    ),
    "map_groups of nothing": (
        lambda d: d.group_by("nope").map_groups(lambda group: group),
        "there is no column 'nope'",
    ),
    "distinct lists": (
        lambda d: d.distinct("items"),
        "cannot be a key of groups; columns that can",
    ),
    "distinct rows": (lambda d: d.distinct(), "column 'items' is list<.*>, which cannot be a key"),
    "distinct, and nothing can": (
        lambda d: d.select("items").distinct(),
        "which cannot be a key of groups; columns that can are none of these",
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas(name: str, dataset: xs.Dataset) -> None:
    call, message = SCHEMAS[name]
    with pytest.raises(SchemaError, match=message) as caught:
        call(dataset)
    assert "sort key" not in str(caught.value)


def test_a_column_of_such_a_name_can_be_sorted_by(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    pq.write_table(pa.table({"k": [1, 2], "k desc": [2, 1]}), tmp_path / "in.parquet")
    ordered = xs.read_parquet(tmp_path / "in.parquet").sort("k desc").to_arrow()
    assert ordered["k desc"].to_pylist() == [1, 2]


# --- what is taken -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys", [(["k"],), (("k",),), ("k",), (["k"], "x"), ("k", ["x"])], ids=repr
)
def test_group_by_takes_lists(keys: tuple[Any, ...], dataset: xs.Dataset) -> None:
    names = ["k", "x"] if "x" in str(keys) else ["k"]
    grouped = dataset.group_by(*keys)
    assert grouped.keys == tuple(names)
    assert grouped.count().schema.names == [*names, "count"]


#: By a key named twice, and by that key once: in DuckDB, ORDER BY, GROUP BY and USING take both.
AGAIN: dict[str, tuple[Call, Call]] = {
    "sort": (lambda d: d.sort(["k", "x", "k"]), lambda d: d.sort(["k", "x"])),
    "sort_keys": (lambda d: d.sort_keys([SortKey("k")] * 2), lambda d: d.sort("k")),
    "top_k": (lambda d: d.top_k(3, ["k", "k"]), lambda d: d.top_k(3, "k")),
    "group_by": (lambda d: d.group_by(["k", "k"]).count(), lambda d: d.group_by("k").count()),
    "map_groups": (
        lambda d: d.group_by("k", "k").map_groups(_as_it_is),
        lambda d: d.group_by("k").map_groups(_as_it_is),
    ),
    "distinct": (lambda d: d.distinct(["k", "k"]), lambda d: d.distinct("k")),
    "join": (lambda d: d.join(d, ["k", "k"]), lambda d: d.join(d, "k")),
    "join by other names": (
        lambda d: d.join(d, left_on=["k", "k"], right_on=["k", "k"]),
        lambda d: d.join(d, left_on="k", right_on="k"),
    ),
    "repartition": (lambda d: d.repartition(2, by=["k", "k"]), lambda d: d.repartition(2, by="k")),
    "repartition by range": (
        lambda d: d.repartition(2, by=["k", "k"], method="range"),
        lambda d: d.repartition(2, by="k", method="range"),
    ),
    "drop": (lambda d: d.drop("k", "k"), lambda d: d.drop("k")),
}


def _as_it_is(group: pa.Table) -> pa.Table:
    return group


@pytest.mark.parametrize("name", AGAIN)
def test_a_key_named_again_changes_nothing(
    name: str, dataset: xs.Dataset, roomy_engine: LocalEngine
) -> None:
    del roomy_engine
    again, once = AGAIN[name]
    rows = dataset.drop("items", "point")
    assert again(rows).to_arrow().equals(once(rows).to_arrow())


def test_one_key_against_two(dataset: xs.Dataset, engine: LocalEngine) -> None:
    del engine
    flat = dataset.select("k", "x")
    other = flat.select(a="k", b="k + cast(x > 1 as bigint)")
    both = flat.join(other, left_on=["k", "k"], right_on=["a", "b"])
    assert both.sort("x").to_arrow()["a"].to_pylist() == [3]


@pytest.mark.parametrize("method", ["round-robin", "round_robin", None])
def test_rows_dealt_out_in_turn(
    method: str | None, dataset: xs.Dataset, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    dataset.repartition(2, method=method).write_parquet(tmp_path / "out")
    assert [
        pq.read_metadata(path).num_rows for path in sorted((tmp_path / "out").glob("*.parquet"))
    ] == [2, 2]


def test_inputs_of_a_shuffle_may_be_made_one_by_one(engine: LocalEngine) -> None:
    del engine

    def numbers() -> Iterator[int]:
        yield from range(5)

    shuffled = xs.shuffle(
        numbers(),
        map=lambda _, number: [number, -number],
        reduce=lambda _, slices: sum(slices),
        num_partitions=2,
    )
    assert xs.get(list(shuffled)) == [10, -10]


# --- paths -------------------------------------------------------------------------------------------------------

PATHS: dict[str, tuple[Any, str]] = {
    "none": (None, "path is None; it must be text or a path object"),
    "bytes": (b"data", "path is b'data'; it must be text"),
    "a number": (7, "path is 7; it must be text"),
    "S3": ("s3://bucket/key", "'s3://bucket/key' has the scheme 's3', and only local paths"),
    "HTTP": ("https://x.org/a.parquet", "has the scheme 'https'"),
    "another machine": ("file://there/data", "is on 'there'; write file:///"),
    "another encoding": ("\udcff.parquet", "is not UTF-8 text; rename"),
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("listed", [False, True])
def test_paths_to_read(name: str, listed: bool) -> None:
    path, message = PATHS[name]
    with pytest.raises(InputError, match=message):
        xs.read_parquet([path] if listed else path)


@pytest.mark.parametrize("name", PATHS)
def test_paths_to_write(
    name: str,
    dataset: xs.Dataset,
    engine: LocalEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del engine
    monkeypatch.chdir(tmp_path)
    path, message = PATHS[name]
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(OutputError, match=message):
        dataset.write_parquet(path)
    if path is not None:
        with pytest.raises(OutputError, match=message):
            dataset.explain(path)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("form", ["~/{}", "file://{home}/{}", "file://localhost{home}/{}"])
def test_other_ways_to_write_a_path(
    form: str, engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my data").mkdir()
    pq.write_table(TABLE, tmp_path / "my data" / "in.parquet")
    name = "my data" if form.startswith("~") else "my%20data"
    read = xs.read_parquet(form.format(f"{name}/*.parquet", home=tmp_path))
    assert read.files == [str(tmp_path / "my data" / "in.parquet")]
    result = read.write_parquet(form.format("out", home=tmp_path))
    assert result.path == str(tmp_path / "out")
    assert pq.read_table(tmp_path / "out").equals(TABLE)
    bill = read.explain(form.format("out", home=tmp_path), overwrite=True)
    assert bill.output_free_bytes is not None
