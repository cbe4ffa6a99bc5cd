"""The step that gives columns other types, so that rows from several places are alike.

Guarantee: every value as it was, or an error that names column, types and value; but integers beyond 2**53 become the
nearest double, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.operators.batches import streamed, tables_of
from exoshuffle.operators.relational import plain

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Cast:
    """Gives columns other types.

    Attributes:
        columns: Names of some columns, and their types.
    """

    columns: tuple[tuple[str, pa.DataType], ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        kinds = dict(self.columns)
        fields = [field.with_type(kinds.get(field.name, field.type)) for field in schema]
        return pa.schema(fields, schema.metadata)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: a copy of these columns."""
        import pyarrow as pa

        schema = self.output_schema(batches.schema)

        def cast(table: pa.Table) -> pa.Table:
            columns = [
                cast_to(column, field) for column, field in zip(table.columns, schema, strict=True)
            ]
            return pa.Table.from_arrays(columns, schema=schema)

        return streamed(schema, map(cast, tables_of(batches)))


def cast_to(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """The column in the type of a field.

    Raises:
        InputError: A value that the type cannot hold; names the column.
        SchemaError: Nothing makes the one type of the other.
    """
    import pyarrow as pa

    kind = field.type
    if column.type == kind:
        return column
    # Of these no cast makes others; their values are cast.
    column = plain(column)
    try:
        if pa.types.is_dictionary(kind):
            return _encoded(column.cast(kind.value_type), kind)
        return column.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {field.name!r} is {column.type}, and a value of it does not fit {kind}: {error}; cast the column "
            "with with_columns() before"
        ) from None
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            f"column {field.name!r} is {column.type}, which cannot become {kind}: {error}"
        ) from None


def _encoded(column: pa.ChunkedArray, kind: pa.DictionaryType) -> pa.ChunkedArray:
    import pyarrow as pa

    chunks = []
    for chunk in column.chunks:
        values = chunk.dictionary_encode()
        made = pa.DictionaryArray.from_arrays(
            values.indices.cast(kind.index_type), values.dictionary, ordered=kind.ordered
        )
        chunks.append(made)
    return pa.chunked_array(chunks, kind)
