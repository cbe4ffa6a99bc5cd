"""Columns as arrays of NumPy.

Guarantee: the values are those of the column, also where pyarrow gives others: nulls of dictionaries, and tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


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
