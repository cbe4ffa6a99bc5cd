"""Samples and random orders as trees: rows are numbered where they are read, and the number travels through the steps.

Guarantee: which rows are chosen, and in which order, depends on the seed and on the files alone, whatever steps lie
between, as long as each row comes from one row of a file. Behind a shuffle or a user's function a row is known by the
part that it is in, and its number there.

CSV and JSON lines do not tell which row of the file a split begins with. So where rows are numbered, they are read in
splits that the files alone determine, and a row is known by the split and its number there; a task reads several.
"""

from __future__ import annotations

import dataclasses

from exoshuffle.arguments import is_number
from exoshuffle.dataset.inputs.inputs import is_text
from exoshuffle.dataset.tree.nodes import (
    Files,
    Limited,
    Node,
    Shuffled,
    ShuffleOptions,
    Stepped,
    United,
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

#: Columns of numbers begin with it.
_PREFIX = "__exoshuffle_number_"


def fraction_of(node: Node, fraction: float, seed: int) -> Node:
    """Each row with the same probability, in input order.

    Raises:
        OptionsError: No such probability.
    """
    if not is_number(fraction) or not 0 < fraction <= 1:
        raise OptionsError(f"fraction is {fraction!r}; it must be above 0 and at most 1")
    step = _numbering(node, seed)
    return Stepped(_numbered(node, step), Chosen(fraction, step.column))


def rows_of(node: Node, count: int, seed: int) -> Node:
    """So many rows, in random order: those with the smallest numbers.

    Raises:
        OptionsError: A negative number.
    """
    if isinstance(count, float):
        raise OptionsError(f"n is {count}; for a share of the rows write fraction={count}")
    check_count("n", count)
    step = _numbering(node, seed)
    numbered = _numbered(node, step)
    shuffle = sort_shuffle(numbered.schema, ByKeys((SortKey(step.column),)))
    ordered = Shuffled((numbered,), shuffle, ShuffleOptions())
    return Stepped(Limited(ordered, count), Drop((step.column,)))


def in_random_order(
    node: Node, seed: int, options: ShuffleOptions, window: int | None = None
) -> Node:
    """All rows, by their numbers; windows of so many rows stay together, if that is said.

    Cost: as ``random_order_shuffle``, which knows the numbers of rows that come from files as they are; others are
    read as Arrow batches, and numbering takes 40 ns per row.
    """
    if not is_read(node) or _are_known(node):
        return Shuffled((node,), random_order_shuffle(node.schema, seed, window), options)
    step = dataclasses.replace(_numbering(node, seed), window=window)
    numbered = _numbered(node, step)
    shuffle = numbered_order_shuffle(numbered.schema, step.column, window)
    return Stepped(Shuffled((numbered,), shuffle, options), Drop((step.column,)))


def _are_known(node: Node) -> bool:
    """Whether a map knows which rows of which file it has."""
    if isinstance(node, United):
        return all(map(_are_known, node.children))
    return isinstance(node, Files) and not is_text(node.source)


def _numbering(node: Node, seed: int) -> Numbered:
    level = _num_numberings(node)
    return Numbered(seed, f"{_PREFIX}{level}", level)


def _num_numberings(node: Node) -> int:
    here = isinstance(node, Stepped) and isinstance(node.step, Numbered)
    return here + max(map(_num_numberings, node.children), default=0)


def _numbered(node: Node, step: Numbered) -> Node:
    """The tree with numbers from as far below as rows stay what they are."""
    if isinstance(node, United):
        return United(tuple(_numbered(child, step) for child in node.children))
    if isinstance(node, Stepped) and not node.step.is_function:
        return Stepped(_numbered(node.child, step), node.step.carrying(step.column))
    return Stepped(node, step)
