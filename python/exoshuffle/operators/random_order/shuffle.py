"""The shuffles that bring rows into a uniformly random order."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByChance, ByKeys, by_even_range, by_range
from exoshuffle.operators.core.shuffle import Shuffle, Side, narrowing, rows_config
from exoshuffle.operators.sort.finish import Sorted
from exoshuffle.operators.sort.shuffle import sort_shuffle
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa


def random_order_shuffle(schema: pa.Schema, seed: int, window: int | None = None) -> Shuffle:
    """Returns a shuffle for a uniform permutation: every row draws a number of 64 bits and rows are sorted by it.

    So the number of rows that go from a map to a partition is multinomial. The order within a partition is an
    independent uniform permutation. The result does not depend on how many maps and partitions there are. With windows,
    the numbers of the rows of a window are neighbours (``crates/kernels/src/permutation.rs``).
    """
    order = ByChance(seed, window)
    finish = Sorted(rows_config(schema, order))
    side = Side(schema, order)
    name, is_even = _of_windows(window)
    make = functools.partial(random_order_shuffle, seed=seed, window=window)
    return Shuffle(
        name,
        (side,),
        by_range,
        finish,
        schema,
        keeps_rows=True,
        is_even=is_even,
        narrowed=narrowing(make, schema),
    )


def numbered_order_shuffle(schema: pa.Schema, column: str, window: int | None = None) -> Shuffle:
    """Returns ``random_order_shuffle`` for rows that have their random numbers in a column."""
    made = sort_shuffle(schema, ByKeys((SortKey(column),)))
    make = functools.partial(numbered_order_shuffle, column=column, window=window)
    name, is_even = _of_windows(window)
    return dataclasses.replace(
        made,
        name=name,
        assign=by_even_range,
        is_sampled=False,
        is_even=is_even,
        whole=None,
        narrowed=narrowing(make, schema, [column]),
    )


def _of_windows(window: int | None) -> tuple[str, bool]:
    """Returns the name of a random shuffle, and whether its partitions differ by the chance of single rows alone."""
    if window is None:
        return "random_shuffle", True
    return f"random_shuffle within windows of {counted(window, 'row')}", False
