"""The node below the last steps of a tree, which decides how the rows are made."""

from __future__ import annotations

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
)
from exoshuffle.operators.steps.step import Step

NodeBelow = (
    Files | Given | ShuffleNode | MergeJoinNode | UnionNode | LimitNode | StageNode | WindowNode
)


def without_steps(node: Node) -> tuple[NodeBelow, tuple[Step, ...]]:
    """Returns the node below the last steps, and these steps in their order."""
    steps: tuple[Step, ...] = ()
    while isinstance(node, MapNode):
        steps = (node.step, *steps)
        node = node.child
    return node, steps


def is_scanned(node: Node) -> bool:
    """Whether rows are read as they are wanted, so that nothing has to run to know their inputs."""
    below, _ = without_steps(node)
    if isinstance(below, UnionNode):
        return all(map(is_scanned, below.children))
    return isinstance(below, Files | Given)


def is_unordered(node: Node) -> bool:
    """Whether the rows of a tree come of joins or groups, which have no order that a sort has to keep."""
    below, _ = without_steps(node)
    return isinstance(below, ShuffleNode)
