"""A few of the first rows of a tree, by which schemas of users' functions are learnt: made cheaply, or not at all."""

from __future__ import annotations

from dataclasses import replace

from exoshuffle.dataset.tree.facts import is_at_hand
from exoshuffle.dataset.tree.nodes import LimitNode, MapNode, Node, StageNode, UnionNode

#: Rows that the first stage gets: it may skip some, and would take a whole block otherwise.
STAGE_ROWS = 32


def first_rows(node: Node, count: int) -> Node | None:
    """Returns the tree of no more than so many of the first rows, where functions that are stages get few.

    It is None if a shuffle, a class or a GPU would have to make them.
    """
    return LimitNode(_of_few(node), count) if is_at_hand(node) else None


def _of_few(node: Node) -> Node:
    """Returns the tree with few rows below its first stages."""
    if not _has_stage(node):
        return node
    if isinstance(node, UnionNode):
        return replace(node, children=tuple(map(_of_few, node.children)))
    assert isinstance(node, MapNode | StageNode | LimitNode)
    few = _of_few(node.child) if _has_stage(node.child) else LimitNode(node.child, STAGE_ROWS)
    return replace(node, child=few)


def _has_stage(node: Node) -> bool:
    return isinstance(node, StageNode) or any(map(_has_stage, node.children))
