"""Operations in a row: steps before and after shuffles, shuffles of shuffles, unions, limits, functions of the user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import exoshuffle as xs
from exoshuffle.dataset.applying import MAX_STEPS
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, OptionsError, SchemaError
from tests.support.generated import assert_same_rows, generated, query
from tests.support.oracle import assert_same, read_directory, write_files

ROWS = 200_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS, keys=5000)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("piped") / "in", table, 3, rows_per_group=20_000)


def test_steps_around_shuffles(table: pa.Table, source: Path, engine: LocalEngine) -> None:
    del engine
    best = (
        xs.read_parquet(source)
        .filter("small > 2")
        .with_columns(double="2 * id")
        .group_by("k")
        .agg(total=("double", "sum"), n="count")
        .filter("n > 1")
        .sort(["total", "k"], descending=[True, False])
        .limit(1234)
        .rename({"total": "sum"})
    )
    wanted = query(
        "select k, sum(2 * id)::bigint as sum, count(*) as n from t where small > 2 group by k having n > 1 "
        "order by sum desc, k limit 1234",
        t=table,
    )
    assert_same(best.to_arrow(), wanted)


def test_a_table_comes_through_unchanged(
    table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    del engine
    dataset = xs.read_parquet(source)
    assert_same(dataset.with_columns(new="id + 1").drop("new").to_arrow(), table)
    again = dataset.random_shuffle(seed=3).select(*table.column_names).sort("id").to_arrow()
    assert_same(again, table)


def test_functions_run_in_worker_processes(source: Path, roomy_engine: LocalEngine) -> None:
    del roomy_engine

    def where(batch: pa.Table) -> pa.Table:
        here = pa.array([os.getpid()] * len(batch), pa.int64())
        return batch.select(["id"]).append_column("process", here)

    made = xs.read_parquet(source).map_batches(where).sort("id", descending=True).to_arrow()
    assert made["id"].to_pylist() == list(range(ROWS))[::-1]
    assert str(os.getpid()) not in {str(pid) for pid in made["process"].unique().to_pylist()}


def test_a_function_that_raises_is_named(source: Path, engine: LocalEngine) -> None:
    del engine

    def fail(batch: pa.Table) -> pa.Table:
        if len(batch):
            raise ValueError("I do not like this batch")
        return batch

    with pytest.raises(Exception, match="I do not like this batch"):
        xs.read_parquet(source).map_batches(fail).sort("id").to_arrow()


def test_union_and_limit(
    table: pa.Table, source: Path, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    dataset = xs.read_parquet(source)
    twice = dataset.union(dataset.filter("k < 100"))
    more = table.filter(pc.less(table["k"], 100))
    assert_same(twice.to_arrow(), pa.concat_tables([table, more]))
    assert_same_rows(twice.sort("k").to_arrow(), pa.concat_tables([table, more]))
    mixed = dataset.sort("id").limit(70_000).union(dataset.limit(5))
    assert_same(mixed.to_arrow(), pa.concat_tables([table.slice(0, 70_000), table.slice(0, 5)]))
    mixed.write_parquet(tmp_path / "out")
    assert read_directory(tmp_path / "out", "parquet").num_rows == 70_005
    assert dataset.limit(0).to_arrow().num_rows == 0
    with pytest.raises(SchemaError, match=r"union: .* must have the same columns"):
        dataset.union(dataset.select("id"))
    with pytest.raises(OptionsError, match="limit is -1"):
        dataset.limit(-1)


@pytest.mark.parametrize("subset", [None, "k", ["small", "x"]])
def test_distinct_keeps_the_first(
    subset: object, table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    del engine
    dataset = xs.read_parquet(source).drop("nested")
    flat = table.drop_columns(["nested"])
    if subset is None:
        twice = dataset.union(dataset)
        assert_same_rows(twice.distinct().to_arrow(), flat)
        return
    names = ", ".join([subset] if isinstance(subset, str) else subset)
    wanted = query(
        f"select * from t qualify row_number() over (partition by {names} order by id) = 1",  # noqa: S608  names of this test
        t=flat,
    )
    assert_same_rows(dataset.distinct(subset).to_arrow(), wanted)


def test_what_does_not_fit_the_schema_is_refused_at_once(source: Path) -> None:
    dataset = xs.read_parquet(source)
    for make in (
        lambda: dataset.select("nope"),
        lambda: dataset.filter("nope > 3"),
        lambda: dataset.filter("id >"),
        lambda: dataset.with_columns(a="sum(id)"),
        lambda: dataset.drop("nope"),
        lambda: dataset.rename({"nope": "a"}),
        lambda: dataset.distinct("nope"),
    ):
        with pytest.raises((SchemaError, OptionsError)):
            make()


def test_explain_shows_every_shuffle(source: Path, engine: LocalEngine) -> None:
    del engine
    bill = (
        xs.read_parquet(source).group_by("k").agg(n="count").sort("n", strategy="simple").explain()
    )
    assert bill.operator == "sort"
    assert [before.operator for before in bill.before] == ["group_by"]
    assert str(bill).count("partitions (reduces)") == 2


def test_tasks_of_a_limit_have_memory(
    source: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved: list[int] = []

    def reserve(num_bytes: int) -> Any:
        reserved.append(num_bytes)
        return engine.store.reserve(num_bytes)

    monkeypatch.setattr(engine.budget, "reserve", reserve)
    limited = xs.read_parquet(source).limit(ROWS)
    assert limited.to_arrow().num_rows == ROWS
    # Those that read the files, and those that hand on what is wanted of it; who counts rows copies none.
    assert len([size for size in reserved if size]) == 2 * limited.explain().splits


def test_a_result_larger_than_the_budget_can_be_kept(engine: LocalEngine, tmp_path: Path) -> None:
    table = generated(600_000).select(["id", "text"]).append_column("pad", [["y" * 200] * 600_000])
    write_files(tmp_path / "in", table, 4, rows_per_group=20_000)
    assert table.nbytes > engine.budget_bytes
    sorted_rows = xs.read_parquet(tmp_path / "in").sort("id", descending=True).to_arrow()
    assert sorted_rows["id"].to_pylist() == list(range(600_000))[::-1]


def test_columns_may_be_named_like_arguments(source: Path) -> None:
    rows = xs.read_parquet(source)
    assert rows.select("id", self="id + 1").schema.names == ["id", "self"]
    assert "self" in rows.with_columns(self="1").schema.names


def test_many_steps_in_a_row(source: Path, engine: LocalEngine) -> None:
    del engine
    rows = xs.read_parquet(source).limit(3)
    both = rows.filter("true").union(rows)
    for number in range(MAX_STEPS - 1):
        both = both.rename(
            {"id" if number % 2 == 0 else "other": "other" if number % 2 == 0 else "id"}
        )
    assert both.to_arrow().num_rows == 6
    with pytest.raises(OptionsError, match=r"more than 256 steps in a row; give several"):
        both.drop("k")
    assert both.sort("k").drop("k").to_arrow().num_rows == 6


def test_a_file_without_rows(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    write_files(tmp_path / "in", generated(10).slice(0, 0), 1)
    dataset = xs.read_parquet(tmp_path / "in")
    assert dataset.group_by("k").agg(n="count").to_arrow().num_rows == 0
    assert dataset.filter("k > 3").random_shuffle().to_arrow().num_rows == 0
    assert dataset.join(dataset, on="k", how="full").to_arrow().num_rows == 0


def test_a_corrupt_file_is_an_input_error(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    write_files(tmp_path / "in", generated(20_000), 1, rows_per_group=20_000)
    [path] = (tmp_path / "in").iterdir()
    damaged = bytearray(path.read_bytes())
    damaged[1000:3000] = b"\xff" * 2000
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=path.name):
        xs.read_parquet(tmp_path / "in").filter("k > 3").sort("k").to_arrow()
