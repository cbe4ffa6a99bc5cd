"""Calls that users of pandas, Polars, pyarrow and Ray write by habit, and that work; ``tests/refusals`` has what does
not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.operators.core.keys import SortKey

TABLE = pa.table({"k": [3, 1, 2, 1], "x": [0.5, 1.5, 2.5, 3.5], "s": ["a", "b", "c", "d"]})

Call = Callable[[xs.Dataset], object]
Untyped: Any = xs


TAKEN: dict[str, tuple[Call, list[str]]] = {
    "select a list": (lambda d: d.select(["x", "k"]), ["x", "k"]),
    "select a tuple": (lambda d: d.select(("x", "k")), ["x", "k"]),
    "select a list and more": (lambda d: d.select(["x"], "k", z="k + 1"), ["x", "k", "z"]),
    "select keys of a dictionary": (lambda d: d.select({"s": 1, "k": 2}.keys()), ["s", "k"]),
    "drop a list": (lambda d: d.drop(["k", "s"]), ["x"]),
    "drop a list and more": (lambda d: d.drop(["k"], "s"), ["x"]),
    "drop nothing": (lambda d: d.drop([]), ["k", "x", "s"]),
    "add no columns": (lambda d: d.with_columns(), ["k", "x", "s"]),
    "rename nothing": (lambda d: d.rename({}), ["k", "x", "s"]),
    "sort a tuple": (lambda d: d.sort(("k", "x"), descending=(True, False)), ["k", "x", "s"]),
    "distinct of a list": (lambda d: d.distinct(["k"]), ["k", "x", "s"]),
    "union of nothing": (lambda d: d.union(), ["k", "x", "s"]),
    "join on a tuple": (lambda d: d.join(d, on=("k", "x")), ["k", "x", "s", "s_right"]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(name: str, dataset: xs.Dataset) -> None:
    call, columns = TAKEN[name]
    made = call(dataset)
    assert isinstance(made, xs.Dataset)
    assert made.schema.names == columns


def test_selected_and_dropped_lists_have_their_values(
    dataset: xs.Dataset, engine: LocalEngine
) -> None:
    del engine
    assert dataset.select(["x", "k"]).to_arrow().equals(TABLE.select(["x", "k"]))
    assert dataset.drop(["k", "x"]).to_arrow().equals(TABLE.drop_columns(["k", "x"]))


def test_memory_of_tasks_and_paths_of_engines_as_text_and_paths(
    engine: LocalEngine, tmp_path: Path
) -> None:
    def one() -> int:
        return 1

    assert xs.get(xs.remote(one, memory="1MB", executor="thread").remote()) == 1
    assert xs.remote(memory="1MiB")(one) is not None
    spill = tmp_path / "one"
    spill.mkdir()
    for given in (spill, [spill], str(spill)):
        started = xs.init(memory_limit=engine.memory_limit, spill_dirs=given)
        assert list(started.spill_dirs) == [str(spill)]


def test_keys_as_objects_still_sort(dataset: xs.Dataset, engine: LocalEngine) -> None:
    del engine
    made = dataset.sort_keys(iter([SortKey("k", descending=True), SortKey("x")]), num_partitions=2)
    assert made.to_arrow()["s"].to_pylist() == ["a", "c", "b", "d"]


def test_a_column_of_such_a_name_can_be_sorted_by(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    pq.write_table(pa.table({"k": [1, 2], "k desc": [2, 1]}), tmp_path / "in.parquet")
    ordered = xs.read_parquet(tmp_path / "in.parquet").sort("k desc").to_arrow()
    assert ordered["k desc"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "keys", [(["k"],), (("k",),), ("k",), (["k"], "x"), ("k", ["x"])], ids=repr
)
def test_group_by_takes_lists(keys: tuple[Any, ...], dataset: xs.Dataset) -> None:
    names = ["k", "x"] if "x" in str(keys) else ["k"]
    grouped = dataset.group_by(*keys)
    assert list(grouped.keys) == names
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
    assert again(dataset).to_arrow().equals(once(dataset).to_arrow())


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
