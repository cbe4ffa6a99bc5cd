"""Random types and values as keys: what groups, duplicates and pairs there are, DuckDB says.

Hypothesis draws the same examples each time and prints the one that fails; sorting is in ``test_sort_random``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import exoshuffle as xs
from exoshuffle.strategies.library import strategy_names
from tests.support.generated import assert_same_rows, query
from tests.support.matrix import cut_small
from tests.support.oracle import write_files
from tests.support.tables import KEY_TYPES, columns

pytestmark = pytest.mark.shares_engine

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
WHOLE = "whole"
STRATEGIES = [*strategy_names(), WHOLE]
quick = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", autouse=True)
def _engine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        xs.init(num_cpus=2, memory_limit="2GB")
        yield
        xs.shutdown()


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Up to 80 rows with one or two keys ``k0`` and ``k1``, and a column ``id`` that numbers them."""
    num_rows = draw(st.integers(0, 80))
    keys = {f"k{i}": draw(columns(KEY_TYPES, num_rows)) for i in range(draw(st.integers(1, 2)))}
    return pa.table({**keys, "id": pa.array(range(num_rows), pa.int64())})


def how_to_run(strategy: str) -> dict[str, Any]:
    return {"strategy": strategy, "num_partitions": None if strategy == WHOLE else 5}


def keys_of(table: pa.Table) -> list[str]:
    return table.column_names[:-1]


@quick
@given(table=tables(), num_files=st.integers(1, 3), strategy=st.sampled_from(STRATEGIES))
def test_groups_and_duplicates_of_any_keys(table: pa.Table, num_files: int, strategy: str) -> None:
    names = keys_of(table)
    listed = ", ".join(names)
    with tempfile.TemporaryDirectory() as folder:
        rows = xs.read_parquet(write_files(Path(folder) / "in", table, num_files, 7))
        groups = rows.group_by(*names, **how_to_run(strategy)).agg(
            n="count", total=("id", "sum"), ids=("id", "list"), least=(names[0], "min")
        )
        grouped = groups.to_arrow()
        first = rows.distinct(names, **how_to_run(strategy)).to_arrow()
    sql = (
        f"select {listed}, count(*) as n, sum(id)::bigint as total, list(id order by id) as ids, "  # noqa: S608  names of this test
        f"min({names[0]}) as least from t group by {listed}"
    )
    assert_same_rows(grouped, query(sql, t=table))
    sql = f"select * from t qualify row_number() over (partition by {listed} order by id) = 1"  # noqa: S608  names of this test
    assert_same_rows(first, query(sql, t=table))


@quick
@given(table=tables(), how=st.sampled_from(HOWS), strategy=st.sampled_from(STRATEGIES))
def test_pairs_of_any_keys(table: pa.Table, how: str, strategy: str) -> None:
    names = keys_of(table)
    left, right = table.slice(0, len(table) // 2), table.slice(len(table) // 2)
    with tempfile.TemporaryDirectory() as folder:
        sides = [
            xs.read_parquet(write_files(Path(folder) / side, rows, 2, 7))
            for side, rows in (("left", left), ("right", right))
        ]
        joined = sides[0].join(sides[1], names, how, **how_to_run(strategy))
        actual = joined.to_arrow()
    listed = ", ".join(names)
    others = "" if how in ("semi", "anti") else ", r.id as id_right"
    sql = f"select {listed}, l.id{others} from l {how} join r using ({listed})"  # noqa: S608  names of this test
    assert_same_rows(actual, query(sql, l=left, r=right))
