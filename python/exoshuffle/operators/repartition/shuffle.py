"""The shuffles that cut rows into other partitions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import Assign, ByKeys, by_hash, by_range, round_robin
from exoshuffle.operators.core.shuffle import Shuffle, Side, narrowing, rows_config
from exoshuffle.operators.gather.finish import Gathered
from exoshuffle.operators.sort.finish import Sorted

if TYPE_CHECKING:
    import pyarrow as pa


def repartition_shuffle(schema: pa.Schema, keys: Sequence[str], assign: Assign) -> Shuffle:
    """Returns a shuffle with partitions in input order: by hash or by range of keys, or in turn without keys."""
    order = ByKeys(tuple(SortKey(key) for key in keys))
    finish = Gathered(rows_config(schema, order))
    make = functools.partial(repartition_shuffle, keys=keys, assign=assign)
    return Shuffle(
        "repartition",
        (Side(schema, order),),
        assign,
        finish,
        schema,
        is_sampled=assign is by_range,
        keeps_rows=True,
        is_even=assign is round_robin,
        narrowed=narrowing(make, schema, keys),
    )


def partition_by_shuffle(
    schema: pa.Schema, keys: Sequence[str], behind: tuple[SortKey, ...] = ()
) -> Shuffle:
    """Returns a shuffle where rows of equal keys meet side by side, in the order of other keys, else as before.

    Why sorted in the reduce: the writer of folders then has one file open at a time, however many keys there are.
    """
    first = tuple(SortKey(key) for key in keys)
    finish = Sorted(rows_config(schema, ByKeys((*first, *behind))))
    side = Side(schema, ByKeys(first))
    return Shuffle("partition_by", (side,), by_hash, finish, schema, keeps_rows=True)
