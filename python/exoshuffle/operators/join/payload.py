"""The columns of one side of a join, from which rows are picked by number.

Guarantee: any type comes out as it went in. The bytes picked at once are bounded, whatever the lengths of the values.
That holds though a hot key pairs the largest row of one side with every row of the other.

Rows that lie side by side are a slice, without a copy. So the left side's columns are never copied if each of its rows
has one match, as with a foreign key. They are not brought into one piece, nor picked, nor taken from views to text and
back.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import int64
from exoshuffle.operators.batches import movable, picking
from exoshuffle.operators.join.pairs import Pairs
from exoshuffle.operators.kernels import call, cast_table
from exoshuffle.operators.sql.lengths import has_length, summed_lengths

if TYPE_CHECKING:
    import pyarrow as pa

#: The most rows of a batch of the result.
BATCH_ROWS = 65_536
#: About the most bytes of a batch that has more than one row. Joining 2 M rows with as many took as long with 16 MB
#: (five pairs), and writers hold a batch or more of them.
BATCH_BYTES = 4_000_000
#: A batch has that for so many columns, and up to so many times as much for more. Each column of a batch is an array,
#: which takes 1.5 kB beside its values. A join of 400 rows of 10,000 columns had 501 MB resident with batches of 52
#: rows, and has 436 at most.
BATCH_COLUMNS, MOST_TIMES = 2_000, 4
#: The largest offset of 32 bits.
MAX_OFFSET = 2**31 - 1


@dataclass(frozen=True)
class Payload:
    """Columns to pick from.

    Attributes:
        table: The columns as they came.
        row_bytes: Bytes of a row beside text and binary: exact for fixed widths, the mean for nested types.
        lengths: Bytes of text and binary of each row; None if there are no such columns.
    """

    table: pa.Table
    row_bytes: int
    lengths: pa.ChunkedArray | None

    @cached_property
    def columns(self) -> pa.Table:
        """The columns in types that can be picked from, each in one piece, so that picking need not look for the piece.

        Raises:
            InputError, SchemaError: See ``batches.picking``.

        Cost: a copy of those that are not yet so.
        """
        with picking(self.table.schema.types):
            return _with_wide_offsets(movable(self.table)).combine_chunks()

    def rows(self, numbers: pa.Array) -> pa.Table:
        """Returns the rows of these numbers; nulls for null. Columns have their own type or that of ``columns``."""
        if _side_by_side(numbers):
            return self.table.slice(numbers[0].as_py(), len(numbers))
        columns = self.columns
        with picking(columns.schema.types):
            return call("take", columns, numbers)


def make_payload(table: pa.Table, names: Sequence[str]) -> Payload:
    """Takes columns of a table.

    Cost: 8 bytes per row for the lengths.
    """
    table = table.select(list(names))
    variable = [name for name in names if has_length(table.schema.field(name).type)]
    fixed = [
        column for name, column in zip(names, table.columns, strict=True) if name not in variable
    ]
    row_bytes = -(-sum(column.nbytes for column in fixed) // max(table.num_rows, 1))
    lengths = summed_lengths(table.select(variable).columns) if variable else None
    return Payload(table, row_bytes + 4 * len(variable), lengths)


def batch_rows(sides: Sequence[Payload]) -> int:
    """Returns the rows of a batch if no row had any text."""
    row_bytes = sum(side.row_bytes for side in sides)
    return min(BATCH_ROWS, max(1, _batch_bytes(sides) // max(row_bytes, 1)))


def _batch_bytes(sides: Sequence[Payload]) -> int:
    """Returns about the most bytes of a batch that has more than one row."""
    num_columns: int = sum(side.table.num_columns for side in sides)
    return BATCH_BYTES * min(MOST_TIMES, max(1, num_columns // BATCH_COLUMNS))


def cut(pairs: Pairs, left: Payload, right: Payload) -> Iterator[Pairs]:
    """Yields smaller pieces of the pairs, so that none exceeds ``BATCH_BYTES`` unless it is a single pair."""
    import pyarrow as pa

    lengths = [
        call("coalesce", call("take", side.lengths, rows), int64(0))
        for side, rows in ((left, pairs.left), (right, pairs.right))
        if side.lengths is not None
    ]
    if not lengths:
        yield pairs
        return
    total = lengths[0] if len(lengths) == 1 else call("add", *lengths)
    row_bytes = int64(left.row_bytes + right.row_bytes)
    ends = call("cumulative_sum", call("add", total, row_bytes)).combine_chunks()
    positions = memoryview(pa.concat_arrays([ends]).buffers()[1]).cast("q")[: len(ends)]
    most = _batch_bytes((left, right))
    begin = 0
    while begin < len(ends):
        before = positions[begin - 1] if begin else 0
        end = max(begin + 1, bisect.bisect_right(positions, before + most))
        yield Pairs(pairs.left.slice(begin, end - begin), pairs.right.slice(begin, end - begin))
        begin = end


def _side_by_side(numbers: pa.Array) -> bool:
    if not len(numbers) or numbers.null_count:
        return False
    if numbers[-1].as_py() - numbers[0].as_py() != len(numbers) - 1:
        return False
    steps = call("subtract", numbers.slice(1), numbers.slice(0, len(numbers) - 1))
    return call("all", call("equal", steps, int64(1))).as_py() is not False


def _with_wide_offsets(table: pa.Table) -> pa.Table:
    """Returns the table with offsets of 64 bits for text and binary that would not fit into one piece otherwise."""
    import pyarrow as pa

    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    fields = [
        field.with_type(wide.get(field.type, field.type)) if column.nbytes > MAX_OFFSET else field
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return cast_table(table, pa.schema(fields))
