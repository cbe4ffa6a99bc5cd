"""Keys that stand for all others: of a few items of the inputs of a shuffle, for the boundaries of its partitions.

Guarantee: however long keys are, the samples are a small share of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.inputs.inputs import Input, evenly
from exoshuffle.futures import Ref, get
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.sql.relational import plain_type

if TYPE_CHECKING:
    import pyarrow as pa

#: Sampled keys per partition: the size of a partition then varies by 1/sqrt(400) = 5 % around the mean.
SAMPLES_PER_PARTITION = 400
#: Share of the budget for all samples, of which there are three copies while boundaries are chosen. By number alone,
#: 21,600 keys of 60 kB for 54 partitions peaked at 1.8 GB within 300 MB.
SAMPLES_SHARE = 8
#: No key of fixed size but bytes has more.
SHORT_BITS = 256
#: Of keys that may be long, so many rows of so many items tell how long they are.
PROBED_ITEMS = 4
PROBED_ROWS = 4
#: Sampling reads this many items at most, evenly spread.
SAMPLED_ITEMS = 64

#: An input, and items of it with their numbers.
_Chosen = tuple[Input, Side, Sequence[tuple[int, Any]]]


def sampled_keys(
    inputs: Sequence[tuple[Input, Side]],
    items: Sequence[Sequence[tuple[int, Any]]],
    num_partitions: int,
    budget_bytes: int,
) -> list[bytes]:
    """Packed keys of some rows of each input; the more, the more partitions there are.

    Args:
        inputs: What is read, with which side of the shuffle reads it.
        items: What the maps read, with its numbers, input by input.
        num_partitions: Of the shuffle.
        budget_bytes: What blocks and tasks may have.
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
    """Mean size of a few keys that may be long; 0 of others, which cost nothing to look at."""
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
    return any(_may_be_long(side.schema.field(name).type) for name in side.order.columns)


def _may_be_long(kind: pa.DataType) -> bool:
    try:
        return not 0 < plain_type(kind).bit_width <= SHORT_BITS
    except ValueError:
        return True
