"""The step that makes a row of each value of a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exoshuffle.errors import SchemaError
from exoshuffle.operators.batches import movable, picking, streamed, tables_of
from exoshuffle.operators.sql.parsing import column
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows that are exploded at once: their lists may be long.
CHUNK_ROWS = 4096


@dataclass(frozen=True)
class Explode(Step):
    """Makes a row of each value of a list, beside the other columns. An empty list and null make one row with null.

    Attributes:
        column: The column of lists.
    """

    column: str

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        kind = column(self.column, schema).type
        types = pa.types
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            raise SchemaError(
                f"column {self.column!r} is {kind}, which is no list; explode takes a list"
            )
        index = schema.get_field_index(self.column)
        return schema.set(index, pa.field(self.column, kind.value_type))

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: lists decide how many rows there are."""
        del schema
        return needed | {self.column}

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return {name: own for name, own in names.items() if own != self.column}

    @property
    def makes_rows(self) -> bool:
        """See ``Step``."""
        return True

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: a copy of all columns."""
        schema = self.output_schema(batches.schema)
        return streamed(schema, self._exploded(batches, schema))

    def _exploded(self, batches: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.Table]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for table in tables_of(batches):
            for start in range(0, table.num_rows, CHUNK_ROWS):
                rows = movable(table.slice(start, CHUNK_ROWS))
                lists = _with_a_value(rows.column(self.column).combine_chunks())
                with picking(rows.schema.types):
                    made = rows.take(pc.list_parent_indices(lists))
                index = made.schema.get_field_index(self.column)
                values = pa.chunked_array([pc.list_flatten(lists)])
                yield made.set_column(index, self.column, values).cast(schema)


def _with_a_value(lists: pa.Array) -> pa.Array:
    """Returns lists with a null in the place of those without values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_list(lists.type.value_type)
    lists = lists.cast(kind)
    is_empty = pc.fill_null(pc.equal(pc.list_value_length(lists), 0), fill_value=True)
    if not pc.any(is_empty).as_py():
        return lists
    return pc.if_else(is_empty, pa.scalar([None], kind), lists)
