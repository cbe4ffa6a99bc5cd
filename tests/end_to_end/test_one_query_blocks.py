"""Group-bys of rows in memory that one query computes: how much of the budget they may have, and looks at keys.

Also functions that keep all values of a group.
"""

from __future__ import annotations

import collections

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs import storing
from exoshuffle.engines.local.memory import limits
from exoshuffle.operators.one_query import relation
from tests.support.one_query import as_shuffled, counted_queries


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    return counted_queries(monkeypatch)


def test_blocks_of_a_third_of_the_budget_are_read_by_one_query(
    counts: collections.Counter[str],
) -> None:
    with xs.init(memory_limit=limits.limit_for(200_000_000), num_cpus=2) as engine:
        num_rows = engine.budget_bytes // 3 // 8
        numbers = xs.range(num_rows).materialize()
        groups = numbers.group_by(key="id % 10").agg(n="count").to_pydict()
    assert counts == {"query": 1}
    assert groups["key"] == list(range(10))
    assert sum(groups["n"]) == num_rows


def test_keys_of_blocks_are_looked_at_before_a_query_is_refused(
    counts: collections.Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3,000 rows, 375 groups are guessed, and about 280 have room."""
    monkeypatch.setattr(storing, "BLOCK_BYTES", 2_000)
    monkeypatch.setattr(relation, "GROUP_VALUE_BYTES", 4_000_000)
    with xs.init(memory_limit="2GB", num_cpus=2):
        rows = xs.from_arrow(pa.table({"id": range(3_000)})).with_columns(key="id % 20")
        few, many = (rows.group_by(key).agg(n="count") for key in ("key", "id"))
        assert few.to_arrow() == as_shuffled(few).to_arrow().sort_by("key")
        assert counts == {"query": 1}
        assert many.to_arrow().num_rows == 3_000
        assert counts == {"query": 1}


@pytest.mark.parametrize("columns", [["k"], []])
def test_medians_and_quantiles_are_those_of_a_shuffle(
    columns: list[str], counts: collections.Counter[str]
) -> None:
    values = [None, float("nan"), -0.0, 0.0, float("inf"), -1.5, 2.0, 3.25] * 100
    table = pa.table({"k": [i % 7 for i in range(800)], "x": values, "y": range(800)})
    with xs.init(memory_limit="2GB", num_cpus=2):
        found = {"m": "median(x)", "low": "quantile(y, 0.1)", "high": "quantile(y, 0.9)"}
        some = xs.from_arrow(table).filter("y % 5 <> 1")
        rows = some.group_by(columns).agg(**found, n="count(*)", most="max(y)")
        wanted = as_shuffled(rows).to_arrow()
        assert not counts
        assert rows.to_arrow().equals(wanted.sort_by("k") if columns else wanted)
    assert counts == {"query": 1}


def test_medians_whose_values_may_have_no_room_are_shuffled(
    counts: collections.Counter[str],
) -> None:
    with xs.init(memory_limit=limits.limit_for(120_000_000), num_cpus=2):
        numbers = xs.range(3_000_000).materialize()
        groups = numbers.group_by(key="id % 10").agg(m="median(id)").sort("key").to_pydict()
        assert not counts
        assert groups["m"] == [1_499_995.0 + key for key in range(10)]
        few = numbers.limit(100_000).materialize()
        # Nobody knows how many rows a join or a shuffle makes.
        pairs = few.join(few, on="id").group_by(key="id % 10").agg(m="median(id)").to_pydict()
        assert sorted(pairs["m"]) == [49_995.0 + key for key in range(10)]
