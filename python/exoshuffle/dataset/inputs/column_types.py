"""Types of the columns of text files, as users give them: a pyarrow schema, or names of columns with their types."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from exoshuffle.errors import OptionsError, shown

if TYPE_CHECKING:
    import pyarrow as pa

ColumnTypes: TypeAlias = "pa.Schema | Mapping[str, pa.DataType | str | type]"

#: Types by name, as pyarrow calls them.
_NAMED = {
    "text": "string",
    "bool": "bool",
    "int64": "int64",
    "uint64": "uint64",
    "float64": "float64",
    "date": "date32",
    "time": "time64[us]",
    "timestamp": "timestamp[us]",
}
#: Types by the classes of their values, and by the names of these: pyarrow's ``float`` has 32 bits.
_CLASSES = {int: "int64", float: "float64", str: "text", bool: "bool"}
_CLASS_NAMES = {kind.__name__: name for kind, name in _CLASSES.items()}
#: The names of types, as messages and help list them.
TYPE_NAMES = f"{', '.join(_NAMED)}, decimal(PRECISION,SCALE)"

_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)")


def schema_of_types(types: ColumnTypes) -> pa.Schema:
    """Returns the types as a schema.

    Raises:
        OptionsError: A type is none, or has an unknown name.
    """
    import pyarrow as pa

    if isinstance(types, pa.Schema):
        return types
    if not isinstance(types, Mapping):
        raise OptionsError(
            f"types are {shown(types)}; give a pyarrow schema or a dict of column names and types, {{'x': 'int64'}}"
        )
    return pa.schema([(name, _type_of(name, given)) for name, given in types.items()])


def read_as(kind: pa.DataType) -> pa.DataType:
    """Returns the type that text is read as before a cast, if no reader of text makes this type; else this type."""
    import pyarrow as pa

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(read_as(field.type))

    types = pa.types
    if types.is_dictionary(kind):
        return read_as(kind.value_type)
    if types.is_struct(kind):
        return pa.struct([changed(kind.field(index)) for index in range(kind.num_fields)])
    if types.is_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(changed(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(changed(kind.value_field))
    others = {
        pa.large_string(): pa.string(),
        pa.string_view(): pa.string(),
        # From a double one can tell whether a smaller float holds its value.
        pa.float16(): pa.float64(),
    }
    return others.get(kind, kind)


def _type_of(column: str, given: pa.DataType | str | type) -> pa.DataType:
    import pyarrow as pa

    if not isinstance(column, str):
        raise OptionsError(f"schema names {shown(column)}; it must be the name of a column")
    if isinstance(given, pa.DataType):
        return given
    if isinstance(given, type):
        given = _CLASSES.get(given, given)
    elif isinstance(given, str):
        given = _CLASS_NAMES.get(given, given)
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            return pa.type_for_alias(_NAMED.get(given, given))
    decimal = _DECIMAL.fullmatch(given) if isinstance(given, str) else None
    precision, scale = (int(digits) for digits in decimal.groups()) if decimal else (0, 0)
    if 1 <= precision <= 38 and scale <= precision:
        return pa.decimal128(precision, scale)
    raise OptionsError(
        f"column {column!r} has type {given!r}; known are {TYPE_NAMES} with a precision up to 38, and pyarrow's types"
    )
