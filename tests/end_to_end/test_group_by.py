"""Grouping files larger than the budget gives what DuckDB gives, whatever runs it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, SchemaError
from tests.end_to_end.generated import assert_same_rows, generated, query
from tests.end_to_end.oracle import write_files

ROWS = 400_000
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
    return generated(ROWS, keys=50_000)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("grouped") / "in", table, 4, rows_per_group=20_000)


@pytest.mark.parametrize("keys", [("k",), ("small",), ("x", "text"), ("small", "moment")])
@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge"])
def test_groups_are_those_of_duckdb(
    keys: tuple[str, ...], strategy: str, table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    del engine
    grouped = xs.read_parquet(source).group_by(*keys, strategy=strategy, num_partitions=40)
    names = ", ".join(keys)
    wanted = query(f"select {names}, {WANTED} from t group by {names}", t=table)  # noqa: S608  names of this test
    assert_same_rows(grouped.agg(**AGGREGATES).to_arrow(), wanted)


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
