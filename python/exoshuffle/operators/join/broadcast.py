"""Joins with a side that is small enough for every task: the other side is read once and nothing is shuffled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import chunks_of
from exoshuffle.operators.core.at_once import ANY_BYTES, rows_at_once
from exoshuffle.operators.join.join import Join
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

LEFT, RIGHT = 0, 1
#: All rows of a task are looked up together where the left side is whole, so that its rows stay in order.
ANY_ROWS = 2**62
#: Bytes that looking a row up takes beside it. 50 million rows of a byte, those of a task together, had 467 MB within
#: 300.
LOOK_UP_BYTES = 64
#: Which sides every task can have, the better one first. A side is left out if its rows can be in the result without a
#: match, as the left side of a left join. Only a task with all of the other side knows that such a row has no match.
BROADCAST_SIDES = {
    "inner": (RIGHT, LEFT),
    "left": (RIGHT,),
    "right": (LEFT,),
    "full": (),
    "semi": (RIGHT,),
    "anti": (RIGHT,),
    "cross": (RIGHT, LEFT),
}


@dataclass(frozen=True)
class BroadcastJoin(Step):
    """The step that joins what it gets with a whole other side.

    Attributes:
        join: The join.
        side: Which side is whole; one of ``BROADCAST_SIDES``.
        table: All rows of that side.
    """

    join: Join
    side: int
    table: pa.Table

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        del schema
        return self.join.output_schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del needed
        return frozenset(schema.names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: rows at once, those of large batches apart; a look through the whole side for each."""
        import pyarrow as pa

        # The whole side is looked through for at least as many rows as it has itself.
        at_once = max(rows_at_once(LOOK_UP_BYTES), self.table.num_rows)
        most_rows = at_once if self.side == RIGHT else ANY_ROWS

        def joined() -> Iterator[pa.RecordBatch]:
            for rows in chunks_of(batches, ANY_BYTES, most_rows):
                left, right = (rows, self.table) if self.side == RIGHT else (self.table, rows)
                yield from self.join.run(left, right)

        return pa.RecordBatchReader.from_batches(self.join.output_schema, joined())
