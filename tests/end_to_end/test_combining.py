"""Maps combine rows where fewer bytes travel for it; the groups are the same either way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.inputs import file_sizes
from exoshuffle.dataset.tree.nodes import ShuffleNode
from exoshuffle.engines.local import LocalEngine
from tests.support.generated import assert_same_rows, query

ROWS = 150_000
PARTS = ["rows()", "total(x)", "min(x)"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    numbers = pa.array(range(ROWS), pa.int64())
    # Keys of "late" are 5,000 rows apart: they repeat in a split, and not in the stretches that are measured.
    return pa.table(
        {
            "once": pa.array([row * 7919 % ROWS for row in range(ROWS)], pa.int64()),
            "late": pa.array([row % 5_000 for row in range(ROWS)], pa.int64()),
            "often": pa.array([row % 10 for row in range(ROWS)], pa.int64()),
            "x": numbers,
        }
    )


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("combining") / "in.parquet"
    pq.write_table(table, path, row_group_size=3_000)
    return path


def columns_that_travel(result: xs.Dataset, engine: LocalEngine) -> list[str]:
    assert isinstance(result.node, ShuffleNode)
    [(_, side)] = Execution(engine).shuffle_job(result.node, "files").inputs
    names: list[str] = side.schema.names
    return names


@pytest.mark.parametrize(
    ("key", "travelling"), [("once", ["x"]), ("late", PARTS), ("often", PARTS)]
)
def test_what_travels_is_what_is_less(
    key: str,
    travelling: list[str],
    table: pa.Table,
    source: Path,
    engine: LocalEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_sizes, "MEASURED_BYTES", 50_000)
    grouped = xs.read_parquet(source).group_by(key)
    result = grouped.agg(n="count", total=("x", "sum"), least=("x", "min"))
    assert columns_that_travel(result, engine) == [key, *travelling]
    wanted = f"select {key}, count(*) as n, sum(x)::bigint as total, min(x) as least from t group by {key}"  # noqa: S608
    assert_same_rows(result.to_arrow(), query(wanted, t=table))


def test_rows_without_keys_are_always_combined(source: Path, engine: LocalEngine) -> None:
    result = xs.read_parquet(source).group_by().agg(n="count", total=("x", "sum"))
    assert columns_that_travel(result, engine) == PARTS[:2]
    assert result.to_arrow().to_pylist() == [{"n": ROWS, "total": ROWS * (ROWS - 1) // 2}]


def test_the_result_of_a_shuffle_is_measured_as_a_whole(
    table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    shuffled = xs.read_parquet(source).repartition(3)
    result = shuffled.group_by("once").agg(total=("x", "sum"))
    assert columns_that_travel(result, engine) == ["once", "x"]
    wanted = "select once, sum(x)::bigint as total from t group by once"
    assert_same_rows(result.to_arrow(), query(wanted, t=table))
