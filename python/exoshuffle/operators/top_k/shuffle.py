"""The shuffle that finds the first rows of a sort."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from exoshuffle.operators.core.at_once import AtOnce, Narrowing
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.shuffle import Shuffle, Side
from exoshuffle.operators.gather.shuffle import gathered, meeting
from exoshuffle.operators.top_k.top import Best

if TYPE_CHECKING:
    import pyarrow as pa


def top_k_shuffle(schema: pa.Schema, keys: tuple[SortKey, ...], count: int) -> Shuffle:
    """Returns a shuffle for the first rows of a sort: maps keep those of their split, one reduce those of all."""
    best, names = Best(keys, count), tuple(schema.names)
    partial, final = Narrowing(best.kept, schema, names), AtOnce(best.ranked, schema, names)
    finish = gathered(schema, (), final)
    made = meeting("top_k", (), Side(schema, finish.config.order, (partial,)), finish, schema)
    return dataclasses.replace(made, whole=finish.of_all)
