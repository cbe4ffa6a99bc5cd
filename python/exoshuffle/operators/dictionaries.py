"""Dictionaries as pyarrow can join them: without a null among their values.

Arrow allows a null as a value of a dictionary, beside nulls among its keys. Both mean the same, but pyarrow makes one
dictionary of several only where none has such a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.operators.arrow_values import int64, scalar_of
from exoshuffle.operators.kernels import call, cast

if TYPE_CHECKING:
    import pyarrow as pa


def without_null_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column with the same values, whose dictionaries have no null; others as they are."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column
    if not any(chunk.dictionary.null_count for chunk in column.chunks):
        return column
    return pa.chunked_array(map(_without_null_values, column.chunks), column.type)


def _without_null_values(values: pa.DictionaryArray) -> pa.DictionaryArray:
    import pyarrow as pa

    dictionary = values.dictionary
    is_value = call("is_valid", dictionary)
    # The places of values among those that stay.
    places = call("subtract", call("cumulative_sum", cast(is_value, pa.int64())), int64(1))
    places = call("if_else", is_value, places, scalar_of(None, pa.int64()))
    keys = cast(call("take", places, values.indices), values.type.index_type)
    return pa.DictionaryArray.from_arrays(
        keys, call("drop_null", dictionary), ordered=values.type.ordered
    )
