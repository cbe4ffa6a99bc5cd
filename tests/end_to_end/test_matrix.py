"""Every strategy with every operator, on threads and in worker processes: DuckDB's rows, and the same order as ever.

``tests/ray/test_matrix.py`` does the same on Ray.
"""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.testing.meeting import poll
from tests.support.generated import assert_same_rows, query
from tests.support.matrix import OPERATORS, STRATEGIES, Tables, make_tables
from tests.support.oracle import assert_same

pytestmark = pytest.mark.shares_engine


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return make_tables(tmp_path_factory.mktemp("matrix"))


@pytest.fixture(scope="module")
def references() -> dict[tuple[str, bool], pa.Table]:
    """The first result of each operator; others have to be equal, in order too."""
    return {}


@pytest.mark.parametrize("in_processes", [False, True], ids=["threads", "processes"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", OPERATORS)
def test_rows_are_equal(
    name: str,
    strategy: str,
    in_processes: bool,
    tables: Tables,
    references: dict[tuple[str, bool], pa.Table],
    matrix_engine: LocalEngine,
) -> None:
    actual = tables.result(name, strategy, in_processes)
    if (name, in_processes) not in references:
        tables.check(name, actual)
        references[name, in_processes] = actual
    assert_same(actual, references[name, in_processes])
    del actual
    poll(lambda: num_objects(matrix_engine) == 0)


def num_objects(engine: LocalEngine) -> int:
    """Objects that are stored. The collector of garbage frees the blocks of a merge that was given up."""
    gc.collect()
    return engine.stats()["num_objects"]


def test_there_are_many_maps_and_rounds(tables: Tables, matrix_engine: LocalEngine) -> None:
    """The tests above rely on several blocks: otherwise there would be nothing to merge."""
    del matrix_engine
    left, right = (xs.read_parquet(tables.folder / side) for side in ("left", "right"))
    sort = left.sort("k", strategy="push", num_partitions=3).explain()
    joined = left.join(right, on="k", strategy="push", num_partitions=3).explain()
    assert (sort.operator, joined.operator) == ("sort", "join")
    for bill in (sort, joined):
        assert bill.splits >= 8
        assert bill.rounds >= 4


def test_online_aggregation_makes_the_same_groups(
    tables: Tables, matrix_engine: LocalEngine
) -> None:
    """States are aggregates there, which are not reduced; the last result is all of them."""
    del matrix_engine
    groups = xs.read_parquet(tables.folder / "left").group_by("k", num_partitions=7)
    *_, last = groups.agg(n="count", total=("id", "sum")).stream()
    sql = "select k, count(*) as n, sum(id)::bigint as total from l group by k"
    assert_same_rows(last.table.select(["k", "n", "total"]), query(sql, l=tables.left))
