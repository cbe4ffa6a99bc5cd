"""Writes the one query for a tree: its text, and what it reads.

Guarantee: no rows are read. Results of nodes that the query cannot compute are made in the store, and on a trial none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.jobs.leaves import Leaf, chosen
from exoshuffle.dataset.jobs.looking import seen_groups, seen_share
from exoshuffle.dataset.tree.below import without_steps
from exoshuffle.dataset.tree.nodes import (
    Files,
    Given,
    LimitNode,
    MapNode,
    Node,
    ShuffleNode,
    ShuffleOptions,
    UnionNode,
)
from exoshuffle.dataset.tree.uses import uses_of
from exoshuffle.futures import Engine
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.one_query.columns import NoRoom, Unfit
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
from exoshuffle.operators.one_query.sieves import (
    Sieve,
    before_groups,
    before_join,
    before_steps,
    sieve_of,
    sieved,
)
from exoshuffle.operators.steps.step import Step, required_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle import _native
    from exoshuffle.operators.join.join import Join

#: Each input is a part of the text.
MOST_UNITED = 64
#: Each column is a part of the text of each step.
MOST_COLUMNS = 256
#: Groups that may take more than this share of the budget are made by a query of their own, which looks at keys before.
DOUBT_SHARE = 2


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
        orders_joins: Whether DuckDB may order the joins of files that it reads itself, by guesses of its own.
        seen: The shares of rows that conditions on files leave, by nodes, as looks told; None: they are guessed.
    """

    def __init__(
        self,
        root: Node,
        making: Making,
        *,
        is_trial: bool = False,
        orders_joins: bool = True,
        seen: dict[int, float] | None = None,
    ) -> None:
        self.leaves: list[Leaf] = []
        self.made: list[Node] = []
        self.kept: list[str] = []
        #: The joins and group-bys below the root that the query computes itself, and whose rows have no order.
        self.num_parts = 0
        #: Whether there are conditions on files.
        self.has_conditions = False
        self._kept: dict[int, Relation] = {}
        self._uses = uses_of(root)
        self._making = making
        self._is_trial = is_trial
        self.orders_joins = orders_joins
        self._shares = seen

    def relation(self, node: Node, needed: Sequence[str], sieves: Sequence[Sieve] = ()) -> Relation:
        """Returns the rows of a node, with the needed columns at least; without those that sieves may leave out."""
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
            if (shared := self._shared(node)) is not None:
                return self._behind(shared, node)
            rows = self._part(below, before_steps(sieves, steps, node.schema, below.schema))
        else:
            rows = self._stored(below)
        for step in steps:
            rows = stepped(rows, step)
        return self._looked(node, needed, rows) if isinstance(below, Files) else rows

    def _looked(self, node: Node, needed: Sequence[str], rows: Relation) -> Relation:
        """Returns rows of files with the number that a look at some of them tells, where conditions choose some."""
        self.has_conditions |= rows.share < 1
        if self._shares is None or rows.share >= 1:
            return rows
        share = self._shares.get(id(node))
        if share is None:
            alone = Writing(node, self._making)
            before = alone.relation(node, needed)
            share = seen_share(alone.leaves[0], self._making.engine.num_cpus, before)
            self._shares[id(node)] = share
        num_rows = max(1.0, rows.num_rows / rows.share * share)
        return dataclasses.replace(rows, num_rows=num_rows, share=share)

    def _is_part(self, node: ShuffleNode) -> bool:
        """Whether the query itself computes a join or a group-by below it: nobody else reads that, either."""
        is_alone = self._uses[id(node)] == self._making.num_readers(node)
        aggregation = node.shuffle.inside
        is_known = node.join is not None or (
            aggregation is not None and aggregation.is_exact_inside
        )
        return is_known and is_alone and node.options == ShuffleOptions()

    def _shared(self, node: Node) -> MapNode | None:
        """Returns the last step before a node whose rows several parts of the query read."""
        while isinstance(node, MapNode):
            if self._uses[id(node)] > 1:
                return node
            node = node.child
        return None

    def _behind(self, shared: MapNode, node: Node) -> Relation:
        """Returns the rows of a node behind a step that several parts read, whose rows are computed once."""
        later: list[Step] = []
        while node is not shared and isinstance(node, MapNode):
            later.append(node.step)
            node = node.child
        rows = self._kept.get(id(shared))
        if rows is None:
            names = required_columns((shared.step,), shared.child.schema, shared.schema.names)
            rows = self._keep(shared, stepped(self.relation(shared.child, names), shared.step))
        for step in reversed(later):
            rows = stepped(rows, step)
        return rows

    def _keep(self, node: Node, rows: Relation) -> Relation:
        """Returns rows that the query keeps for several of its parts, for the first of these; others need no more."""
        name = f"kept_{len(self.kept)}"
        self.kept.append(f"{name} AS MATERIALIZED ({rows.sql})")
        first = kept(name, rows)
        again = dataclasses.replace(first, hashed_bytes=0, doubtful_bytes=0, num_joins=0)
        self._kept[id(node)] = again
        return first

    def _part(self, node: ShuffleNode, sieves: Sequence[Sieve]) -> Relation:
        """Returns the rows of a join or group-by; those that several parts read are computed once, and not sieved."""
        # Rows without duplicates keep their order in a sort, where nothing else takes it from them.
        self.num_parts += node.shuffle.unordered is None
        if id(node) in self._kept:
            return self._kept[id(node)]
        is_shared = self._uses[id(node)] > 1
        if is_shared:
            sieves = ()
        if node.join is not None:
            rows = self._joined(node, node.join, sieves)
        else:
            rows = self._grouped(node, sieves)
        return self._keep(node, rows) if is_shared else rows

    def _grouped(self, node: ShuffleNode, sieves: Sequence[Sieve]) -> Relation:
        """Returns the rows of a group-by; from the store, where it is made before if groups may be very many."""
        num_leaves, num_made, num_kept = len(self.leaves), len(self.made), len(self.kept)
        known = dict(self._kept)
        rows = self._aggregated(node, sieves)
        most = self._making.engine.budget_bytes // DOUBT_SHARE
        if rows.doubtful_bytes <= most:
            return rows
        if (seen := self._seen(node, rows, num_leaves)) is not None and seen.hashed_bytes <= most:
            return seen
        if self.has_conditions and self._shares is None:
            raise NoRoom("a guess is no reason to make groups before")
        del self.leaves[num_leaves:], self.made[num_made:], self.kept[num_kept:]
        self._kept = known
        return self._stored(node)

    def _seen(self, node: ShuffleNode, rows: Relation, first_leaf: int) -> Relation | None:
        """Returns groups with the sizes that a look at some keys tells; None where there are none to look at."""
        aggregation = node.shuffle.inside
        read = self.leaves[first_leaf:]
        if aggregation is None or len(read) != 1 or not read[0].is_there:
            return None
        alone = Writing(node, self._making, seen=self._shares)
        before = alone.relation(node.children[0], aggregation.columns)
        num_cpus = self._making.engine.num_cpus
        num_groups = seen_groups(alone.leaves[0], num_cpus, before, aggregation)
        held = num_groups * group_bytes(aggregation, before.schema)
        return dataclasses.replace(rows, num_rows=num_groups, hashed_bytes=held, doubtful_bytes=0.0)

    def _aggregated(self, node: ShuffleNode, sieves: Sequence[Sieve]) -> Relation:
        aggregation = node.shuffle.inside
        assert aggregation is not None
        rows = self.relation(node.children[0], aggregation.columns)
        rows = self._sieved(rows, before_groups(sieves, aggregation.keys))
        return aggregated(rows, aggregation, node.schema)

    def _sieved(self, rows: Relation, sieves: Iterable[Sieve]) -> Relation:
        """Returns the rows without those that sieves leave out, where that is worth it."""
        for sieve in sieves:
            if sieve.is_worth(rows):
                if sieve.definition not in self.kept:
                    self.kept.append(sieve.definition)
                rows = sieved(rows, sieve)
        return rows

    def _joined(self, node: ShuffleNode, join: Join, sieves: Sequence[Sieve]) -> Relation:
        """Returns the rows of a join. Groups of one side are sieved by the other side, which is written before."""
        has_groups = [self._has_groups(child) for child in node.children]
        tag = 1 if has_groups == [True, False] else 0
        mine, others = (before_join(sieves, join, side) for side in (tag, 1 - tag))
        names = [join.left.names, join.right.names]
        rows = self.relation(node.children[tag], names[tag], mine)
        sieve = None
        if has_groups[1 - tag]:
            sieve = sieve_of(f"sieve_{self.num_parts}", self._sieved(rows, mine), join, tag)
        others = [*others, sieve] if sieve else others
        other = self.relation(node.children[1 - tag], names[1 - tag], others)
        if sieve and sieve.definition in self.kept:
            rows = sieve.held
        return joined(other, rows, join) if tag else joined(rows, other, join)

    def _has_groups(self, node: Node) -> bool:
        """Whether there are groups among the parts below a node which nobody else reads."""
        below, _ = without_steps(node)
        if not isinstance(below, ShuffleNode) or not self._is_part(below):
            return False
        if self._shared(node) is not None:
            return False
        is_shared = self._uses[id(below)] > 1
        return not is_shared and (below.join is None or any(map(self._has_groups, below.children)))

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
        streams = leaf.num_streams(self._making.engine.num_cpus)
        is_ordered = is_open and self.orders_joins
        return scanned(table, read, leaf.num_rows, streams, is_open=is_ordered)
