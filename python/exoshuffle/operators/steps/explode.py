"""The step that makes a row of each value of a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from exoshuffle.errors import SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of, int64
from exoshuffle.operators.batches import movable, movable_column, picking, streamed, tables_of
from exoshuffle.operators.sql.parsing import column
from exoshuffle.operators.sql.relational import row_numbers
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
        tests = (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        )
        if not any(is_one(kind) for is_one in tests):
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

        index = schema.get_field_index(self.column)
        for table in tables_of(batches):
            for start in range(0, table.num_rows, CHUNK_ROWS):
                rows = movable(table.slice(start, CHUNK_ROWS))
                made_of = _made_of(rows.column(self.column).combine_chunks())
                # The column of lists must not be repeated with the others: a list of 3 million values would be
                # repeated 3 million times.
                others = rows.drop_columns([self.column])
                most = _rows_at_once(others)
                for first in range(0, len(made_of.parents), most):
                    with picking(table.schema.types):
                        made = others.take(made_of.parents.slice(first, most)).columns
                        values = made_of.values_of(first, most)
                    made.insert(index, pa.chunked_array([values]))
                    yield pa.table(made, names=schema.names).cast(schema)


def _rows_at_once(table: pa.Table) -> int:
    """Returns how many rows of a table are repeated at once: their values may be long, and lists have many values."""
    row_bytes: int = max(1, table.nbytes // max(table.num_rows, 1))
    return max(1, min(MADE_ROWS, MADE_BYTES // row_bytes))


class _Made(NamedTuple):
    """The rows that are made of lists.

    Attributes:
        parents: For each, the number of its list.
        values: The values of all lists, one list after the other.
        numbers: For each, the number of its value, null for a list without values; None: those of all values, in order.
    """

    parents: pa.Array
    values: pa.Array
    numbers: pa.Array | None = None

    def values_of(self, first: int, most: int) -> pa.Array:
        """Returns the values of some of the rows."""
        if self.numbers is None:
            return self.values.slice(first, most)
        return self.values.take(self.numbers.slice(first, most))


def _made_of(lists: pa.Array) -> _Made:
    """Returns the rows that are made of lists: one for a list without values.

    Why numbers are dealt out, and not values: a choice between lists (``if_else``) appends each value by itself. That
    took 70 ms for 65,536 lists of integers, where joining and taking them took 3.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # A zero of another type would be converted, for which Arrow looks for pandas.
    lengths = pc.fill_null(pc.list_value_length(lists).cast(pa.int64()), int64(0))
    is_empty = pc.equal(lengths, int64(0))
    values = movable_column(pa.chunked_array([pc.list_flatten(lists)])).combine_chunks()
    ends = pc.cumulative_sum(lengths)
    starts = pa.concat_arrays([array_of([0], pa.int64()), ends])
    # Not a cast to such lists: of views that do not lie in a row, pyarrow 26 makes a wrong one or an error.
    numbers = pa.LargeListArray.from_arrays(starts, row_numbers(len(values)))
    if not pc.any(is_empty).as_py():
        return _Made(pc.list_parent_indices(numbers), values)
    null = pa.LargeListArray.from_arrays(array_of([0, 1], pa.int64()), pa.nulls(1, pa.int64()))
    chosen = pc.if_else(is_empty, int64(len(lists)), row_numbers(len(lists)))
    dealt = pa.concat_arrays([numbers, null]).take(chosen)
    return _Made(pc.list_parent_indices(dealt), values, pc.list_flatten(dealt))
