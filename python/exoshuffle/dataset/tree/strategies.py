"""Gives all operators of a tree another strategy, to see what each would cost, or to compare their rows."""

from __future__ import annotations

import dataclasses

from exoshuffle.dataset.tree.nodes import (
    WHOLE,
    Files,
    Given,
    LimitNode,
    MapNode,
    MergeJoinNode,
    Node,
    ShuffleOptions,
    StageNode,
    UnionNode,
    WindowNode,
)
from exoshuffle.strategies.strategy import Strategy


def with_strategy(node: Node, strategy: str | Strategy) -> Node:
    """Returns the same tree, each of its operators with this strategy.

    Operators that are always shuffled keep theirs where the strategy is ``whole``, and so do cross joins.

    Raises:
        OptionsError: There is no such strategy.
    """
    if isinstance(node, Files | Given | WindowNode):
        return node
    if isinstance(node, MapNode | LimitNode | StageNode):
        return dataclasses.replace(node, child=with_strategy(node.child, strategy))
    children = tuple(with_strategy(child, strategy) for child in node.children)
    if isinstance(node, UnionNode):
        return UnionNode(children)
    options = dataclasses.replace(node.options, strategy=strategy)
    if isinstance(node, MergeJoinNode):
        left, right = children
        options = node.options if strategy == WHOLE else options
        return dataclasses.replace(node, children=(left, right), options=options)
    if node.join is not None and node.join.how == "cross":
        options = node.options
    elif strategy == WHOLE:
        options = node.options if node.shuffle.whole is None else ShuffleOptions(WHOLE)
    return dataclasses.replace(node, children=children, options=options)
