"""Batches as the arrays that programs train with: NumPy's, PyTorch's or JAX's, one for each column.

Guarantee: columns of numbers without nulls are not copied, nor are lists and tensors of a fixed shape: the arrays lie
in the store's memory, as Arrow's own do. Truth values are copied, since Arrow has eight of them in a byte. A column
that a library cannot hold is refused when the loader is made.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from exoshuffle.errors import InputError, OptionsError, SchemaError, candidates, shown
from exoshuffle.operators.batch_formats import as_array

if TYPE_CHECKING:
    import pyarrow as pa

#: From a batch to what the program gets.
Convert: TypeAlias = "Callable[[pa.RecordBatch], Any]"
#: The library of each format.
_LIBRARIES = {"arrow": "pyarrow", "numpy": "numpy", "torch": "torch", "jax": "jax"}


def converter(name: object, schema: pa.Schema) -> Convert:
    """Returns what makes batches of a format.

    Raises:
        OptionsError: No such format, or its library is not installed.
        SchemaError: The library has no type for a column.
    """
    if not isinstance(name, str) or name not in _LIBRARIES:
        known = ", ".join(f'"{each}"' for each in _LIBRARIES)
        raise OptionsError(f"format is {shown(name)}; write one of {known}")
    if importlib.util.find_spec(_LIBRARIES[name]) is None:
        raise OptionsError(
            f'format="{name}" needs {_LIBRARIES[name]}, and it is not installed; install it, or write format="arrow"'
        )
    if name == "arrow":
        return lambda batch: batch
    if name == "numpy":
        return _by_column(_numpy)
    _check_types(name, schema)
    return _by_column(_torch if name == "torch" else _jax)


def _by_column(convert: Callable[[str, pa.Array], Any]) -> Convert:
    def converted(batch: pa.RecordBatch) -> dict[str, Any]:
        names = batch.schema.names
        return {
            name: convert(name, column) for name, column in zip(names, batch.columns, strict=True)
        }

    return converted


def _numpy(name: str, column: pa.Array) -> Any:
    del name
    kind, shape = _value_type(column.type)
    if not shape or column.null_count or not _is_number(kind):
        return as_array(column)
    flat = _flat(column)
    return as_array(column) if flat.null_count else as_array(flat).reshape(len(column), *shape)


def _torch(name: str, column: pa.Array) -> Any:
    torch = importlib.import_module("torch")
    flat, shape, is_truth = _values(name, column)
    tensor = torch.from_dlpack(flat)
    return (tensor.bool() if is_truth else tensor).reshape(len(column), *shape)


def _jax(name: str, column: pa.Array) -> Any:
    jax_numpy = importlib.import_module("jax.numpy")
    flat, shape, is_truth = _values(name, column)
    array = jax_numpy.from_dlpack(flat)
    return (array.astype(bool) if is_truth else array).reshape(len(column), *shape)


def _values(name: str, column: pa.Array) -> tuple[pa.Array, tuple[int, ...], bool]:
    """Returns all numbers of a column, the shape of its rows, and whether the numbers stand for truth values.

    Raises:
        InputError: Some are null.
    """
    import pyarrow as pa

    kind, shape = _value_type(column.type)
    flat = _flat(column)
    num_nulls = column.null_count or flat.null_count
    if num_nulls:
        raise InputError(
            f"column {name!r} has {num_nulls} nulls in a batch of {len(column)} rows, and tensors have none; call "
            "fill_null() or drop_nulls() before the loader"
        )
    is_truth = pa.types.is_boolean(kind)
    return (flat.cast(pa.uint8()) if is_truth else flat), shape, is_truth


def _flat(column: pa.Array) -> pa.Array:
    """Returns the values of lists or tensors of a fixed shape, one after the other; without nulls, no copy."""
    import pyarrow as pa

    if isinstance(column, pa.FixedShapeTensorArray):
        column = column.storage
    while pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    return column


def _value_type(kind: pa.DataType) -> tuple[pa.DataType, tuple[int, ...]]:
    """Returns the type of the values of a column, and the shape of a row; that is () for single values."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        in_order = kind.permutation is None or list(kind.permutation) == list(
            range(len(kind.shape))
        )
        return (kind.value_type, tuple(kind.shape)) if in_order else (kind, ())
    shape: tuple[int, ...] = ()
    while pa.types.is_fixed_size_list(kind):
        shape = (*shape, kind.list_size)
        kind = kind.value_type
    return kind, shape


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _check_types(library: str, schema: pa.Schema) -> None:
    """Raises ``SchemaError`` unless each column has numbers, in a fixed shape."""
    held = [field.name for field in schema if _is_number(_value_type(field.type)[0])]
    for field in schema:
        kind, shape = _value_type(field.type)
        if not _is_number(kind) or 0 in shape or not math.isfinite(math.prod(shape)):
            raise SchemaError(
                f'format="{library}" has no tensors of {field.type}, the type of column {field.name!r}; select others '
                f'({candidates(field.name, held) or "none"}), cast it, or write format="numpy"'
            )
