"""Steps that need all or many rows of a task at once: they aggregate rows, or choose some.

Guarantee: such a step gets its rows in parts if all would exceed the memory of a task. The size of rows does not tell
how many these are. Nulls and small numbers take a byte or less, and aggregating a row takes 20 to 150 more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from exoshuffle.futures.session import engine_in_use
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import no_rows
from exoshuffle.operators.batches import CHUNK_ROWS, chunk_bytes, chunks_of, streamed
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Share of the budget for the rows that concurrent tasks aggregate. Within 2 GB on 2 CPUs, at 50 bytes a row, that is
#: the largest split of rows of 16 bytes. Small parts combine less, and a query costs 1.5 ms.
#: Without this, 50 million nulls of one byte, grouped within 300 MB, peaked at 362.
ROWS_SHARE = 8
#: Bytes that aggregating a row takes beside it, if nothing else is known.
ROW_BYTES = 50
MIN_ROWS = 32_768
#: Where a step keeps what it chose so far, only the number of rows bounds a part: each part costs another choice.
ANY_BYTES = 2**62


def rows_at_once(row_bytes: int = ROW_BYTES) -> int:
    """Returns how many rows a task may aggregate at once, if each takes ``row_bytes`` meanwhile."""
    engine = engine_in_use()
    if engine is None:
        return CHUNK_ROWS
    return max(MIN_ROWS, engine.budget_bytes // (ROWS_SHARE * row_bytes * engine.num_cpus))


def bytes_at_once() -> int:
    """Returns the bytes of rows that a task may collect to aggregate them: as many as may aggregating take."""
    engine = engine_in_use()
    share = 0 if engine is None else engine.budget_bytes // (ROWS_SHARE * engine.num_cpus)
    return max(chunk_bytes(), share)


@dataclass(frozen=True)
class AtOnce(Step):
    """A step that needs all rows at once.

    Attributes:
        function: From a table to a table.
        schema: The schema of the result.
        columns: The columns that it needs.
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
    """A step whose results for parts of the rows, in order, say together what one result for all would.

    Attributes:
        row_bytes: Bytes that a row takes beside it meanwhile.
    """

    row_bytes: int = ROW_BYTES

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        parts = chunks_of(batches, bytes_at_once(), rows_at_once(self.row_bytes))
        return streamed(self.schema, map(self.function, parts))


class Narrowing(AtOnce):
    """A step that chooses some rows, and chooses the same ones from its choice and the remaining rows."""

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        import pyarrow as pa

        kept = no_rows(batches.schema)
        for part in chunks_of(batches, ANY_BYTES, rows_at_once()):
            kept = self.function(pa.concat_tables([kept, part]))
        return kept.to_reader()
