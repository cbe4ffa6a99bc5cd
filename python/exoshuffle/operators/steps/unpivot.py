"""The step that makes rows of columns: a row for each value, with the name of its column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from exoshuffle.arguments import repeated
from exoshuffle.errors import SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import scalar_of
from exoshuffle.operators.batches import streamed, tables_of
from exoshuffle.operators.sql.parsing import column
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Unpivot(Step):
    """Makes a row for each value of some columns. Of neighbouring rows, all values of one column come together.

    Attributes:
        on: The columns whose values become rows, all of one type.
        index: The columns that are repeated beside each value.
        variable: The name of the new column that has the names of columns.
        value: The name of the new column that has their values.
    """

    on: tuple[str, ...]
    index: tuple[str, ...]
    variable: str
    value: str

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        kinds = {name: column(name, schema).type for name in (*self.index, *self.on)}
        if not self.on:
            raise SchemaError("unpivot has no column left to make rows of; leave some out of index")
        first = self.on[0]
        for name in self.on:
            if kinds[name] != kinds[first]:
                raise SchemaError(
                    f"unpivot puts values into one column, and {first!r} is {kinds[first]}, {name!r} {kinds[name]}; "
                    "cast() one of them, or name columns of one type in on="
                )
        names = [*self.index, self.variable, self.value]
        twice = repeated(names)
        if twice:
            raise SchemaError(
                f"unpivot would give two columns the name {twice[0]!r}; choose variable_name and value_name"
            )
        kept = [schema.field(name) for name in self.index]
        made = [pa.field(self.variable, pa.string()), pa.field(self.value, kinds[first])]
        return pa.schema([*kept, *made], schema.metadata)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: columns in ``index`` hold their place."""
        del needed, schema
        return frozenset((*self.index, *self.on))

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return {name: own for name, own in names.items() if own in self.index}

    @property
    def makes_rows(self) -> bool:
        """See ``Step``."""
        return True

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: no copy of values; a name for each."""
        schema = self.output_schema(batches.schema)
        return streamed(schema, self._unpivoted(batches, schema))

    def _unpivoted(self, batches: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.Table]:
        import pyarrow as pa

        for table in tables_of(batches):
            kept = [table.column(name) for name in self.index]
            for name in self.on:
                names = pa.repeat(scalar_of(name, pa.string()), table.num_rows)
                yield pa.Table.from_arrays([*kept, names, table.column(name)], schema=schema)
