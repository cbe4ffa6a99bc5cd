"""Lowers filters: moves them below shuffles, joins and steps, so that they prune files and rows before these move.

Guarantee: the rows of the result are the same, and in the same order where an operator promises one. Only conditions
that can fail for no row move (``operators.sql.movable``), each as far down as all its columns come through unchanged:

* through operators that keep rows. Through a random order it moves only if footers or folders leave out half of the
  rows; else it leaves out files alone;
* by the keys alone, through groups, duplicates and window functions;
* into each dataset of a union;
* into the sides of a join. It goes into the side whose columns it names if all rows of that side count, and by equal
  keys into the other side, too. A join that keeps rows without a match does not keep those that a filter drops: it
  becomes one that keeps fewer.

They stay above limits, users' functions and random numbers of rows. A node that several others take rows from gets no
filter of one of them, because its result is made once for all.

Why: 8 million rows, joined with a million and filtered to 100,000 by a column with statistics, took 4.9 s of CPU, and
take 0.6. Filtered to 1 % by a column without order, they took 5.7 s and take 1.4. A sort that is filtered to 2 % went
from 3.2 to 1.5 s (two pairs each).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from exoshuffle.dataset.tree.below import is_scanned
from exoshuffle.dataset.tree.nodes import (
    Files,
    Given,
    LimitNode,
    MapNode,
    MergeJoinNode,
    Node,
    ShuffleNode,
    StageNode,
    UnionNode,
    WindowNode,
    is_read,
)
from exoshuffle.dataset.tree.pruning import pruned, without_files
from exoshuffle.dataset.tree.reads import share_read
from exoshuffle.dataset.tree.sampling import in_random_order
from exoshuffle.dataset.tree.uses import uses_of
from exoshuffle.operators.core.order import ByChance
from exoshuffle.operators.join.filtering import sides_of
from exoshuffle.operators.join.shuffle import join_shuffle
from exoshuffle.operators.sql.movable import Condition, parted, sql_of
from exoshuffle.operators.steps.columns import Filter

#: A filter comes before a random order if no more than this share of the rows is read with it. A step has to number
#: these then, for 40 ns each. With all of 8 million rows that took 1.25 of the CPU time, with three quarters as much as
#: behind the order, with half 0.82.
MOST_NUMBERED = 0.5


def lowered(node: Node) -> Node:
    """Returns the tree with its filters as far down as they may go. Cost: some milliseconds for a filter that moves."""
    return _Lowering(node).making(node, ())


def moved_filters(node: Node) -> tuple[str, ...]:
    """Returns the filters of a tree that move below operators, with each of these, for people."""
    lowering = _Lowering(node)
    lowering.making(node, ())
    return tuple(f"{sql_of([condition])} before {label}" for condition, label in lowering.moved)


class _Lowering:
    """Makes a tree with filters moved, from its end to its inputs.

    Attributes:
        moved: Each condition that moved below an operator, and that operator.
    """

    def __init__(self, root: Node) -> None:
        self.moved: list[tuple[Condition, str]] = []
        self._uses = uses_of(root)
        self._made: dict[int, Node] = {}

    def making(self, node: Node, conditions: Sequence[Condition]) -> Node:
        """Returns a tree for the rows of a node that meet the conditions; the node itself if nothing changes."""
        if not self._is_shared(node):
            return self._lowered(node, conditions)
        if id(node) not in self._made:
            self._made[id(node)] = self._lowered(node, ())
        return _filtered(self._made[id(node)], conditions)

    def _is_shared(self, node: Node) -> bool:
        return self._uses[id(node)] > 1 and not is_scanned(node)

    def _lowered(self, node: Node, conditions: Sequence[Condition]) -> Node:
        if isinstance(node, Files | Given | WindowNode) or _is_filtered_scan(node):
            return _filtered(node, conditions)
        if isinstance(node, MapNode):
            return self._stepped(node, conditions)
        if isinstance(node, UnionNode):
            return _with(node, tuple(self.making(child, conditions) for child in node.children))
        if isinstance(node, LimitNode | StageNode):
            return _filtered(_with(node, (self.making(node.child, ()),)), conditions)
        if isinstance(node, MergeJoinNode):
            left, right = node.children
            names = node.join.left_columns
            lower, upper = _passing(node, left, names, conditions)
            self._note(lower, node)
            children = (self.making(left, lower), self.making(right, ()))
            return _filtered(_with(node, children), upper)
        if node.join is not None:
            return self._joined(node, conditions)
        return self._shuffled(node, conditions)

    def _stepped(self, node: MapNode, conditions: Sequence[Condition]) -> Node:
        child, step = node.child, node.step
        if not isinstance(step, Filter):
            names = {} if step.numbers else step.names_before(_same(node.schema.names))
            lower, upper = _passing(node, child, names, conditions)
            return _filtered(_with(node, (self.making(child, lower),)), upper)
        if self._stops(child):
            return _filtered(_with(node, (self.making(child, ()),)), conditions)
        moving, rest = parted(step.condition, child.schema)
        if not moving and not conditions:
            return _with(node, (self.making(child, ()),))
        below = self.making(child, (*moving, *conditions))
        return MapNode(below, Filter(rest)) if rest else below

    def _stops(self, node: Node) -> bool:
        """Whether no filter passes a node, so that none has to be taken apart."""
        if isinstance(node, MapNode) and not isinstance(node.step, Filter):
            return bool(node.step.numbers) or not node.step.names_before(_same(node.schema.names))
        return isinstance(node, LimitNode | StageNode | WindowNode) or self._is_shared(node)

    def _shuffled(self, node: ShuffleNode, conditions: Sequence[Condition]) -> Node:
        [child], shuffle = node.children, node.shuffle
        order = shuffle.sides[0].order
        # Rows of results are known by their place there, which a filter would change.
        is_by_place = isinstance(order, ByChance) and not is_read(child)
        passed = () if is_by_place else shuffle.passed
        lower, upper = _passing(node, child, _same(passed), conditions)
        made = self.making(child, lower)
        if isinstance(order, ByChance) and lower and share_read(child, made) > MOST_NUMBERED:
            # Files go all the same: rows have their numbers in a file, and files keep theirs.
            made = without_files(self.making(child, ()), sql_of(lower))
            lower, upper = [], list(conditions)
        self._note(lower, node)
        if isinstance(order, ByChance) and lower:
            # Its maps number rows as they are in files, so a step has to do that before the filter.
            again = in_random_order(made, order.seed, node.options, order.window)
            return _filtered(again, upper)
        return _filtered(_with(node, (made,)), upper)

    def _joined(self, node: ShuffleNode, conditions: Sequence[Condition]) -> Node:
        assert node.join is not None
        placed = sides_of(node.join, conditions)
        if placed.join.how != node.join.how:
            node = dataclasses.replace(node, shuffle=join_shuffle(placed.join))
        self._note([each for each in conditions if each not in placed.above], node)
        sides = zip(node.children, (placed.left, placed.right), strict=True)
        children = tuple(self.making(child, lower) for child, lower in sides)
        return _filtered(_with(node, children), placed.above)

    def _note(self, conditions: Sequence[Condition], node: Node) -> None:
        self.moved.extend((condition, node.label) for condition in conditions)


def _same(names: Sequence[str]) -> dict[str, str]:
    return {name: name for name in names}


def _passing(
    node: Node, child: Node, names: Mapping[str, str], conditions: Sequence[Condition]
) -> tuple[list[Condition], list[Condition]]:
    """Returns the conditions on rows of a node as conditions on those of its child, and those that are none.

    Args:
        node: The node.
        child: Its child.
        names: Columns of the node that are columns of the child, with their names there.
        conditions: The conditions.
    """
    if not conditions:
        return [], []
    above, below = node.schema, child.schema
    passing = {
        name: own for name, own in names.items() if above.field(name).type == below.field(own).type
    }
    lower = [each.renamed(passing) for each in conditions if each.columns <= passing.keys()]
    return lower, [each for each in conditions if not each.columns <= passing.keys()]


def _filtered(node: Node, conditions: Sequence[Condition]) -> Node:
    """Returns the rows of a node that meet the conditions, without the files that have none of them."""
    return pruned(MapNode(node, Filter(sql_of(conditions)))) if conditions else node


def _with(node: Node, children: tuple[Node, ...]) -> Node:
    """Returns a node with other children; itself if they are its own."""
    if all(one is other for one, other in zip(children, node.children, strict=True)):
        return node
    if isinstance(node, MapNode | LimitNode | StageNode):
        return dataclasses.replace(node, child=children[0])
    if isinstance(node, MergeJoinNode):
        left, right = children
        return dataclasses.replace(node, children=(left, right))
    assert isinstance(node, ShuffleNode | UnionNode)
    return dataclasses.replace(node, children=children)


def _is_filtered_scan(node: Node) -> bool:
    """Whether filters have nothing to pass: there are rows as they are read, and filters."""
    while isinstance(node, MapNode) and isinstance(node.step, Filter):
        node = node.child
    return isinstance(node, Files | Given)
