"""Sizes of rows by the types of their columns alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of a value of no fixed size, to compare columns with each other.
_TEXT_BYTES = 24
#: Bytes of a row without any column of a fixed size.
_LEAST_ROW_BYTES = 0.125


def is_fixed(kind: pa.DataType) -> bool:
    """Whether all values of a type have one size."""
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def width(types: Iterable[pa.DataType]) -> float:
    """Returns about the bytes of a row of some columns."""
    return sum(_fixed_bytes(kind) or _TEXT_BYTES for kind in types)


def least_row_bytes(schema: pa.Schema) -> float:
    """Returns the fewest bytes that a row can take in a block."""
    return max(_LEAST_ROW_BYTES, sum(_fixed_bytes(kind) for kind in schema.types))


def _fixed_bytes(kind: pa.DataType) -> float:
    """Returns the bytes of a value of a type, or the fewest if they differ."""
    import pyarrow as pa

    types = pa.types
    if types.is_primitive(kind):  # most are, and tables have thousands of columns
        return float(kind.bit_width) / 8
    if types.is_dictionary(kind):
        return _fixed_bytes(kind.index_type)
    if types.is_string(kind) or types.is_binary(kind) or types.is_list(kind) or types.is_map(kind):
        return 4
    if types.is_large_string(kind) or types.is_large_binary(kind) or types.is_large_list(kind):
        return 8
    if str(kind).endswith("_view"):
        return 16
    if types.is_struct(kind):
        return sum(_fixed_bytes(kind.field(index).type) for index in range(kind.num_fields))
    try:
        return float(kind.bit_width) / 8
    except ValueError:  # lists of a fixed size, among others
        return 0
