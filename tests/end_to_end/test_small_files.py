"""Many small files: a task reads some hundred of them, and what comes out is as if it had read each alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle import _native
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError
from exoshuffle.operators.core.order import ByKeys
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.steps.sample import numbers
from exoshuffle.plan.workload import Workload
from tests.support.oracle import assert_same

FILES = 600
ROWS = 7  # of a file
SEED = 5


def table_of(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table(
        {
            "id": ids,
            "k": [i * 7919 % 13 for i in ids],
            "name": [None if i % 11 == 0 else f"name {i * 31 % 97}" for i in ids],
        }
    )


WRITERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "parquet": pq.write_table,
    "csv": pyarrow.csv.write_csv,
    "arrow": pyarrow.feather.write_feather,
}
READERS: dict[str, Callable[..., xs.Dataset]] = {
    "parquet": xs.read_parquet,
    "csv": xs.read_csv,
    "arrow": xs.read_ipc,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("small")
    for kind, write in WRITERS.items():
        (root / kind).mkdir()
        for number in range(FILES):
            write(table_of(number), root / kind / f"{number:05}.{kind}")
    return root


@pytest.fixture(params=list(WRITERS))
def dataset(request: pytest.FixtureRequest, root: Path, engine: LocalEngine) -> xs.Dataset:
    del engine
    return READERS[request.param](root / request.param)


def whole() -> pa.Table:
    return pa.concat_tables([table_of(number) for number in range(FILES)])


def test_a_task_reads_many_files(dataset: xs.Dataset) -> None:
    side = Side(dataset.schema, ByKeys())
    items = FileInput(dataset.node.source).cut(side, 32_000_000, Workload(0, 0))
    assert [len(item) for item in items] == [256, 256, 88]


def test_a_file_is_cut_where_it_is_large_and_read_alone(dataset: xs.Dataset) -> None:
    side = Side(dataset.schema, ByKeys())
    items = FileInput(dataset.node.source).cut(side, 1, Workload(0, 0))
    assert all(isinstance(item, _native.Split) for item in items)
    assert len(items) >= FILES


def test_equal_keys_stay_in_the_order_of_files(dataset: xs.Dataset) -> None:
    wanted = whole().sort_by([("k", "ascending"), ("id", "ascending")])
    assert_same(dataset.sort("k", num_partitions=5).to_arrow(), wanted)
    filtered = dataset.filter("id % 3 = 0").sort("k", num_partitions=5).to_arrow()
    assert filtered["id"].to_pylist() == [i for i in wanted["id"].to_pylist() if i % 3 == 0]


def test_scans_keep_the_order_of_files(dataset: xs.Dataset) -> None:
    assert_same(dataset.to_arrow(), whole())
    names = dataset.filter("id % 2 = 1").select("name").to_arrow()["name"].to_pylist()
    assert names == whole()["name"].to_pylist()[1::2]
    assert dataset.limit(ROWS + 2).to_arrow()["id"].to_pylist() == list(range(ROWS + 2))


def test_groups_and_joins(dataset: xs.Dataset) -> None:
    rows = whole()
    wanted = duckdb.sql(
        "select name, count(*)::bigint n, sum(id)::bigint s from rows group by name "
        "order by name nulls last"
    )
    found = dataset.group_by("name").agg(n="count", s=("id", "sum")).sort("name").to_arrow()
    assert found.to_pylist() == wanted.to_arrow_table().to_pylist()
    joined = dataset.join(dataset.select("id"), on="id", strategy="simple").sort("id").to_arrow()
    assert_same(joined.select(rows.column_names), rows)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_random_numbers_are_those_of_file_and_row(
    kind: str, root: Path, engine: LocalEngine
) -> None:
    del engine
    dataset = READERS[kind](root / kind)
    drawn = [
        (number, file * ROWS + row)
        for file in range(FILES)
        for row, number in enumerate(numbers(SEED, file, 0, ROWS).to_pylist())
    ]
    wanted = [row for _, row in sorted(drawn)]
    assert dataset.random_shuffle(SEED).to_arrow()["id"].to_pylist() == wanted
    assert dataset.sample(50, seed=SEED).to_arrow()["id"].to_pylist() == wanted[:50]
    halved = dataset.filter("id % 2 = 0").random_shuffle(SEED).to_arrow()["id"].to_pylist()
    assert halved == [row for row in wanted if row % 2 == 0]


def test_an_error_names_its_file(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("a\n1\n2\n" if number != 1 else "a\n1\n2,3\n")
    with pytest.raises(InputError, match=r"1\.csv"):
        xs.read_csv(tmp_path, schema={"a": "int64"}).sort("a").to_arrow()
