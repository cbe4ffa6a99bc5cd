"""The shuffle that drops duplicates."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from exoshuffle.operators.core.at_once import AtOnce, InParts
from exoshuffle.operators.core.order import check_group_keys
from exoshuffle.operators.core.shuffle import Shuffle, Side, narrowing
from exoshuffle.operators.distinct.distinct import Distinct
from exoshuffle.operators.gather.shuffle import gathered, meeting
from exoshuffle.operators.group_by.aggregate import GroupBy
from exoshuffle.operators.group_by.direct import direct_groups

if TYPE_CHECKING:
    import pyarrow as pa

#: Copies of a large row: as it was stored, in DuckDB's table of keys, and in pages of an encoder. A key of 100 MB in a
#: file of Arrow took 696 MB within 679, with one copy fewer.
ROW_COPIES = 4


def distinct_shuffle(rows: Distinct) -> Shuffle:
    """Returns a shuffle that keeps the first row of every key in input order: of each map, then of each partition.

    Raises:
        SchemaError: A key cannot be one.
    """
    check_group_keys(rows.schema, rows.keys)
    names = tuple(rows.schema.names)
    partial = InParts(rows.partial, rows.schema, names)
    final = AtOnce(rows.final, rows.schema, names)
    finish = gathered(rows.schema, rows.keys, final)
    side = Side(rows.schema, finish.config.order, (partial,), row_copies=ROW_COPIES)
    made = meeting("distinct", rows.keys, side, finish, rows.schema)

    def make(schema: pa.Schema) -> Shuffle:
        return distinct_shuffle(dataclasses.replace(rows, schema=schema))

    narrowed = narrowing(make, rows.schema, rows.keys)
    # Rows that are nothing but keys are groups, if their order does not count; of others, the first one stays.
    is_of_keys = set(rows.keys) == set(rows.schema.names)
    groups = direct_groups(GroupBy(rows.schema, names, ())) if is_of_keys else None
    return dataclasses.replace(made, whole=finish.of_all, narrowed=narrowed, unordered=groups)
