"""Which columns operators read once those that nothing needs are left out; that rows stay the same is tested by
``end_to_end.test_in_one_piece``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.dataset.tree.needed import pruned
from exoshuffle.dataset.tree.nodes import Files, MapNode, Node, ShuffleNode
from exoshuffle.futures import current_engine
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.steps.step import required_columns
from tests.support.limits import large_memory_limit
from tests.support.oracle import write_files

COLUMNS = "abcdef"


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[xs.Dataset]:
    table = pa.table({name: pa.array(range(20), pa.int64()) for name in COLUMNS})
    xs.init(num_cpus=2, memory_limit=large_memory_limit())
    yield xs.read_parquet(write_files(tmp_path / "in", table, 1, 10))
    xs.shutdown()


def read(node: Node) -> list[str]:
    """The columns that operators read of files, in the order of their inputs."""
    if not isinstance(node, ShuffleNode):
        return [found for child in node.children for found in read(child)]
    sides = zip(node.children, node.shuffle.sides, strict=True)
    return [
        found
        for child, side in sides
        for found in ([columns_of(child, side)] if is_scan(child) else read(child))
    ]


def is_scan(node: Node) -> bool:
    return isinstance(node, Files) or (isinstance(node, MapNode) and is_scan(node.child))


def columns_of(node: Node, side: Side) -> str:
    (source,) = Execution(current_engine()).inputs(node)
    assert isinstance(source, FileInput)
    steps = (*source.steps, *side.steps)
    return "".join(required_columns(steps, schema_of(source.source), side.schema.names))


TREES: dict[str, tuple[Callable[[xs.Dataset], xs.Dataset], list[str]]] = {
    "all": (lambda d: d.sort("a"), ["abcdef"]),
    "sort": (lambda d: d.sort("a").select("b"), ["ab"]),
    "first rows": (lambda d: d.sort("a").limit(3).select("b"), ["ab"]),
    "groups": (lambda d: d.group_by("a").agg(n=("b", "sum")), ["ab"]),
    "aggregates that are not asked for": (
        lambda d: d.group_by("a").agg(n=("b", "sum"), m=("c", "max"), l=("d", "list")).select("m"),
        ["ac"],
    ),
    "a number of groups": (
        lambda d: d.group_by("a").agg(n=("b", "sum"), m=("c", "max")).group_by().agg(n="count"),
        ["ab"],
    ),
    "a filter": (lambda d: d.filter("f > 3").group_by("a").agg(n="count"), ["af"]),
    "distinct": (lambda d: d.select("a", "c").distinct(), ["ac"]),
    "join": (lambda d: d.join(d, on="a").select("b", "c_right"), ["ab", "ac"]),
    "groups of a join": (
        lambda d: d.join(d, on="a").with_columns(x="b * d_right").group_by("c").agg(n=("x", "max")),
        ["abc", "ad"],
    ),
    "semi": (lambda d: d.join(d, on="a", how="semi").select("b"), ["ab", "a"]),
    "full": (lambda d: d.join(d, on="a", how="full").select("a"), ["a", "a"]),
    "nothing": (lambda d: d.join(d, on="a").group_by().agg(n="count"), ["a", "a"]),
    "window": (
        lambda d: d.window(partition_by="a", x="sum(b)", y="max(c)").select("d", "x"),
        ["abd"],
    ),
    "window, not asked for": (
        lambda d: d.window(partition_by="a", x="sum(b)", y="max(c)").select("d"),
        [],
    ),
    "window in partitions, not asked for": (
        lambda d: d.window(partition_by="a", x="sum(b)", num_partitions=3).select("d"),
        ["abd"],
    ),
    "a number of rows with windows": (
        lambda d: d.window(partition_by="a", x="sum(b)").group_by().agg(n="count"),
        ["a"],
    ),
    "an order behind a window": (
        lambda d: d.window(partition_by="a", x="sum(b)").sort("c").select("d"),
        ["cd"],
    ),
    "distinct by some": (lambda d: d.distinct(["a", "b"]).select("c"), ["abc"]),
    "distinct by all": (lambda d: d.distinct().select("c"), ["abcdef"]),
    "repartition": (lambda d: d.repartition(3).select("c"), ["c"]),
    "repartition by keys": (lambda d: d.repartition(3, by=["b"]).select("c"), ["bc"]),
    "random order": (lambda d: d.random_shuffle(1).select("c"), ["c"]),
    "random order of most": (lambda d: d.random_shuffle(1).drop("c"), ["abdef"]),
    "a sample": (lambda d: d.sample(3, seed=1).select("c"), ["c"]),
    "a number of a sample": (
        lambda d: d.select("b", "c").sample(fraction=0.5, seed=1).group_by().agg(n="count"),
        ["b"],
    ),
    "random order of results": (
        lambda d: d.sort("a").random_shuffle(1).select("c"),
        ["abcdef"],
    ),
    "a filter behind": (lambda d: d.sort("a").filter("b > 3").select("c"), ["abc"]),
    "a join of a sort": (lambda d: d.sort("b").join(d, on="a").select("c"), ["abc", "a"]),
}


@pytest.mark.parametrize("name", TREES)
def test_only_needed_columns_are_read(name: str, rows: xs.Dataset) -> None:
    make, wanted = TREES[name]
    made = make(rows)
    node = pruned(made.node)
    assert set(node.schema.names) >= set(made.columns)
    assert read(node) == wanted


def test_a_node_of_several_stays_one(rows: xs.Dataset) -> None:
    """Its result is made once for all of them, with all columns that any of them needs."""
    shared = rows.sort("b")
    node = pruned(shared.select("a", "c").join(shared.select("a", "d"), on="a").node)
    left, right = map(_shuffled, node.children)
    assert left is right
    assert read(left) == ["abcd"]


def test_a_node_of_several_below_another_stays_one(rows: xs.Dataset) -> None:
    """The columns of the lower one that the last reader needs are known when the upper one has been made."""
    lower = rows.sort("b")
    upper = lower.filter("a > 1").sort("c")
    joined = upper.select("a").join(upper.select("a", "d"), on="a")
    node = pruned(joined.join(lower.select("a", "e"), on="a").node)
    joined_node, below = map(_shuffled, node.children)
    left, right = map(_shuffled, joined_node.children)
    assert left is right
    assert _shuffled(left.children[0]) is below
    assert read(below) == ["abcde"]


def _shuffled(node: Node) -> ShuffleNode:
    while not isinstance(node, ShuffleNode):
        [node] = node.children
    return node
