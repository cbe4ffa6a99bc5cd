"""The step that gives values to nulls; types stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError, SchemaError, shown, unknown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import scalar_of
from exoshuffle.operators.batches import movable_type, streamed, tables_of
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Floats of 32 bits can be all integers up to this.
_EXACT = 2**24


@dataclass(frozen=True)
class FillNull(Step):
    """Puts a value in the place of every null of some columns.

    Attributes:
        values: Names of the columns, and their values as Arrow scalars.
    """

    values: tuple[tuple[str, pa.Scalar], ...]

    @property
    def keeps_each(self) -> bool:
        """See ``Step``."""
        return True

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        filled = {name for name, _ in self.values}
        return {name: own for name, own in names.items() if own not in filled}

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: a copy of the columns that have nulls."""
        schema = batches.schema
        return streamed(schema, (self._filled(table) for table in tables_of(batches)))

    def _filled(self, table: pa.Table) -> pa.Table:
        import pyarrow as pa

        columns = table.columns
        for name, value in self.values:
            index = table.schema.get_field_index(name)
            if index >= 0 and columns[index].null_count:
                kind = columns[index].type
                plain = columns[index].cast(movable_type(kind)).fill_null(value)
                columns[index] = plain.cast(kind)
        # One table for all: to set 3,000 columns one by one took 4 s.
        return pa.table(columns, schema=table.schema)


def fill_null(value: object, schema: pa.Schema) -> FillNull:
    """Returns the step for one value, or for values by the names of columns.

    Raises:
        OptionsError: No value, or one that fits no column.
        SchemaError: An unknown column, or a value that does not fit its column.
    """
    if not isinstance(value, Mapping):
        fitting = [field.name for field in schema if _is_of_kind(value, field.type)]
        if not fitting:
            raise OptionsError(
                f"fill_null got {shown(value)}, and no column has a type that it fits; give another value, or values "
                "by column, {'x': 0}"
            )
        value = dict.fromkeys(fitting, value)
    known = frozenset(schema.names)
    for name in value:
        if name not in known:
            raise SchemaError(unknown("column", str(name), schema.names))
    return FillNull(
        tuple((name, _scalar(each, schema.field(name))) for name, each in value.items())
    )


def _scalar(value: object, field: pa.Field) -> pa.Scalar:
    import pyarrow as pa

    try:
        made = _made(value, movable_type(field.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        made = None
    if made is None or value is None or pa.types.is_nested(field.type):
        raise SchemaError(
            f"column {field.name!r} is {field.type}, and {shown(value)} is no value of it; cast the column, or give "
            "another value"
        )
    return made


def _is_of_kind(value: object, kind: pa.DataType) -> bool:
    """Whether a type has such values, without a conversion: numbers, texts, truth values, moments."""
    import pyarrow as pa

    types = pa.types

    def is_number(one: pa.DataType) -> bool:
        return bool(types.is_integer(one) or types.is_floating(one) or types.is_decimal(one))

    def is_text(one: pa.DataType) -> bool:
        return one in (pa.string(), pa.large_string(), pa.string_view())

    alike = (is_number, is_text, types.is_boolean, types.is_temporal)
    try:
        own = _own_type(value)
        if not any(like(own) and like(kind) for like in alike):
            return False
        _made(value, movable_type(kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _made(value: object, kind: pa.DataType) -> pa.Scalar:
    """Returns a value as a scalar of a type; raises if the type has no such value."""
    import pyarrow as pa

    is_float = kind in (pa.float32(), pa.float64())
    # Larger numbers may be none that a float can be.
    is_exact = is_float and type(value) is int and abs(value) <= _EXACT
    is_plain = {
        bool: pa.types.is_boolean(kind),
        int: pa.types.is_integer(kind) or is_exact,
        float: is_float,
        str: kind in (pa.string(), pa.large_string()),
    }
    return scalar_of(value, kind) if is_plain.get(type(value)) else pa.scalar(value, kind)


def _own_type(value: object) -> pa.DataType:
    """Returns the type that pyarrow gives to a value; raises if there is none."""
    import pyarrow as pa

    plain = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    return plain.get(type(value)) or pa.scalar(value).type
