"""The step that makes rows by a generator function of a user, which it calls once for its only row.

Guarantee: some megabytes of what the function yields are held at a time, so it may go on without end where a limit
stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from exoshuffle.errors import Noted, SchemaError
from exoshuffle.futures.engine import note_function
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import streamed
from exoshuffle.operators.steps.items import first_items, schema_of_items, tables_of_items
from exoshuffle.operators.steps.rows import FlatMap

if TYPE_CHECKING:
    import pyarrow as pa

_CALL = "from_generator"


@dataclass(frozen=True)
class Generate(FlatMap):
    """Calls a function without arguments for each row, and makes rows of what it yields."""

    call: str = _CALL

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        schema = self.output_schema(batches.schema)
        return streamed(schema, self._generated(batches, schema))

    def learnt_from(self, rows: pa.Table) -> pa.Schema:
        """Returns the schema of the first items."""
        del rows
        return schema_of_items(_CALL, first_items(self._items()))

    def _generated(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.Table]:
        note_function(self.name)
        for _ in range(sum(batch.num_rows for batch in batches)):
            yield from tables_of_items(_CALL, self._items(), schema)

    def _items(self) -> Iterator[object]:
        with Noted(f"{_CALL} called {self.name}"):
            made = cast("Callable[[], object]", self.function)()
            if isinstance(made, str | bytes) or not isinstance(made, Iterable):
                raise SchemaError(
                    f"{_CALL}: {self.name} returned {type(made).__name__}; yield dictionaries, or return a list of them"
                )
            yield from made
