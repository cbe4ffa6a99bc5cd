"""The step that calls a user's function for each group of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import Noted
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import streamed
from exoshuffle.operators.sql.groups import iter_groups
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class MapGroups(Step):
    """The step that hands each group of a partition to a function, as one table.

    Attributes:
        keys: Columns that are equal within a group.
        call: How to call the function.
    """

    keys: tuple[str, ...]
    call: MapBatches

    @property
    def declared_bytes(self) -> int:
        """See ``Step``."""
        return self.call.declared_bytes

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return self.call.output_schema(schema)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: a function may read any column."""
        del needed
        return frozenset(schema.names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: all rows of the partition twice; once if they are one group."""
        schema = self.output_schema(batches.schema)

        def made() -> Iterator[pa.Table]:
            for values, group in iter_groups(batches.read_all(), self.keys):
                with Noted(f"map_groups: this was the group of {self._named(values)}"):
                    result = self.call.made_of(group, schema)
                del group
                yield result

        return streamed(schema, made())

    def _named(self, values: tuple[object, ...]) -> str:
        pairs = zip(self.keys, values, strict=True)
        return ", ".join(f"{key}={value!r}" for key, value in pairs) or "all rows"


def first_group(rows: pa.Table | None, keys: Sequence[str]) -> pa.Table | None:
    """Returns the group of the first row, to learn a schema from; None if there are no rows."""
    groups = () if rows is None else iter_groups(rows, keys)
    return next((group for _, group in groups), None)
