"""Samples keys from a few items of a shuffle's inputs, for the boundaries of its partitions.

Guarantee: the samples are a small share of the memory, however long keys are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.inputs import Input, evenly
from exoshuffle.futures import Ref, get
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.sql.relational import plain_type

if TYPE_CHECKING:
    import pyarrow as pa

#: Sampled keys per partition: the size of a partition then varies by 1/sqrt(400) = 5 % around the mean.
SAMPLES_PER_PARTITION = 400
#: Share of the budget for all samples; three copies of them exist while boundaries are chosen. Without this bound,
#: 21,600 keys of 60 kB for 54 partitions peaked at 1.8 GB within 300 MB.
SAMPLES_SHARE = 8
#: Keys of fixed size have no more bits than this, unless they are binary.
SHORT_BITS = 256
#: Where keys may be long, this many rows from each of this many items tell how long they are.
PROBED_ITEMS = 4
PROBED_ROWS = 4
#: Sampling reads this many items at most, evenly spread.
SAMPLED_ITEMS = 64

#: An input, and items of it with their numbers.
_Chosen = tuple[Input, Side, Sequence[tuple[int, object]]]


def sampled_keys(
    inputs: Sequence[tuple[Input, Side]],
    items: Sequence[Sequence[tuple[int, object]]],
    num_partitions: int,
    budget_bytes: int,
) -> list[bytes]:
    """Returns packed keys of some rows of each input; more keys for more partitions.

    Args:
        inputs: The inputs, each with the side of the shuffle that reads it.
        items: The items of the maps, with their numbers, input by input.
        num_partitions: Number of partitions of the shuffle.
        budget_bytes: The budget for blocks and tasks.
    """
    per_input = max(1, SAMPLED_ITEMS // max(len(inputs), 1))
    chosen = [
        (source, side, evenly(list(numbered), per_input))
        for (source, side), numbered in zip(inputs, items, strict=True)
    ]
    num_items = max(sum(len(numbered) for *_, numbered in chosen), 1)
    wanted = max(16, SAMPLES_PER_PARTITION * num_partitions // num_items)
    room = budget_bytes // (SAMPLES_SHARE * num_items)
    num_rows = max(1, min(wanted, room // max(1, _key_bytes(chosen))))
    refs: list[Ref] = []
    for source, side, numbered in chosen:
        refs += source.sample(side, numbered, num_rows)
    samples: list[bytes] = get(refs)
    return samples


def _key_bytes(chosen: Sequence[_Chosen]) -> int:
    """Measures the mean size of a few keys that may be long; 0 for short keys, which need no measuring."""
    mean = 0
    for source, side, numbered in chosen:
        if not _has_long_keys(side):
            continue
        probed = evenly(list(numbered), PROBED_ITEMS)
        sizes = map(len, get(source.sample(side, probed, PROBED_ROWS)))
        mean = max(mean, sum(sizes) // max(PROBED_ROWS * len(probed), 1))
    return mean


def _has_long_keys(side: Side) -> bool:
    """Whether keys have text or other values that may be long."""
    return any(may_be_long(side.schema.field(name).type) for name in side.order.columns)


def may_be_long(kind: pa.DataType) -> bool:
    """Whether values of a type may have far more bytes than others."""
    try:
        return not 0 < plain_type(kind).bit_width <= SHORT_BITS
    except ValueError:
        return True
