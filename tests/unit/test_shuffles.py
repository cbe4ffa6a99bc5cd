"""Operators as data: what plans are told of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from exoshuffle.operators.core import order
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.shuffle import Shuffle
from exoshuffle.operators.group_by.parsing import parse_aggregates
from exoshuffle.operators.group_by.shuffle import group_by_shuffle
from exoshuffle.operators.random_order.shuffle import numbered_order_shuffle, random_order_shuffle
from exoshuffle.operators.repartition.shuffle import repartition_shuffle
from exoshuffle.operators.sort.shuffle import sort_shuffle
from exoshuffle.operators.top_k.shuffle import top_k_shuffle

SCHEMA = pa.schema([("k", pa.int64()), pa.field("n", pa.uint64(), nullable=False)])
BY_KEY = order.ByKeys((SortKey("k"),))


@pytest.mark.parametrize(
    ("made", "is_even"),
    [
        (random_order_shuffle(SCHEMA, 1), True),
        (numbered_order_shuffle(SCHEMA, "n"), True),
        (repartition_shuffle(SCHEMA, (), order.round_robin), True),
        (repartition_shuffle(SCHEMA, ("k",), order.by_hash), False),
        (repartition_shuffle(SCHEMA, ("k",), order.by_range), False),
        (sort_shuffle(SCHEMA, BY_KEY), False),
    ],
)
def test_partitions_that_no_key_decides_are_even(made: Shuffle, is_even: bool) -> None:
    assert made.is_even == is_even
    assert made.finish.streams_in_place


def test_what_a_reduce_computes_is_not_made_in_place() -> None:
    groups = parse_aggregates(SCHEMA, ["k"], {"most": ("n", "max")})
    assert not group_by_shuffle(groups).finish.streams_in_place
    best = top_k_shuffle(SCHEMA, (SortKey("k"),), 5)
    assert not best.finish.streams_in_place
