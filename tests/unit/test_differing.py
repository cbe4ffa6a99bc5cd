"""Filters that ask whether the values of a group differ are answered by bounds, with the same rows as by sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset import taken
from exoshuffle.dataset.tree.needed import pruned
from exoshuffle.dataset.tree.nodes import Node, ShuffleNode
from tests.support.limits import large_memory_limit
from tests.support.oracle import write_files

#: Of 0, 1, 2 and 3 different values, and of nulls beside some.
VALUES = [[], [None], [5], [5, 5, None], [5, 6], [None, 6, 5, 5], [5, 6, 7]]


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[xs.Dataset]:
    pairs = [(key, value) for key, values in enumerate(VALUES) for value in values]
    texts = [None if value is None else f"v{value}" for _, value in pairs]
    table = pa.table(
        {
            "k": pa.array([key for key, _ in pairs], pa.int64()),
            "i": pa.array([value for _, value in pairs], pa.int32()),
            "s": pa.array(texts, pa.string()),
            "f": pa.array([value for _, value in pairs], pa.float64()),
        }
    )
    xs.init(num_cpus=2, memory_limit=large_memory_limit())
    yield xs.read_parquet(write_files(tmp_path / "in", table, 2, 5))
    xs.shutdown()


def functions(node: Node) -> set[str]:
    """The aggregates that a tree computes."""
    found = {name for child in node.children for name in functions(child)}
    if isinstance(node, ShuffleNode) and node.shuffle.aggregation is not None:
        grouping = node.shuffle.aggregation.grouping  # type: ignore[attr-defined]
        found |= {item.function for item in grouping.aggregates}
    return found


def keys(groups: xs.Dataset) -> list[int]:
    return sorted(groups.to_arrow()["k"].to_pylist())


@pytest.mark.parametrize("column", ["i", "s"])
@pytest.mark.parametrize("compare", ["=", "<>", "<", "<=", ">", ">="])
def test_rows_are_those_of_sets(
    compare: str, column: str, rows: xs.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = rows.group_by("k").agg(n=(column, "count_distinct"), most=("i", "max"))
    filters = [f"n {compare} {number} and k < 6" for number in range(5)]
    chosen = [groups.filter(text).select("k", "most") for text in filters]
    found = [keys(each) for each in chosen]
    by_bounds = ["count_distinct" not in functions(pruned(each.node)) for each in chosen]
    # Two values are not told from three, and every number is at least 0.
    assert (
        by_bounds
        == {
            "=": [True, True, False, False, False],
            "<>": [True, True, False, False, False],
            "<": [True, True, True, False, False],
            "<=": [True, True, False, False, False],
            ">": [True, True, False, False, False],
            ">=": [True, True, True, False, False],
        }[compare]
    )
    monkeypatch.setattr(taken, "pruned", lambda node: node)
    assert found == [keys(each) for each in chosen]


def test_a_number_that_is_wanted_is_counted(rows: xs.Dataset) -> None:
    groups = rows.group_by("k").agg(n=("i", "count_distinct"))
    for chosen in (
        groups.filter("n > 1"),
        groups.filter("n > 1").select(m="n + 1"),
        groups.filter("n > 1 or k = 1").select("k"),
        groups.filter("n % 2 = 1").select("k"),
        rows.group_by("k").agg(n=("f", "count_distinct")).filter("n > 1").select("k"),
    ):
        assert "count_distinct" in functions(pruned(chosen.node))


def test_several_numbers_and_names_that_are_taken(rows: xs.Dataset) -> None:
    columns = {
        "n": ("i", "count_distinct"),
        "N min": ("s", "count_distinct"),
        "n max": ("i", "max"),
    }
    groups = rows.group_by("k").agg(**columns).filter('n > 1 and "N min" = 2').select("k", "n max")
    found = groups.to_arrow().sort_by("k").to_pylist()
    assert found == [{"k": 4, "n max": 6}, {"k": 5, "n max": 6}]
