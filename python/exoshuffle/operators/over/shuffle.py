"""The shuffle that computes window functions: rows of equal keys meet, and each gets its values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByKeys, check_group_keys
from exoshuffle.operators.core.shuffle import Shuffle, Side, rows_config
from exoshuffle.operators.gather.finish import Alone, Gathered
from exoshuffle.operators.gather.shuffle import meeting
from exoshuffle.operators.over.windows import Windows, check_call
from exoshuffle.operators.sql.groups import check_keys

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class WithWindows(Gathered):
    """The finish of window functions."""

    @property
    def remedy(self) -> str:
        """See ``Finish``."""
        return (
            "window functions need all rows of a key; name more columns in partition_by, filter it"
        )


def over_shuffle(schema: pa.Schema, windows: Windows) -> Shuffle:
    """Returns a shuffle that adds a column for each window function.

    Without keys all rows are one key, in one partition, which has to fit into memory.

    Raises:
        OptionsError: A key twice.
        SchemaError: A key cannot be one, or a function does not fit its columns.
    """
    import pyarrow as pa

    check_keys(schema, windows.keys)
    check_group_keys(schema, windows.keys)
    for call in windows.calls:
        check_call(call, windows.keys, schema)
    order = ByKeys(tuple(SortKey(key) for key in windows.keys))
    percent, row_bytes = windows.cost(schema)
    finish = WithWindows(rows_config(schema, order), (windows,), alone=Alone(percent, row_bytes))
    side = Side(schema, order)
    made = meeting("window", windows.keys, side, finish, windows.output_schema(schema))

    def narrowed(needed: frozenset[str]) -> Shuffle:
        calls = tuple(call for call in windows.calls if call.name in needed) or windows.calls[:1]
        fewer = dataclasses.replace(windows, calls=calls)
        names = fewer.required(needed, schema)
        fields = [field for field in schema if field.name in names] or [schema.field(0)]
        return over_shuffle(pa.schema(fields, schema.metadata), fewer)

    return dataclasses.replace(
        made,
        narrowed=narrowed,
        adds=tuple(call.name for call in windows.calls),
        is_one_group=not windows.keys,
        reduce_percent=percent,
        reduce_row_bytes=row_bytes,
    )
