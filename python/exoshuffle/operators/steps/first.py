"""The steps of a limit: they keep the first rows of a part.

A reader of a shuffle's rows must read all, or some count as lost, so ``First`` reads the others, too, and drops them.
Rows of files may be left unread, which ``Leading`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class First(Step):
    """Keeps the first rows of what it is given.

    Attributes:
        count: The number of rows.
    """

    count: int

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        import pyarrow as pa

        def kept() -> Iterator[pa.RecordBatch]:
            left = self.count
            for batch in batches:
                if left > 0:
                    yield batch.slice(0, left)
                    left -= batch.num_rows

        return pa.RecordBatchReader.from_batches(batches.schema, kept())


class Leading(First):
    """Keeps the first rows of what it is given, and asks for no others."""

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        import pyarrow as pa

        def kept() -> Iterator[pa.RecordBatch]:
            left = self.count
            while left > 0 and (batch := next(batches, None)) is not None:
                yield batch.slice(0, left)
                left -= batch.num_rows

        return pa.RecordBatchReader.from_batches(batches.schema, kept())
