"""Batches in the formats that programs ask for: Arrow's own, arrays by column, or frames of pandas and Polars.

Guarantee: a library that is not installed is refused before work starts.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.arguments import repeated
from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.operators.arrays import as_array
from exoshuffle.operators.tensors import check_installed, converter

if TYPE_CHECKING:
    import pyarrow as pa

#: The library of each format.
_LIBRARIES = {
    "pyarrow": "pyarrow",
    "numpy": "numpy",
    "pandas": "pandas",
    "polars": "polars",
    "torch": "torch",
    "jax": "jax",
}
#: Formats whose arrays are tensors, by column.
_TENSORS = ("torch", "jax")
#: The name of the argument.
_ARGUMENT = "batch_format"
BATCH_FORMATS = tuple(_LIBRARIES)


def check_batch_format(batch_format: object) -> None:
    """Raises ``OptionsError`` unless it is a format whose library is installed."""
    if not isinstance(batch_format, str) or batch_format not in _LIBRARIES:
        known = ", ".join(f'"{name}"' for name in BATCH_FORMATS)
        raise OptionsError(f"batch_format is {shown(batch_format)}; write one of {known}")
    check_installed(_ARGUMENT, batch_format, _LIBRARIES[batch_format], f"leave out {_ARGUMENT}")


def in_format(batch: pa.Table | pa.RecordBatch, batch_format: str) -> Any:
    """Returns the rows in a format; the class of the result is that of the format."""
    if batch_format == "numpy":
        # A copy, because programs change arrays, and those of Arrow cannot be changed.
        return {name: as_array(batch.column(name)).copy() for name in batch.schema.names}
    if batch_format == "pandas":
        return batch.to_pandas()
    if batch_format == "polars":
        return importlib.import_module("polars").from_arrow(batch)
    if batch_format in _TENSORS:
        return converter(batch_format, batch.schema, _ARGUMENT)(_as_one(batch))
    return batch


def check_columns(batch_format: str, schema: pa.Schema) -> None:
    """Raises ``SchemaError`` for a column that a format cannot hold."""
    if batch_format in _TENSORS:
        converter(batch_format, schema, _ARGUMENT)


def _as_one(batch: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows as one record batch. Cost: copies a table of several batches."""
    import pyarrow as pa

    if isinstance(batch, pa.RecordBatch):
        return batch
    parts = batch.to_batches()
    if parts:
        return pa.concat_batches(parts)
    empty = [pa.array([], field.type) for field in batch.schema]
    return pa.RecordBatch.from_arrays(empty, schema=batch.schema)


def with_format(function: Callable[[Any], object], batch_format: str) -> Callable[[Any], object]:
    """Returns the function of a table that hands it over in a format, and makes a table of a frame that comes back.

    Raises:
        OptionsError: No format, or one whose library is not installed.
    """
    check_batch_format(batch_format)
    if batch_format == "pyarrow" or not callable(function):
        return function

    @functools.wraps(function, updated=())
    def formatted(table: pa.Table) -> object:
        return _as_given(_from_frame(function(in_format(table, batch_format))), table.schema)

    return formatted


def _from_frame(result: object) -> object:
    """Returns a frame as columns by name, without an index; anything else as it is.

    Raises:
        SchemaError: Two columns of the frame have one name; a dictionary would hold one of them.
    """
    library = type(result).__module__.partition(".")[0]
    if library == "pandas" and hasattr(result, "columns") and hasattr(result, "items"):
        twice = repeated(result.columns)
        if twice:
            raise SchemaError(
                f"the function returned a frame with two columns named {twice[0]!r}; names must differ"
            )
        return dict(result.items())
    if library == "polars" and hasattr(result, "to_arrow"):
        return result.to_arrow()
    if isinstance(result, Mapping):
        return {name: _from_tensor(values) for name, values in result.items()}
    return result


def _from_tensor(values: Any) -> Any:
    """Returns a tensor as an array of NumPy; anything else as it is."""
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    if type(values).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return importlib.import_module("numpy").asarray(values)
    return values


def _as_given(result: object, schema: pa.Schema) -> object:
    """Gives columns whose types the format has lost the types that they came with: text, categories, zones of times.

    Columns whose values have another type now stay as they are.
    """
    import pyarrow as pa

    if not isinstance(result, Mapping):
        return result
    columns = dict(result)
    for name in schema.names:
        kind = schema.field(name).type
        dtype = getattr(columns.get(name), "dtype", None)
        is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        if dtype in ("object", "str", "category") or (
            is_zoned and getattr(dtype, "kind", "") == "M"
        ):
            with contextlib.suppress(pa.ArrowException, TypeError):
                columns[name] = pa.array(columns[name], kind, from_pandas=True)
    return columns
