"""The step that gives columns other types, so that rows from several places are alike.

Guarantee: every value is as it was, or there is an error that names column, types and value. But integers and decimals
become the nearest float if no float is exactly equal, at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import streamed, tables_of
from exoshuffle.operators.sql.relational import plain, plain_type
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Digits of the largest integers, of 64 bits without a sign, and of the largest decimals.
_INTEGER_DIGITS, _MOST_DIGITS = 20, 76


@dataclass(frozen=True)
class Cast(Step):
    """Gives columns other types.

    Attributes:
        columns: Names of some columns, and their types.
    """

    columns: tuple[tuple[str, pa.DataType], ...]

    @property
    def keeps_each(self) -> bool:
        """See ``Step``."""
        return True

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

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        cast = {name for name, _ in self.columns}
        return {name: own for name, own in names.items() if own not in cast}

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
    """Returns the column in the type of a field.

    Raises:
        InputError: A value that the type cannot hold; names the column.
        SchemaError: No cast leads from the one type to the other.
    """
    import pyarrow as pa

    kind = field.type
    if column.type == kind:
        return column
    try:
        if _differs_in_keys(column.type, kind):
            return column.cast(kind)
        # No cast makes other dictionaries of these; their values are cast.
        column = plain(column)
        if pa.types.is_dictionary(kind):
            return _encoded(column.cast(kind.value_type), kind)
        return _nearest(column, kind)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {field.name!r} is {column.type}, and a value of it does not fit {kind}: {error}; cast the column "
            "with with_columns() before"
        ) from None
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            f"column {field.name!r} is {column.type}, which cannot become {kind}: {error}"
        ) from None


def _differs_in_keys(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns whether both are dictionaries of the same values, which can keep them."""
    import pyarrow as pa

    if not (pa.types.is_dictionary(kind) and pa.types.is_dictionary(wanted)):
        return False
    has_same_values: bool = kind.value_type == wanted.value_type == plain_type(kind)
    return has_same_values and kind.ordered == wanted.ordered


def _has_floats(kind: pa.DataType) -> bool:
    import pyarrow as pa

    fields = (kind.field(index).type for index in range(kind.num_fields))
    return pa.types.is_floating(kind) or any(map(_has_floats, fields))


def _nearest(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Returns the values as they are, or the nearest float. Plain casts silently turn too large values into infinities.

    Raises:
        pa.ArrowInvalid: The type cannot hold a value, or a finite value would become infinite.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    options = pc.CastOptions(kind, allow_float_truncate=_has_floats(kind))
    made = _with_room(column, kind).cast(options=options)
    if not (pa.types.is_float16(kind) or pa.types.is_float32(kind)):
        return made
    infinite = pc.is_inf(made.cast(pa.float64()))
    if pc.any(infinite).as_py():
        suspects = column.filter(infinite)
        wide = suspects.cast(options=pc.CastOptions(pa.float64(), allow_float_truncate=True))
        lost = suspects.filter(pc.is_finite(wide))
        if len(lost):
            raise pa.ArrowInvalid(f"{lost[0]} is beyond the largest {kind}")
    return made


def _with_room(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Returns integers that are to be decimals as decimals with room for all integers; Arrow makes no narrower ones."""
    import pyarrow as pa

    if not (pa.types.is_decimal(kind) and pa.types.is_integer(column.type)):
        return column
    digits = min(_INTEGER_DIGITS + max(kind.scale, 0), _MOST_DIGITS)
    return column.cast(pa.decimal256(digits, kind.scale))


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
