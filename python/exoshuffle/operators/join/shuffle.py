"""The shuffle that joins."""

from __future__ import annotations

from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByKeys, by_hash
from exoshuffle.operators.core.shuffle import (
    COMBINE_PERCENT,
    COMBINE_ROW_BYTES,
    Shuffle,
    Side,
    rows_config,
)
from exoshuffle.operators.join.finish import Joined
from exoshuffle.operators.join.join import Join


def join_shuffle(joined: Join) -> Shuffle:
    """Returns a shuffle that deals both sides out by a hash of their keys, and joins them partition by partition."""
    sides = []
    for tag, (schema, steps, keys) in enumerate(joined.sides):
        order = ByKeys(tuple(SortKey(key) for key in keys))
        sides.append(Side(schema, order, steps, tag))
    left, right = (rows_config(side.schema, side.order) for side in sides)
    finish = Joined(joined, left, right)
    return Shuffle(
        "join",
        tuple(sides),
        by_hash,
        finish,
        joined.output_schema,
        reduce_percent=COMBINE_PERCENT,
        reduce_row_bytes=COMBINE_ROW_BYTES,
        whole=finish.of_all,
    )
