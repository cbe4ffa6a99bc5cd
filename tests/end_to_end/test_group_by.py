"""Grouping files of many splits gives what DuckDB gives, whatever runs it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, SchemaError
from tests.support.generated import assert_same_rows, generated, query
from tests.support.oracle import write_files

ROWS = 200_000
AGGREGATES = {
    "n": "count",
    "total": ("id", "sum"),
    "least": ("x", "min"),
    "most": ("text", "max"),
    "values": ("small", "count_distinct"),
    "half": ("id", "median"),
}
WANTED = """
    count(*) as n, sum(id)::bigint as total, min(x) as least, max(text) as most,
    count(distinct small) as values, median(id) as half
"""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS, keys=25_000)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("grouped") / "in", table, 4, rows_per_group=10_000)


@pytest.fixture(scope="module")
def wanted(table: pa.Table) -> Callable[[str], pa.Table]:
    """The groups that DuckDB makes of keys, asked once for all strategies."""

    @functools.cache
    def groups(names: str) -> pa.Table:
        return query(f"select {names}, {WANTED} from t group by {names}", t=table)  # noqa: S608  names of this test

    return groups


@pytest.mark.parametrize("keys", [("k",), ("small",), ("x", "text"), ("small", "moment")])
@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge"])
def test_groups_are_those_of_duckdb(
    keys: tuple[str, ...],
    strategy: str,
    source: Path,
    wanted: Callable[[str], pa.Table],
    engine: LocalEngine,
) -> None:
    del engine
    grouped = xs.read_parquet(source).group_by(*keys, strategy=strategy, num_partitions=40)
    assert grouped.agg(**AGGREGATES).explain().splits > 1
    assert_same_rows(grouped.agg(**AGGREGATES).to_arrow(), wanted(", ".join(keys)))


def test_all_rows_are_one_group_without_keys(
    table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    del engine
    actual = (
        xs.read_parquet(source).group_by().agg(n="count", total=("id", "sum"), most=("x", "max"))
    )
    wanted = "select count(*) as n, sum(id)::bigint as total, max(x) as most from t"
    assert_same_rows(actual.to_arrow(), query(wanted, t=table))


def test_groups_of_no_rows(source: Path, engine: LocalEngine) -> None:
    del engine
    nothing = xs.read_parquet(source).filter("id < 0").group_by("k").agg(n="count").to_arrow()
    assert nothing.num_rows == 0
    assert nothing.schema.types == [pa.int64(), pa.int64()]


def test_a_function_per_group(table: pa.Table, source: Path, roomy_engine: LocalEngine) -> None:
    del roomy_engine

    def ends(group: pa.Table) -> pa.Table:
        return group.select(["small", "id"]).slice(0, 1)

    actual = xs.read_parquet(source).group_by("small").map_groups(ends).to_arrow()
    wanted = query("select small, min(id) as id from t group by small", t=table)
    assert_same_rows(actual, wanted)


@pytest.mark.parametrize(
    ("aggregates", "error", "message"),
    [
        ({}, OptionsError, "at least one"),
        ({"n": ("nope", "sum")}, SchemaError, "nope"),
        ({"n": ("text", "sum")}, SchemaError, "text"),
        ({"n": ("id", "magic")}, OptionsError, "magic"),
        ({"n": ("id", "quantile", 2)}, OptionsError, "2"),
        ({"k": "count"}, OptionsError, "k"),
    ],
)
def test_wrong_aggregates_are_refused_before_work(
    aggregates: dict[str, object], error: type[Exception], message: str, source: Path
) -> None:
    with pytest.raises(error, match=message):
        xs.read_parquet(source).group_by("k").agg(**aggregates)


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns")])
def test_functions_get_groups_by_nanoseconds(
    kind: pa.DataType, roomy_engine: LocalEngine, tmp_path: Path
) -> None:
    del roomy_engine
    table = pa.table({"k": pa.array([7001, 1, None, 7001, 2, 1], kind), "x": range(6)})
    source = write_files(tmp_path / "in", table, 2)

    def total(group: pa.Table) -> dict[str, object]:
        return {"k": group["k"][:1], "total": [sum(group["x"].to_pylist())] * bool(group)}

    schema = pa.schema([("k", kind), ("total", pa.int64())])
    made = xs.read_parquet(source).group_by("k").map_groups(total, schema=schema).to_arrow()
    assert made.schema == schema
    wanted = pa.table({"k": pa.array([7001, 1, None, 2], kind), "total": [3, 6, 2, 4]})
    assert made.sort_by("total").equals(wanted.sort_by("total").cast(schema))
