"""Counts from how many places of a tree each node is read: a node that several read is made once for all of them."""

from __future__ import annotations

from collections import Counter

from exoshuffle.dataset.tree.nodes import Node


def uses_of(root: Node) -> Counter[int]:
    """Returns the number of readers of each node below a root, and 1 for the root, by the ids of nodes."""
    uses = Counter[int]()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        uses[id(node)] += 1
        if uses[id(node)] == 1:
            waiting.extend(node.children)
    return uses
