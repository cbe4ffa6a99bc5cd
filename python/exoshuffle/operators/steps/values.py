"""Turns Python values that a user's function returned into an Arrow array of the promised type.

Guarantee: the array has exactly these values, or there is an error. ``pyarrow.array(values, type)`` refuses values of
another sort. But it silently cuts values that are too fine or too large: 1.9 to 1, a moment to its date, 1e300 to an
infinite float. So its result is compared with the array that it makes without a type. Numbers may be rounded to the
nearest float, as everywhere.
"""

from __future__ import annotations

import datetime as dt
import importlib
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from exoshuffle.futures import Value

if TYPE_CHECKING:
    import pyarrow as pa


def typed_array(values: Value, kind: pa.DataType | None) -> pa.Array:
    """Returns the values as an array of this type, or of their own if it is None. Arrow arrays stay as they are.

    A NumPy array of several axes becomes tensors of one shape, one for each row, and so does a list of arrays.

    Raises:
        ValueError, TypeError, OverflowError: The type cannot hold a value; ``pyarrow`` raises those, too.

    Cost: lists are made into arrays twice, and nested ones are walked through.
    """
    import pyarrow as pa

    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, Iterator):
        values = list(values)
    if isinstance(values, list) and values and getattr(values[0], "ndim", 1) > 1:
        values = _stacked(values)
    if getattr(values, "ndim", 1) > 1:
        return _tensors(values, kind)
    made = pa.array(values, kind)
    check_zones(values, made.type)
    if kind is not None:
        _check(values, kind)
    return made


def check_zones(values: Value, made: pa.DataType) -> None:
    """Raises ``ValueError`` for moments with a zone beside others without one, of which Arrow made one type.

    It would take those without a zone for UTC. Values of NumPy and pandas with a type of their own are of one sort.
    """
    import pyarrow as pa

    if not pa.types.is_timestamp(made) or str(getattr(values, "dtype", "object")) != "object":
        return
    if len({value.tzinfo is None for value in values if isinstance(value, dt.datetime)}) > 1:
        raise ValueError(
            "some moments have a time zone, and others have none; give all of them one, or none"
        )


def _stacked(arrays: list[Value]) -> Value:
    """Returns arrays of several axes and one shape as one array, with an axis more."""
    stack = importlib.import_module("numpy").stack
    try:
        return stack(arrays)
    except ValueError:
        shapes = sorted({str(getattr(each, "shape", None)) for each in arrays})
        raise ValueError(
            f"arrays have the shapes {', '.join(shapes[:3])}; they must have one"
        ) from None


def _tensors(values: Value, kind: pa.DataType | None) -> pa.Array:
    """Returns an array of several axes as tensors: of the type, if that has their shape and values.

    Why not ``FixedShapeTensorArray.from_numpy_ndarray``: it refuses arrays without rows.
    """
    import pyarrow as pa

    flat = pa.array(values.reshape(-1))
    own = pa.fixed_shape_tensor(flat.type, values.shape[1:])
    wanted = own if kind is None or not _is_same_tensor(own, kind) else kind
    lists = pa.FixedSizeListArray.from_arrays(flat, type=wanted.storage_type)
    return pa.ExtensionArray.from_storage(wanted, lists)


def _is_same_tensor(own: pa.FixedShapeTensorType, kind: pa.DataType) -> bool:
    import pyarrow as pa

    if not isinstance(kind, pa.FixedShapeTensorType):
        return False
    axes = list(range(len(own.shape)))
    is_same = (own.shape, own.value_type) == (kind.shape, kind.value_type)
    return is_same and list(kind.permutation or axes) == axes


def _check(values: Value, kind: pa.DataType) -> None:
    """Raises unless the type holds each value as it is; the values are of the right sort for it."""
    import pyarrow as pa

    types = pa.types
    if types.is_nested(kind):
        _check_nested(_unwrapped(values), kind)
    elif types.is_dictionary(kind):
        _check(values, kind.value_type)
    elif isinstance(kind, pa.BaseExtensionType):
        _check(values, kind.storage_type)
    elif types.is_floating(kind):
        _check_finite(values, kind)
    elif types.is_date(kind):
        _check_dates(values, kind)
    elif types.is_integer(kind) or types.is_temporal(kind):
        _check_cast(values, kind)


def _check_nested(values: list[Value], kind: pa.DataType) -> None:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        rows = [dict(value) for value in values]
        unknown = {name for row in rows for name in row} - set(kind.names)
        if unknown:
            raise ValueError(f"it has no field {min(unknown, key=str)!r}")
        for field in kind.fields:
            _check([row.get(field.name) for row in rows], field.type)
    elif pa.types.is_map(kind):
        pairs = [pair for value in values for pair in dict(value).items()]
        _check([key for key, _ in pairs], kind.key_type)
        _check([item for _, item in pairs], kind.item_type)
    elif hasattr(kind, "value_type"):
        _check([item for value in values for item in value], kind.value_type)


def _check_cast(values: Value, kind: pa.DataType) -> None:
    import pyarrow as pa

    try:
        plain = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # The values are of several sorts, or integers of more than 63 bits.
        _check_equal(values, kind)
        return
    if not pa.types.is_integer(plain.type):
        plain.cast(kind)


def _check_equal(values: Iterable[Value], kind: pa.DataType) -> None:
    import pyarrow as pa

    for value, held in zip(values, pa.array(values, kind).to_pylist(), strict=True):
        if value != held:
            raise ValueError(f"{value!r} would become {held!r}")


def _check_finite(values: Value, kind: pa.DataType) -> None:
    """Raises if a finite value would become infinite: floats of 32 and 16 bits have no room for all numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made = pa.array(values, kind)
    if not pc.any(pc.is_inf(made)).as_py():
        return
    for value, held in zip(values, made.to_pylist(), strict=True):
        if held is not None and math.isinf(held) and not math.isinf(value):
            raise ValueError(f"{value!r} is out of its range")


def _check_dates(values: Value, kind: pa.DataType) -> None:
    """Raises if a moment would lose its time: casts cut it silently, and so does ``array`` after a first date."""
    import pyarrow as pa

    plain = pa.array(values)
    if pa.types.is_timestamp(plain.type):
        if not plain.cast(kind).cast(plain.type).equals(plain):
            raise ValueError("moments have a time of day beside their date")
        return
    for value in values:
        if isinstance(value, dt.datetime) and value.time() != dt.time():
            raise ValueError(f"{value!r} has a time of day beside its date")


def _unwrapped(values: Value) -> list[Value]:
    """Returns the values that are not null, Arrow's scalars as Python's."""
    import pyarrow as pa

    plain = (value.as_py() if isinstance(value, pa.Scalar) else value for value in values)
    return [value for value in plain if value is not None]
