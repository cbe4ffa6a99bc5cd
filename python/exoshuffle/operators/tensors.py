"""Batches as the arrays that programs train with: NumPy's, PyTorch's or JAX's, one for each column.

Guarantee: columns of numbers without nulls are not copied, nor are lists and tensors of a fixed shape. The arrays lie
in the store's memory, as Arrow's own do. Truth values are copied, since Arrow has eight of them in a byte. A column
that a library cannot hold is refused when the loader is made.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from exoshuffle.errors import InputError, OptionsError, SchemaError, candidates, shown
from exoshuffle.operators.arrays import as_array

if TYPE_CHECKING:
    import pyarrow as pa

#: From a column of a batch to an array.
ToArray: TypeAlias = "Callable[[pa.Array], Any]"
#: The library of each format.
_LIBRARIES = {"arrow": "pyarrow", "numpy": "numpy", "torch": "torch", "jax": "jax"}
#: Types whose text is not the name of pyarrow's function for them.
_NAMES = {"bool": "bool_", "halffloat": "float16", "float": "float32", "double": "float64"}


class Column(NamedTuple):
    """The steps that make the arrays of a column.

    Attributes:
        array: From a column of a batch to its array.
        lies_in_memory: Whether the array of a column would lie where its values are, and be cut without a copy. None if
            arrays of this type never do.
    """

    array: ToArray
    lies_in_memory: Callable[[pa.Array], bool] | None


class Convert(NamedTuple):
    """Makes what the program gets of record batches: themselves if there are no columns here.

    Attributes:
        names: Names of the columns.
        columns: How their arrays are made.
        joined: Makes one array of several; None where arrays are not cut.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    joined: Callable[[Sequence[Any]], Any] | None

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Returns the rows of a record batch."""
        if not self.names:
            return batch
        columns = zip(self.names, self.columns, batch.columns, strict=True)
        return {name: column.array(values) for name, column, values in columns}


#: Record batches stay what they are.
AS_THEY_ARE = Convert((), (), None)


def check_installed(argument: str, name: str, library: str, instead: str) -> None:
    """Raises ``OptionsError`` if the library of a format is not there; ``instead`` says what else may be done."""
    if importlib.util.find_spec(library) is None:
        raise OptionsError(
            f'{argument}="{name}" needs {library}, and it is not installed; install it, or {instead}'
        )


def converter(name: object, schema: pa.Schema, argument: str = "format") -> Convert:
    """Returns what makes batches of a format; ``argument`` is the name that it has where the user gave it.

    Raises:
        OptionsError: No such format, or its library is not installed.
        SchemaError: The library has no type for a column.
    """
    if not isinstance(name, str) or name not in _LIBRARIES:
        known = ", ".join(f'"{each}"' for each in _LIBRARIES)
        raise OptionsError(f"{argument} is {shown(name)}; write one of {known}")
    check_installed(argument, name, _LIBRARIES[name], f'write {argument}="arrow"')
    if name == "arrow":
        return AS_THEY_ARE
    if name != "numpy":
        _check_types(name, schema, argument)
    # Types are looked at once: 11 million rows in batches of 4,096 have 78,000 columns of 29.
    columns = tuple(_COLUMNS[name](field) for field in schema)
    return Convert(tuple(schema.names), columns, _JOINED[name])


def _for_numpy(field: pa.Field) -> Column:
    import pyarrow as pa

    kind, shape = _value_type(field.type)
    if not _is_number(kind):
        return Column(as_array, None)
    lies_in_memory = None if pa.types.is_boolean(kind) else _memory_of(shape)
    as_numbers = _with_nulls if pa.types.is_boolean(kind) else _numbers
    if not shape:
        return Column(as_numbers, lies_in_memory)

    def shaped(column: pa.Array) -> Any:
        flat = _flat(column)
        if column.null_count or flat.null_count:
            return as_array(column)
        return as_numbers(flat).reshape(len(column), *shape)

    return Column(shaped, lies_in_memory)


def _with_nulls(column: pa.Array) -> Any:
    return column.to_numpy(zero_copy_only=False)


def _numbers(column: pa.Array) -> Any:
    """Returns numbers as an array that lies in their memory, unless some are null.

    Why not by Arrow: its function imports pandas wherever that is installed, which took 0.48 s of CPU time.
    """
    if column.null_count or not len(column):
        return _with_nulls(column)
    _, values = column.buffers()
    of_numbers = _dtype(column.type)
    start = column.offset * of_numbers.itemsize
    return _library("numpy").frombuffer(values, of_numbers, len(column), start)


@functools.cache
def _dtype(kind: pa.DataType) -> Any:
    return _library("numpy").dtype(kind.to_pandas_dtype())


def _for_torch(field: pa.Field) -> Column:
    from_dlpack = importlib.import_module("torch").from_dlpack
    tensor = _tensors(field, from_dlpack, lambda tensor: tensor.bool())
    return Column(tensor, None if _is_truth(field) else _memory_of(_value_type(field.type)[1]))


def _for_jax(field: pa.Field) -> Column:
    from_dlpack = importlib.import_module("jax.numpy").from_dlpack
    # A slice of an array of JAX's is a program that copies.
    return Column(_tensors(field, from_dlpack, lambda array: array.astype(bool)), None)


def _tensors(
    field: pa.Field, from_dlpack: Callable[[pa.Array], Any], as_truth: Callable[[Any], Any]
) -> ToArray:
    """Returns what makes tensors of a column.

    Args:
        field: The column.
        from_dlpack: From an array to a tensor that lies in its memory.
        as_truth: From a tensor of numbers to one of truth values.
    """
    import pyarrow as pa

    _, shape = _value_type(field.type)
    is_truth = _is_truth(field)

    def tensor(column: pa.Array) -> Any:
        flat = _flat(column)
        num_nulls = column.null_count or flat.null_count
        if num_nulls:
            raise InputError(
                f"column {field.name!r} has {num_nulls} nulls in a batch of {len(column)} rows, and tensors have none; "
                "call fill_null() or drop_nulls() before the loader"
            )
        made = as_truth(from_dlpack(flat.cast(pa.uint8()))) if is_truth else from_dlpack(flat)
        return made.reshape(len(column), *shape)

    return tensor


def _library(name: str) -> Any:
    # An import by name takes a microsecond or two each time, and each array that is joined needs one.
    return sys.modules.get(name) or importlib.import_module(name)


def _joined_arrays(arrays: Sequence[Any]) -> Any:
    return _library("numpy").concatenate(arrays)


def _joined_tensors(tensors: Sequence[Any]) -> Any:
    """Returns one tensor of several, by NumPy where that is installed.

    Why: threads of ``torch.cat`` wait for each other busily. On two CPUs that were busy anyhow it took 4.7 ms of
    processor time for 64 rows of 2,048 tokens, and NumPy 0.05 ms.
    """
    torch = _library("torch")
    try:
        numpy = _library("numpy")
    except ImportError:
        return torch.cat(tensors)
    return torch.from_numpy(numpy.concatenate([tensor.numpy() for tensor in tensors]))


#: The function that makes the converter of a column, by format.
_COLUMNS: dict[str, Callable[[pa.Field], Column]] = {
    "numpy": _for_numpy,
    "torch": _for_torch,
    "jax": _for_jax,
}
#: The function that makes one array of several, by format.
_JOINED: dict[str, Callable[[Sequence[Any]], Any] | None] = {
    "numpy": _joined_arrays,
    "torch": _joined_tensors,
    "jax": None,
}


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


def _memory_of(shape: tuple[int, ...]) -> Callable[[pa.Array], bool]:
    """Returns the test whether numbers, in rows of this shape, lie in memory as arrays have them."""
    return _has_no_nulls if shape else lambda column: not column.null_count


def _has_no_nulls(column: pa.Array) -> bool:
    return not column.null_count and not _flat(column).null_count


def _is_truth(field: pa.Field) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_boolean(_value_type(field.type)[0]))


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _check_types(library: str, schema: pa.Schema, argument: str) -> None:
    """Raises ``SchemaError`` unless each column has numbers, in a fixed shape."""
    held = [field.name for field in schema if _is_number(_value_type(field.type)[0])]
    for field in schema:
        kind, shape = _value_type(field.type)
        if not _is_number(kind) or 0 in shape or not math.isfinite(math.prod(shape)):
            raise SchemaError(
                f'{argument}="{library}" has no tensors of {field.type}, the type of column {field.name!r}; select '
                f'others ({candidates(field.name, held) or "none"}), {_cast_of(field)}, or write {argument}="numpy"'
            )


def _cast_of(field: pa.Field) -> str:
    """Returns the cast that would make tensors of a column that has none."""
    kind = field.type
    if _is_list(kind) and _is_number(kind.value_type):
        value = _NAMES.get(str(kind.value_type), kind.value_type)
        return (
            f"cast lists of one length n by cast({{{field.name!r}: pyarrow.list_(pyarrow.{value}(), n)}}), "
            "after a function that cuts or fills up others"
        )
    return "cast it to numbers"


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
