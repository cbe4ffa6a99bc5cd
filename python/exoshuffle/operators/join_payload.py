"""The columns of one side of a join, ready to be picked from by row number.

Guarantee: any type comes out as it went in, and what is picked at once is bounded in bytes, whatever the lengths of the
values: a hot key pairs the largest row of one side with every row of the other.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exoshuffle.operators.batches import movable
from exoshuffle.operators.join_pairs import Pairs

if TYPE_CHECKING:
    import pyarrow as pa

#: A batch of the result has at most so many rows,
BATCH_ROWS = 65_536
#: and about so many bytes, if it has more than one row.
BATCH_BYTES = 16_000_000
#: Offsets of 32 bits reach so far.
MAX_OFFSET = 2**31 - 1


@dataclass(frozen=True)
class Payload:
    """Columns to pick from.

    Attributes:
        columns: Each in one piece, so that picking need not look for the piece.
        row_bytes: What a row takes beside text and binary: exact for fixed widths, the mean for nested types.
        lengths: Bytes of text and binary of each row; None if there are no such columns.
    """

    columns: pa.Table
    row_bytes: int
    lengths: pa.ChunkedArray | None


def make_payload(table: pa.Table, names: Sequence[str]) -> Payload:
    """Takes columns of a table.

    Cost: a copy of those that are not in one piece already, 8 bytes per row for the lengths.
    """
    columns = _with_wide_offsets(movable(table.select(list(names)))).combine_chunks()
    variable = [column for column in columns.columns if _has_length(column.type)]
    fixed_bytes = sum(column.nbytes for column in columns.columns if not _has_length(column.type))
    row_bytes = -(-fixed_bytes // max(table.num_rows, 1)) + 4 * len(variable)
    return Payload(columns, row_bytes, _summed_lengths(variable) if variable else None)


def batch_rows(sides: Sequence[Payload]) -> int:
    """Rows of a batch, if no row had any text."""
    row_bytes = sum(side.row_bytes for side in sides)
    return min(BATCH_ROWS, max(1, BATCH_BYTES // max(row_bytes, 1)))


def cut(pairs: Pairs, left: Payload, right: Payload) -> Iterator[Pairs]:
    """Smaller pieces of the pairs, so that none exceeds ``BATCH_BYTES`` unless it is a single pair."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = [
        pc.fill_null(side.lengths.take(rows), 0)
        for side, rows in ((left, pairs.left), (right, pairs.right))
        if side.lengths is not None
    ]
    if not lengths:
        yield pairs
        return
    total = lengths[0] if len(lengths) == 1 else pc.add(*lengths)
    ends = pc.cumulative_sum(pc.add(total, left.row_bytes + right.row_bytes)).combine_chunks()
    positions = memoryview(pa.concat_arrays([ends]).buffers()[1]).cast("q")[: len(ends)]
    begin = 0
    while begin < len(ends):
        before = positions[begin - 1] if begin else 0
        end = max(begin + 1, bisect.bisect_right(positions, before + BATCH_BYTES))
        yield Pairs(pairs.left.slice(begin, end - begin), pairs.right.slice(begin, end - begin))
        begin = end


def _has_length(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _summed_lengths(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = [pc.fill_null(pc.binary_length(column).cast(pa.int64()), 0) for column in columns]
    total = lengths[0]
    for more in lengths[1:]:
        total = pc.add(total, more)
    return total


def _with_wide_offsets(table: pa.Table) -> pa.Table:
    """Text and binary that would not fit into one piece, with offsets of 64 bits."""
    import pyarrow as pa

    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    fields = [
        field.with_type(wide.get(field.type, field.type)) if column.nbytes > MAX_OFFSET else field
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return table.cast(pa.schema(fields))
