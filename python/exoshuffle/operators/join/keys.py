"""Keys of a join: which types can be compared, in what type, and how they go to DuckDB.

Guarantee: two keys match if and only if their values are equal in the common type. Null matches nothing, NaN equals
NaN, −0.0 equals 0.0. Types with one meaning unify: integers and floats of any width, decimals of any scale, text and
binary of any layout. So do dates, times, timestamps and durations of any unit, and dictionaries with their values.
UUIDs and other extension types are compared as they are stored, with their like and with columns of that storage.
Integers unify exactly with each other and with decimals. With floats they become doubles, as in DuckDB: beyond 2**53
several integers are then the same double. Pairs that would need a guess are refused: decimals with floats, timestamps
with and without zone, dates with timestamps, numbers with text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import int64
from exoshuffle.operators.sql.relational import plain, plain_type, storable
from exoshuffle.operators.sql.types import unknown_column

if TYPE_CHECKING:
    import pyarrow as pa

#: Decimal digits of integers, by bits and sign.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
#: Digits of the widest decimal that both DuckDB and the row layout have.
_MAX_DIGITS = 38
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True)
class JoinKey:
    """A column of each side whose values must be equal.

    Attributes:
        left: Its name on the left side.
        right: Its name on the right side.
        type: The type in which both are compared.
    """

    left: str
    right: str
    type: pa.DataType


def parse_key(left: str, right: str, left_schema: pa.Schema, right_schema: pa.Schema) -> JoinKey:
    """Returns a key of two columns.

    Raises:
        SchemaError: A column is unknown, or their types cannot be compared.
    """
    for side, name, schema in (("left", left, left_schema), ("right", right, right_schema)):
        if name not in schema.names:
            raise SchemaError(f"join: on the {side} side {unknown_column(name, schema)}")
    left_type, right_type = left_schema.field(left).type, right_schema.field(right).type
    kind = common_type(left_type, right_type)
    if kind is None:
        raise SchemaError(
            f"cannot join {left!r} ({left_type}) with {right!r} ({right_type}): values of these types are never safely "
            "equal; cast one with with_columns()"
        )
    return JoinKey(left, right, kind)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the type in which values of both are compared; None if they cannot be."""
    import pyarrow as pa

    left, right = plain_type(left), plain_type(right)
    if all(isinstance(kind, pa.BaseExtensionType) for kind in (left, right)) and left != right:
        return None
    left, right = _stored_type(left), _stored_type(right)
    if pa.types.is_null(left) or pa.types.is_null(right):
        other = right if pa.types.is_null(left) else left
        return pa.int8() if pa.types.is_null(other) else common_type(other, other)
    for unify in (_numbers, _texts, _times, _others):
        kind = unify(left, right)
        if kind is not None:
            return kind
    return None


def hashes_alike(left: pa.DataType, right: pa.DataType) -> bool:
    """Returns whether equal values of both types have the same native hash: it is of values, not of layouts."""
    left, right = _stored_type(plain_type(left)), _stored_type(plain_type(right))
    return (
        left == right
        or (_is_text(left) and _is_text(right))
        or (_is_binary(left) and _is_binary(right))
    )


def cast_key(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Returns a key column in the common type. Values that do not fit become null: the other side has no equal ones."""
    import pyarrow as pa

    column = _stored(plain(column))
    if column.type == kind:
        return column
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _cast_units(column, kind)
    # Integers beyond 2**53 are rounded to doubles; all other casts are exact.
    return column.cast(kind, safe=not pa.types.is_floating(kind))


def comparable(columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    """Returns key columns in a form in which DuckDB compares them as we do: values with a unit become integers."""
    import pyarrow as pa

    names = [f"key_{number}" for number in range(len(columns))]
    return storable(pa.table([_number(column) for column in columns], names=names))


def _numbers(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    import pyarrow as pa

    types = pa.types
    if not all(
        types.is_integer(t) or types.is_floating(t) or types.is_decimal(t) for t in (left, right)
    ):
        return None
    if types.is_decimal(left) or types.is_decimal(right):
        return _decimals(left, right)
    if types.is_floating(left) and types.is_floating(right):
        return pa.float64() if pa.float64() in (left, right) else pa.float32()
    if types.is_floating(left) or types.is_floating(right):
        return pa.float64()
    if types.is_signed_integer(left) == types.is_signed_integer(right):
        return max(left, right, key=lambda kind: kind.bit_width)
    signed, unsigned = (left, right) if types.is_signed_integer(left) else (right, left)
    bits = max(signed.bit_width, 2 * unsigned.bit_width)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(bits, pa.decimal128(20, 0))


def _decimals(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    import pyarrow as pa

    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return None
    digits, scale = 0, 0
    for kind in (left, right):
        whole = kind.precision - kind.scale if pa.types.is_decimal(kind) else _whole_digits(kind)
        digits = max(digits, whole)
        scale = max(scale, kind.scale if pa.types.is_decimal(kind) else 0)
    return pa.decimal128(digits + scale, scale) if digits + scale <= _MAX_DIGITS else None


def _whole_digits(kind: pa.DataType) -> int:
    import pyarrow as pa

    return 20 if kind == pa.uint64() else _DIGITS[kind.bit_width]


def _texts(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    import pyarrow as pa

    if _is_text(left) and _is_text(right):
        return left if left == right else pa.large_string()
    binary = [_is_binary(kind) or pa.types.is_fixed_size_binary(kind) for kind in (left, right)]
    if all(binary):
        return left if left == right else pa.large_binary()
    return None


def _times(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the type of the finer unit."""
    import pyarrow as pa

    types = pa.types
    if types.is_date(left) and types.is_date(right):
        return left if left == right else pa.date64()
    for is_kind in (types.is_timestamp, types.is_time, types.is_duration):
        if is_kind(left) and is_kind(right):
            break
    else:
        return None
    unit = max(left.unit, right.unit, key=lambda name: _UNITS[name])
    if types.is_duration(left):
        return pa.duration(unit)
    if types.is_time(left):
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if (left.tz is None) != (right.tz is None):
        return None
    return pa.timestamp(unit, left.tz if left.tz == right.tz else "UTC")


def _others(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    import pyarrow as pa

    return left if left == right and pa.types.is_boolean(left) else None


def _stored_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column of an extension type as it is stored; any other as it is."""
    import pyarrow as pa

    kind = _stored_type(column.type)
    if kind == column.type:
        return column
    return pa.chunked_array([chunk.storage for chunk in column.chunks], kind)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _is_binary(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return kind in (pa.binary(), pa.large_binary(), pa.binary_view())


def _cast_units(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Returns timestamps or durations in another zone or a finer unit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    factor = _UNITS[kind.unit] // _UNITS[column.type.unit]
    numbers = column.cast(pa.int64())
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.greater_equal(numbers, int64(-limit)), pc.less_equal(numbers, int64(limit)))
    numbers = pc.if_else(fits, numbers, int64(None))
    return pc.multiply(numbers, int64(factor)).cast(kind)


def _number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if not pa.types.is_temporal(column.type):
        return column
    return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
