"""Steps that need all rows of a task at once, or many of them: what aggregates them, and what chooses some.

Guarantee: what would hold more rows than a task has memory for is given them in parts. The size of rows does not tell
how many that are: nulls and small numbers take a byte or less, and each row that is aggregated 20 to 150 beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exoshuffle.futures.session import engine_in_use
from exoshuffle.operators.batches import CHUNK_ROWS, chunks_of, streamed
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Share of the budget for what the tasks that run at once aggregate. Within 2 GB on 2 CPUs, of 50 bytes a row, that is
#: the largest split of rows of 16 bytes. Small parts combine less, and a query costs 1.5 ms.
#: Without this, 50 million nulls of one byte, grouped within 300 MB, peaked at 362.
ROWS_SHARE = 8
#: What aggregating a row takes beside it, if nothing else is known.
ROW_BYTES = 50
MIN_ROWS = 32_768
#: A part has no more rows than these, however many bytes they are: they are in memory already.
ANY_BYTES = 2**62


def rows_at_once(row_bytes: int = ROW_BYTES) -> int:
    """How many rows a task may aggregate at once that take so many bytes each meanwhile."""
    engine = engine_in_use()
    if engine is None:
        return CHUNK_ROWS
    return max(MIN_ROWS, engine.budget_bytes // (ROWS_SHARE * row_bytes * engine.num_cpus))


@dataclass(frozen=True)
class AtOnce(Step):
    """A step that needs all rows at once.

    Attributes:
        function: From a table to a table.
        schema: Of what it makes.
        columns: Those that it needs.
    """

    function: Callable[[pa.Table], pa.Table]
    schema: pa.Schema
    columns: tuple[str, ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        del schema
        return self.schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del needed, schema
        return frozenset(self.columns)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        return self.function(batches.read_all()).to_reader()


@dataclass(frozen=True)
class InParts(AtOnce):
    """A step of which the results for parts of the rows, in order, say together what one for all would.

    Attributes:
        row_bytes: What a row takes beside it meanwhile.
    """

    row_bytes: int = ROW_BYTES

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        parts = chunks_of(batches, ANY_BYTES, rows_at_once(self.row_bytes))
        return streamed(self.schema, map(self.function, parts))


class Narrowing(AtOnce):
    """A step that keeps some rows, and of those that it kept and all others the same ones."""

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        import pyarrow as pa

        kept = batches.schema.empty_table()
        for part in chunks_of(batches, ANY_BYTES, rows_at_once()):
            kept = self.function(pa.concat_tables([kept, part]))
        return kept.to_reader()
