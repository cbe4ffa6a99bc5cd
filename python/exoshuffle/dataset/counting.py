"""Counts the rows of a tree: from metadata where that tells the number, else by running what decides about rows.

Guarantee: orders are not made and columns that decide nothing are not read, since they do not change the number.

Rows of joins and groups are counted by an aggregate, so that one query may compute it with all that is below. A join of
16 million rows with 1,000 took 1.0 s of CPU, and takes 0.14. Different values of three columns took 1.7, and take 0.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.jobs.bad_rows import write_bad_rows
from exoshuffle.dataset.jobs.following import finished
from exoshuffle.dataset.jobs.in_order import batches_of, streams_of
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.tree.needed import pruned
from exoshuffle.dataset.tree.nodes import (
    MapNode,
    Node,
    ShuffleNode,
    ShuffleOptions,
    UnionNode,
    WindowNode,
)
from exoshuffle.futures import Engine, Ref, get
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.core.sinks import CountSink
from exoshuffle.operators.steps.columns import Drop, Nullable, Rename, Select
from exoshuffle.operators.steps.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

#: The column of the number of rows.
_NUMBER = "number"
#: The width of a type that has none, in bits: wider than those of all numbers.
_WIDE = 1024


def num_rows_of(node: Node, engine: Engine, progress: Progress | None = None) -> int:
    """Returns the number of rows of a tree; ``progress`` is told of the plan of every shuffle."""
    if node.num_rows is not None:
        return node.num_rows
    if _keeps_number(node):
        return num_rows_of(node.children[0], engine, progress)
    if isinstance(node, UnionNode):
        return sum(num_rows_of(child, engine, progress) for child in node.children)
    with PlainErrors():
        write_bad_rows(node, engine)
        execution = Execution(engine, progress)
        aggregated = _aggregated(node)
        if aggregated is not None:
            job = execution.job(aggregated, "batches")
            numbers = [batch[_NUMBER].to_pylist() for batch in batches_of(streams_of(job, engine))]
            return sum(map(sum, numbers))
        narrow = MapNode(node, Select((_narrowest(node.schema),)))
        counts = cast("Iterator[Ref]", execution.job(pruned(narrow), "batches").run(CountSink()))
        return sum(get(ref) for ref in finished(counts, engine.num_cpus))


def _aggregated(node: Node) -> Node | None:
    """Returns the tree of one row, the number of rows of a join or of groups; None for those of other nodes."""
    if not isinstance(_shuffled(node), ShuffleNode):
        return None
    from exoshuffle.operators.group_by.parsing import parse_aggregates
    from exoshuffle.operators.group_by.shuffle import group_by_shuffle

    grouping = parse_aggregates(node.schema, (), {_NUMBER: "count"})
    number = pruned(ShuffleNode((node,), group_by_shuffle(grouping), ShuffleOptions()))
    # Duplicates in some columns are groups once the other columns are left out.
    below = _shuffled(number.children[0])
    is_query = isinstance(below, ShuffleNode) and (below.join or below.shuffle.inside) is not None
    return number if is_query else None


def _shuffled(node: Node) -> Node:
    """Returns the node before the last steps."""
    while isinstance(node, MapNode):
        node = node.child
    return node


def _keeps_number(node: Node) -> bool:
    """Whether a node has as many rows as its only child, and cannot fail where that does not."""
    if isinstance(node, ShuffleNode):
        return node.shuffle.keeps_rows and len(node.children) == 1
    if isinstance(node, MapNode):
        return isinstance(node.step, Rename | Drop | Nullable | Refused) or (
            isinstance(node.step, Select) and not node.step.expressions
        )
    return isinstance(node, WindowNode)


def _narrowest(schema: pa.Schema) -> str:
    """Returns the column that is read with the least work; not one of intervals, which may be refused."""
    import pyarrow as pa

    def width(field: pa.Field) -> int:
        is_plain = pa.types.is_primitive(field.type) and not str(field.type).endswith("interval")
        return int(field.type.bit_width) if is_plain else _WIDE

    return str(min(schema, key=width).name)
