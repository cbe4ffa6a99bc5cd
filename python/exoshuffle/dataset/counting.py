"""Counts the rows of a tree: from metadata where that tells the number, else by running what decides about rows.

Guarantee: orders are not made and columns that decide nothing are not read, since they do not change the number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.jobs.bad_rows import write_bad_rows
from exoshuffle.dataset.jobs.following import finished
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.tree.needed import pruned
from exoshuffle.dataset.tree.nodes import MapNode, Node, ShuffleNode, UnionNode, WindowNode
from exoshuffle.futures import Engine, Ref, get
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.core.sinks import CountSink
from exoshuffle.operators.steps.columns import Drop, Nullable, Rename, Select
from exoshuffle.operators.steps.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

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
    narrow = MapNode(node, Select((_narrowest(node.schema),)))
    with PlainErrors():
        write_bad_rows(node, engine)
        job = Execution(engine, progress).job(pruned(narrow), "batches")
        counts = cast("Iterator[Ref]", job.run(CountSink()))
        return sum(get(ref) for ref in finished(counts, engine.num_cpus))


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
