"""Samples and random orders as trees: rows are numbered where they are read, and the number travels through the steps.

Guarantee: the choice of rows and their order depend only on the seed and the files, whatever steps lie between. That
holds as long as each row comes from one row of a file. Behind a shuffle or a user's function, a row is known by its
part and its number in the part.

CSV and JSON lines do not tell which row of the file a split begins with. So where rows are numbered, these files are
read in splits that the files alone determine. A row is then known by its split and its number there; a task reads
several splits.
"""

from __future__ import annotations

import dataclasses

from exoshuffle.arguments import is_number
from exoshuffle.dataset.inputs.reading import is_text
from exoshuffle.dataset.tree.nodes import (
    Files,
    LimitNode,
    MapNode,
    Node,
    ShuffleNode,
    ShuffleOptions,
    UnionNode,
    check_count,
    is_read,
)
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByKeys
from exoshuffle.operators.random_order.shuffle import numbered_order_shuffle, random_order_shuffle
from exoshuffle.operators.sort.shuffle import sort_shuffle
from exoshuffle.operators.steps.columns import Drop
from exoshuffle.operators.steps.sample import Chosen, Numbered

#: Names of columns of numbers begin with it.
_PREFIX = "__exoshuffle_number_"


def fraction_of(node: Node, fraction: float, seed: int) -> Node:
    """Keeps each row with the same probability, in input order.

    Raises:
        OptionsError: The fraction is no probability.
    """
    if not is_number(fraction) or not 0 < fraction <= 1:
        raise OptionsError(f"fraction is {fraction!r}; it must be above 0 and at most 1")
    step = _numbering(node, seed)
    return MapNode(_numbered(node, step), Chosen(fraction, step.column))


def rows_of(node: Node, count: int, seed: int) -> Node:
    """Chooses ``count`` rows, in random order: those with the smallest numbers.

    Raises:
        OptionsError: The number is negative.
    """
    if isinstance(count, float):
        raise OptionsError(f"n is {count}; for a share of the rows write fraction={count}")
    check_count("n", count)
    step = _numbering(node, seed)
    numbered = _numbered(node, step)
    shuffle = sort_shuffle(numbered.schema, ByKeys((SortKey(step.column),)))
    ordered = ShuffleNode((numbered,), shuffle, ShuffleOptions())
    return MapNode(LimitNode(ordered, count), Drop((step.column,)))


def in_random_order(
    node: Node, seed: int, options: ShuffleOptions, window: int | None = None
) -> Node:
    """Orders all rows by their numbers; windows of ``window`` rows stay together, if that is given.

    Cost: as ``random_order_shuffle``, which knows the numbers of rows that come from files, if steps keep each. Others
    are numbered by a step, which takes 40 ns per row.
    """
    if not is_read(node) or _are_known(node):
        return ShuffleNode((node,), random_order_shuffle(node.schema, seed, window), options)
    step = dataclasses.replace(_numbering(node, seed), window=window)
    numbered = _numbered(node, step)
    shuffle = numbered_order_shuffle(numbered.schema, step.column, window)
    return MapNode(ShuffleNode((numbered,), shuffle, options), Drop((step.column,)))


def _are_known(node: Node) -> bool:
    """Whether a map knows from which file its rows come, and their numbers there, also behind steps."""
    if isinstance(node, UnionNode):
        return all(map(_are_known, node.children))
    if isinstance(node, MapNode) and node.step.keeps_each and not node.step.is_function:
        return _are_known(node.child)
    return isinstance(node, Files) and not is_text(node.source)


def _numbering(node: Node, seed: int) -> Numbered:
    level = _num_numberings(node)
    return Numbered(seed, f"{_PREFIX}{level}", level)


def _num_numberings(node: Node) -> int:
    here = isinstance(node, MapNode) and node.step.numbers is not None
    return here + max(map(_num_numberings, node.children), default=0)


def _numbered(node: Node, step: Numbered) -> Node:
    """Returns the tree with a step that numbers rows, as far down as each row stays one row."""
    if isinstance(node, UnionNode):
        return UnionNode(tuple(_numbered(child, step) for child in node.children))
    if isinstance(node, MapNode) and not node.step.makes_rows:
        return MapNode(_numbered(node.child, step), node.step.carrying(step.column))
    return MapNode(node, step)
