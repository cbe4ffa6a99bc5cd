"""Seeds of random operations: checks or chooses a seed when the operation is made, and finds the seeds of a tree.

Guarantee: a seed belongs to the node of the tree, so every run of it, also on another engine, gets the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from exoshuffle.arguments import is_whole
from exoshuffle.dataset.tree.nodes import MapNode, Node, ShuffleNode, WindowNode
from exoshuffle.errors import OptionsError
from exoshuffle.operators.steps.step import RowNumbers

#: Bits of a fresh seed: readers of JSON that take numbers for doubles keep no more.
_FRESH_BITS = 53


def seed_or_fresh(seed: object) -> int:
    """Returns the seed, or a fresh one for None.

    Raises:
        OptionsError: The seed is no whole number of 64 bits.
    """
    if seed is None:
        return int.from_bytes(os.urandom(8), "little") >> (64 - _FRESH_BITS)
    if not (is_whole(seed) and 0 <= int(seed) < 2**64):
        raise OptionsError(
            f"seed is {seed!r}; choose a whole number from 0 to 2**64 - 1, or leave it out for a fresh one"
        )
    return int(seed)


def seeds_of(node: Node) -> tuple[int, ...]:
    """Returns the seeds of the random operations of a tree, each once; operations in a row give theirs in order."""
    below = (seed for child in node.children for seed in seeds_of(child))
    return tuple(dict.fromkeys((*below, *_own(node))))


def _own(node: Node) -> list[int]:
    if isinstance(node, WindowNode):
        return [node.seed]
    if isinstance(node, MapNode) and node.step.dropped:
        # Rows get their number further down, and lose it where the operation ends.
        return [made.seed for made in _numbers(node) if made.column in node.step.dropped]
    orders = [side.order for side in node.shuffle.sides] if isinstance(node, ShuffleNode) else []
    return [order.seed for order in orders if order.seed is not None]


def _numbers(node: Node) -> Iterator[RowNumbers]:
    if isinstance(node, MapNode) and node.step.numbers is not None:
        yield node.step.numbers
    for child in node.children:
        yield from _numbers(child)
