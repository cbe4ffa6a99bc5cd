"""Batches in the formats that programs ask for: Arrow's own, NumPy arrays by column, or frames of pandas and Polars.

Guarantee: a library that is not installed is refused before work starts.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import OptionsError, shown

if TYPE_CHECKING:
    import pyarrow as pa

#: The library of each format.
_LIBRARIES = {"pyarrow": "pyarrow", "numpy": "numpy", "pandas": "pandas", "polars": "polars"}
BATCH_FORMATS = tuple(_LIBRARIES)


def check_batch_format(batch_format: object) -> None:
    """Raises ``OptionsError`` unless it is a format whose library is installed."""
    if not isinstance(batch_format, str) or batch_format not in _LIBRARIES:
        known = ", ".join(f'"{name}"' for name in BATCH_FORMATS)
        raise OptionsError(f"batch_format is {shown(batch_format)}; write one of {known}")
    if importlib.util.find_spec(_LIBRARIES[batch_format]) is None:
        raise OptionsError(
            f'batch_format="{batch_format}" needs {batch_format}, and it is not installed; install it, or leave out '
            "batch_format"
        )


def in_format(batch: pa.Table | pa.RecordBatch, batch_format: str) -> Any:
    """Returns the rows in a format; the class of the result is that of the format."""
    if batch_format == "numpy":
        # A copy, because programs change arrays, and those of Arrow cannot be changed.
        return {name: as_array(batch.column(name)).copy() for name in batch.schema.names}
    if batch_format == "pandas":
        return batch.to_pandas()
    if batch_format == "polars":
        return importlib.import_module("polars").from_arrow(batch)
    return batch


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


def as_array(column: pa.ChunkedArray | pa.Array) -> Any:
    """Returns a column as an array of NumPy; its values are those of the column, and null is None, NaN or NaT.

    Why not pyarrow alone: it gives the first value of a dictionary in the place of null.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if isinstance(column.type, pa.FixedShapeTensorType) and not column.null_count:
        return _tensors(column)
    if isinstance(column, pa.ChunkedArray):
        return column.to_numpy()
    return column.to_numpy(zero_copy_only=False)


def _tensors(column: pa.ChunkedArray | pa.Array) -> Any:
    """Returns a column of tensors of one shape as one array, whose first axis numbers the rows."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        storage = pa.chunked_array([one.storage for one in column.chunks], column.type.storage_type)
        whole = storage.combine_chunks()
        if isinstance(whole, pa.ChunkedArray):  # as newer versions of pyarrow may return
            whole = pa.concat_arrays(whole.chunks)
        column = pa.ExtensionArray.from_storage(column.type, whole)
    return column.to_numpy_ndarray()


def _from_frame(result: object) -> object:
    """Returns a frame as columns by name, without an index; anything else as it is."""
    library = type(result).__module__.partition(".")[0]
    if library == "pandas" and hasattr(result, "items"):
        return dict(result.items())
    if library == "polars" and hasattr(result, "to_arrow"):
        return result.to_arrow()
    return result


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
