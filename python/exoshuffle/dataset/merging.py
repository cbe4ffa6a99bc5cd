"""Turns the arguments of pandas' ``merge`` into those of ``join``, and into new names for columns of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.keys import names_of
from exoshuffle.operators.join.suffixes import suffixed
from exoshuffle.operators.sql.parsing import column

if TYPE_CHECKING:
    import pyarrow as pa


class Keys(TypedDict, total=False):
    """The arguments of ``join`` that name keys."""

    on: tuple[str, ...]
    left_on: list[str]
    right_on: list[str]


@dataclass(frozen=True)
class Merging:
    """A merge as a join.

    Attributes:
        left_names: New names for columns of the left side, by the old ones.
        right_names: Those for the right side.
        keys: The keys, by their new names.
    """

    left_names: dict[str, str]
    right_names: dict[str, str]
    keys: Keys


def merging(
    left: pa.Schema,
    right: pa.Schema,
    how: str,
    given: tuple[str | Sequence[str] | None, ...],
    suffixes: tuple[str, str],
) -> Merging:
    """Returns the join.

    Args:
        left: Schema of the left side.
        right: Schema of the right side.
        how: As in ``join``.
        given: The arguments ``on``, ``left_on`` and ``right_on``.
        suffixes: Added to columns that both sides have and that are no keys.

    Raises:
        OptionsError: ``suffixes`` is no pair of different texts, or an argument is no name of columns.
        SchemaError: A key is no column.
    """
    if all(names is None for names in given) and how != "cross":
        given = ([name for name in left.names if name in right.names], None, None)
    on, left_on, right_on = (
        () if names is None else names_of(names, argument)
        for argument, names in zip(("on", "left_on", "right_on"), given, strict=True)
    )
    if left_on == right_on and left_on:  # keys of one name on both sides are one column in pandas
        given, on, left_on, right_on = (left_on, None, None), left_on, (), ()
    for side, names in ((left, (*on, *left_on)), (right, (*on, *right_on))):
        for name in names:
            column(name, side)
    ours, theirs = suffixed(left.names, right.names, on, suffixes)
    keys: Keys = {}
    if given[0] is not None:
        keys = {"on": on}
    elif how != "cross":
        keys = {
            "left_on": [ours.get(name, name) for name in left_on],
            "right_on": [theirs.get(name, name) for name in right_on],
        }
    return Merging(ours, theirs, keys)
