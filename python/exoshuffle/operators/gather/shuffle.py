"""Shuffles that bring rows of equal keys together, or all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByKeys, by_hash, round_robin
from exoshuffle.operators.core.shuffle import (
    COMBINE_PERCENT,
    COMBINE_ROW_BYTES,
    Shuffle,
    Side,
    rows_config,
)
from exoshuffle.operators.gather.finish import Gathered
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa


def gathered(travelling: pa.Schema, keys: Sequence[str], *steps: Step) -> Gathered:
    """Returns the finish that takes rows of a schema through steps, once those of equal keys are together."""
    order = ByKeys(tuple(SortKey(key) for key in keys))
    return Gathered(rows_config(travelling, order), steps)


def meeting(
    name: str, keys: Sequence[str], side: Side, finish: Gathered, schema: pa.Schema
) -> Shuffle:
    """Returns a shuffle in which rows of equal keys meet; without keys, all rows do, in one partition."""
    return Shuffle(
        name,
        (side,),
        by_hash if keys else round_robin,
        finish,
        schema,
        num_partitions=None if keys else 1,
        meets_by=tuple(keys),
        reduce_percent=COMBINE_PERCENT,
        reduce_row_bytes=COMBINE_ROW_BYTES,
    )
