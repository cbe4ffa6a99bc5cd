"""The step that makes a row of each value of a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from exoshuffle.errors import SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of, int64, truth
from exoshuffle.operators.batches import movable, picking, streamed, tables_of
from exoshuffle.operators.sql.parsing import column
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows that are exploded at once: their lists may be long.
CHUNK_ROWS = 4096
#: Rows that are made at once, and about their bytes beside the values.
MADE_ROWS = 65_536
MADE_BYTES = 8_000_000


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

        index = schema.get_field_index(self.column)
        for table in tables_of(batches):
            for start in range(0, table.num_rows, CHUNK_ROWS):
                rows = movable(table.slice(start, CHUNK_ROWS))
                lists = _with_a_value(rows.column(self.column).combine_chunks())
                # The column of lists must not be repeated with the others: a list of 3 million values would be
                # repeated 3 million times.
                others = rows.drop_columns([self.column])
                parents, values = pc.list_parent_indices(lists), pc.list_flatten(lists)
                most = _rows_at_once(others)
                for first in range(0, len(values), most):
                    with picking(others.schema.types):
                        made = others.take(parents.slice(first, most)).columns
                    made.insert(index, pa.chunked_array([values.slice(first, most)]))
                    yield pa.table(made, names=schema.names).cast(schema)


def _rows_at_once(table: pa.Table) -> int:
    """Returns how many rows of a table are repeated at once: their values may be long, and lists have many values."""
    row_bytes: int = max(1, table.nbytes // max(table.num_rows, 1))
    return max(1, min(MADE_ROWS, MADE_BYTES // row_bytes))


def _with_a_value(lists: pa.Array) -> pa.Array:
    """Returns lists with a null in the place of those without values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_list(lists.type.value_type)
    lists = lists.cast(kind)
    is_empty = pc.fill_null(pc.equal(pc.list_value_length(lists), int64(0)), fill_value=truth(True))
    if not pc.any(is_empty).as_py():
        return lists
    one_null = pa.LargeListArray.from_arrays(
        array_of([0, 1], pa.int64()), pa.nulls(1, kind.value_type)
    )
    return pc.if_else(is_empty, one_null[0], lists)
