"""A join whose right side is small enough to be everywhere: the left side is read once and nothing is shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exoshuffle.operators.join import Join

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class BroadcastJoin:
    """The step that joins what it gets with a whole right side.

    Attributes:
        join: The join; not ``right`` or ``full``, which must know all of the left side.
        right: All rows of the right side.
    """

    join: Join
    right: pa.Table

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        del schema
        return self.join.output_schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del needed
        return frozenset(schema.names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: the left rows at once; the right side is looked through once for all of them."""
        import pyarrow as pa

        joined = self.join.run(batches.read_all(), self.right)
        return pa.RecordBatchReader.from_batches(self.join.output_schema, joined)
