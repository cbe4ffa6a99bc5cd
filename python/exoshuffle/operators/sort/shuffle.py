"""The shuffle that sorts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByKeys, ByRecordKey, by_hash, by_range
from exoshuffle.operators.core.shuffle import Shuffle, Side, narrowing, rows_config
from exoshuffle.operators.sort.finish import Sorted

if TYPE_CHECKING:
    import pyarrow as pa


def sort_shuffle(schema: pa.Schema, order: ByKeys | ByRecordKey) -> Shuffle:
    """Returns a shuffle into partitions by key ranges, each sorted; stable.

    Why sort in the reduce alone: a partition fits into memory by plan, so sorting earlier would only sort twice.
    """
    finish = Sorted(rows_config(schema, order))
    make, has_keys = functools.partial(sort_shuffle, order=order), isinstance(order, ByKeys)
    return Shuffle(
        "sort",
        (Side(schema, order),),
        by_range,
        finish,
        schema,
        is_sampled=True,
        keeps_rows=True,
        whole=finish.of_all if has_keys else None,
        narrowed=narrowing(make, schema, order.columns) if has_keys else None,
    )


def sort_keys(shuffle: Shuffle) -> tuple[SortKey, ...] | None:
    """Returns the keys in whose order the result of a shuffle is; None if it is in none, or in another."""
    order = shuffle.sides[0].order
    is_in_order = isinstance(shuffle.finish, Sorted) and shuffle.assign is not by_hash
    if is_in_order and isinstance(order, ByKeys):
        return order.keys
    return None
