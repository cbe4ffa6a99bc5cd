"""Says of which types values may be far larger than others, and how large values of text and binary are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.operators.arrow_values import int64, scalar_of
from exoshuffle.operators.kernels import call, cast
from exoshuffle.operators.sql.relational import plain_type, row_numbers

if TYPE_CHECKING:
    import pyarrow as pa

#: Values of fixed size have no more bits than this, unless they are binary.
SHORT_BITS = 256


def may_be_long(kind: pa.DataType) -> bool:
    """Whether values of a type may have far more bytes than others."""
    try:
        return not 0 < plain_type(kind).bit_width <= SHORT_BITS
    except ValueError:
        return True


def has_length(kind: pa.DataType) -> bool:
    """Whether a type is text or binary, whose values have lengths in bytes."""
    import pyarrow as pa

    texts = (pa.string(), pa.large_string(), pa.string_view())
    return kind in (*texts, pa.binary(), pa.large_binary(), pa.binary_view())


def summed_lengths(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Returns the bytes of text and binary of each row, over all of some columns."""
    import pyarrow as pa

    total = None
    for column in columns:
        lengths = call("coalesce", cast(_lengths(column), pa.int64()), int64(0))
        total = lengths if total is None else call("add", total, lengths)
    return total


def _lengths(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if column.type not in (pa.string_view(), pa.binary_view()):
        return call("binary_length", column)
    fourths = call("multiply", row_numbers(max(map(len, column.chunks), default=0)), int64(4))
    chunks = [_view_lengths(chunk, fourths) for chunk in column.chunks if len(chunk)]
    return pa.chunked_array(chunks, pa.int32())


def _view_lengths(views: pa.Array, fourths: pa.Array) -> pa.Array:
    """Returns the lengths of Arrow's views: the first of the four words of each; pyarrow has no function for it."""
    import pyarrow as pa

    buffers = [None, views.buffers()[1]]
    words = pa.Array.from_buffers(pa.int32(), 4 * len(views), buffers, offset=4 * views.offset)
    lengths = call("take", words, fourths.slice(0, len(views)))
    return call("if_else", call("is_valid", views), lengths, scalar_of(0, pa.int32()))


def row_bytes(table: pa.Table) -> pa.ChunkedArray:
    """Returns the bytes of each row, at least 1: those of its text and binary, and an even share of all others."""
    import pyarrow as pa

    columns = [column for column in table.columns if has_length(column.type)]
    others = sum(column.nbytes for column in table.columns if not has_length(column.type))
    even = int64(max(1, others // max(table.num_rows, 1)))
    if not columns:
        return pa.chunked_array([pa.repeat(even, table.num_rows)])
    return call("add", summed_lengths(columns), even)
