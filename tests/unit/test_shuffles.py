"""Operators as data: what plans are told of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from exoshuffle.operators import shuffles
from exoshuffle.operators.core import order
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.group_by.parsing import parse_aggregates

SCHEMA = pa.schema([("k", pa.int64()), pa.field("n", pa.uint64(), nullable=False)])
BY_KEY = order.ByKeys((SortKey("k"),))


@pytest.mark.parametrize(
    ("made", "is_even"),
    [
        (shuffles.random_shuffle(SCHEMA, 1), True),
        (shuffles.numbered_shuffle(SCHEMA, "n"), True),
        (shuffles.repartition(SCHEMA, (), order.round_robin), True),
        (shuffles.repartition(SCHEMA, ("k",), order.by_hash), False),
        (shuffles.repartition(SCHEMA, ("k",), order.by_range), False),
        (shuffles.sort(SCHEMA, BY_KEY), False),
    ],
)
def test_partitions_that_no_key_decides_are_even(made: shuffles.Shuffle, is_even: bool) -> None:
    assert made.is_even == is_even
    assert made.streams_in_place


def test_what_a_reduce_computes_is_not_made_in_place() -> None:
    groups = parse_aggregates(SCHEMA, ["k"], {"most": ("n", "max")})
    assert not shuffles.group_by(groups).streams_in_place
    best = shuffles.top_k(SCHEMA, (SortKey("k"),), 5)
    assert not best.streams_in_place
