"""Writes the one query for a tree: its text, and what it reads.

Guarantee: no rows are read. Results of nodes that the query cannot compute are made in the store, and on a trial none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.jobs.leaves import Leaf, chosen
from exoshuffle.dataset.jobs.looking import seen_groups
from exoshuffle.dataset.tree.below import without_steps
from exoshuffle.dataset.tree.nodes import (
    Files,
    Given,
    LimitNode,
    Node,
    ShuffleNode,
    ShuffleOptions,
    UnionNode,
)
from exoshuffle.dataset.tree.uses import uses_of
from exoshuffle.futures import Engine
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.one_query.columns import Unfit
from exoshuffle.operators.one_query.relation import (
    Relation,
    aggregated,
    group_bytes,
    joined,
    kept,
    scanned,
    stepped,
    united,
)
from exoshuffle.operators.steps.step import required_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle import _native
    from exoshuffle.operators.join.join import Join

#: Each input is a part of the text.
MOST_UNITED = 64
#: Each column is a part of the text of each step.
MOST_COLUMNS = 256
#: Groups that may take more than this share of the budget are made by a query of their own, which looks at keys before.
DOUBT_SHARE = 4


class Making(Protocol):
    """The maker of a tree's jobs: an ``Execution``."""

    @property
    def engine(self) -> Engine:
        """The engine that runs them."""
        ...

    @property
    def progress(self) -> Progress | None:
        """Told of their sizes."""
        ...

    def num_readers(self, node: Node) -> int:
        """Returns how many nodes of the tree read this one; its result is made once for all of them."""

    def is_open(self, files: _native.Source, schema: pa.Schema) -> bool:
        """Returns whether DuckDB reads these columns of files itself."""
        ...

    def inputs(self, node: Node) -> list[Input]:
        """Returns the inputs that have the rows of a node; makes these in the store unless they are scanned."""


class Writing:
    """Writes the query from its end to its inputs.

    Args:
        root: The group-by or sort.
        making: Makes what is no scan.
        is_trial: Whether nothing is made, to look whether the query can be written.
    """

    def __init__(self, root: Node, making: Making, *, is_trial: bool = False) -> None:
        self.leaves: list[Leaf] = []
        self.made: list[Node] = []
        self.kept: list[str] = []
        #: The joins and group-bys below the root that the query computes itself.
        self.num_parts = 0
        self._kept: dict[int, Relation] = {}
        self._uses = uses_of(root)
        self._making = making
        self._is_trial = is_trial

    def relation(self, node: Node, needed: Sequence[str]) -> Relation:
        """Returns the rows of a node, with the needed columns at least."""
        below, steps = without_steps(node)
        columns = required_columns(steps, below.schema, needed)
        if isinstance(below, Files | Given):
            rows = self._scanned(node, below, columns)
        elif isinstance(below, UnionNode):
            if len(below.children) > MOST_UNITED:
                raise Unfit("it reads very many datasets")
            parts = [self.relation(child, columns) for child in below.children]
            rows = united(parts, columns)
        elif isinstance(below, ShuffleNode) and self._is_part(below):
            rows = self._part(below)
        else:
            rows = self._stored(below)
        for step in steps:
            rows = stepped(rows, step)
        return rows

    def _is_part(self, node: ShuffleNode) -> bool:
        """Whether the query itself computes a join or a group-by below it: nobody else reads that, either."""
        is_alone = self._uses[id(node)] == self._making.num_readers(node)
        aggregation = node.shuffle.aggregation
        is_known = node.join is not None or (
            aggregation is not None and aggregation.is_exact_inside
        )
        return is_known and is_alone and node.options == ShuffleOptions()

    def _part(self, node: ShuffleNode) -> Relation:
        """Returns the rows of a join or group-by; those that several parts read are computed once."""
        self.num_parts += 1
        if id(node) in self._kept:
            return self._kept[id(node)]
        if node.join is not None:
            rows = self._joined(node, node.join)
        else:
            rows = self._grouped(node)
        if self._uses[id(node)] == 1:
            return rows
        name = f"kept_{len(self.kept)}"
        self.kept.append(f"{name} AS MATERIALIZED ({rows.sql})")
        first = kept(name, rows)
        self._kept[id(node)] = dataclasses.replace(first, hashed_bytes=0, num_joins=0)
        return first

    def _grouped(self, node: ShuffleNode) -> Relation:
        """Returns the rows of a group-by; from the store, where it is made before if groups may be very many."""
        num_leaves, num_made, num_kept = len(self.leaves), len(self.made), len(self.kept)
        known = dict(self._kept)
        rows = self._aggregated(node)
        most = self._making.engine.budget_bytes // DOUBT_SHARE
        if rows.doubtful_bytes <= most:
            return rows
        if (seen := self._seen(node, rows, num_leaves)) is not None and seen.hashed_bytes <= most:
            return seen
        del self.leaves[num_leaves:], self.made[num_made:], self.kept[num_kept:]
        self._kept = known
        return self._stored(node)

    def _seen(self, node: ShuffleNode, rows: Relation, first_leaf: int) -> Relation | None:
        """Returns groups with the sizes that a look at some keys tells; None where they are no files."""
        aggregation = node.shuffle.aggregation
        read = self.leaves[first_leaf:]
        if aggregation is None or len(read) != 1 or read[0].source.is_held:
            return None
        alone = Writing(node, self._making)
        before = alone.relation(node.children[0], aggregation.columns)
        num_cpus = self._making.engine.num_cpus
        num_groups = seen_groups(alone.leaves[0], num_cpus, before, aggregation)
        held = num_groups * group_bytes(aggregation, before.schema)
        return dataclasses.replace(rows, num_rows=num_groups, hashed_bytes=held, doubtful_bytes=0.0)

    def _aggregated(self, node: ShuffleNode) -> Relation:
        aggregation = node.shuffle.aggregation
        assert aggregation is not None
        rows = self.relation(node.children[0], aggregation.columns)
        return aggregated(rows, aggregation, node.schema)

    def _joined(self, node: ShuffleNode, join: Join) -> Relation:
        left, right = (
            self.relation(child, schema.names)
            for child, schema in zip(node.children, (join.left, join.right), strict=True)
        )
        return joined(left, right, join)

    def _scanned(self, node: Node, below: Files | Given, columns: tuple[str, ...]) -> Relation:
        if isinstance(below, Files) and (below.left_out is not None or below.num_rows is None):
            raise Unfit("nobody knows how many rows there are")
        return self._leaf(node, columns, below.schema)

    def _stored(self, node: Node) -> Relation:
        """Returns the rows of a node that another job makes; of one that makes few of many."""
        keeps_rows = isinstance(node, ShuffleNode) and node.shuffle.keeps_rows
        if not isinstance(node, ShuffleNode | LimitNode) or keeps_rows:
            raise Unfit("its rows are as many as those that are read")
        rows = self._leaf(node, tuple(node.schema.names), node.schema)
        self.made.append(node)
        return rows

    def _leaf(self, node: Node, columns: tuple[str, ...], schema: pa.Schema) -> Relation:
        if len(columns) > MOST_COLUMNS:
            raise Unfit("it reads very many columns")
        read = chosen(schema, columns)
        table = f"t{len(self.leaves)}"
        if self._is_trial:
            return scanned(table, read, 0, 1)
        (source,) = self._making.inputs(node)
        if source.source is None and not source.is_held:
            raise Unfit("its rows are made as they are read")
        files = source.source
        is_open = files is not None and self._making.is_open(files, read)
        leaf = Leaf(source, columns, schema, is_open)
        self.leaves.append(leaf)
        return scanned(table, read, leaf.num_rows, leaf.num_streams(self._making.engine.num_cpus))
