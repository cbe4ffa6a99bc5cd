"""Makes Arrow's arrays and scalars of a few plain Python values, from buffers.

Guarantee: nothing here imports pandas. Arrow imports it where it is installed, to tell its values from others:
``pyarrow.array``, ``pyarrow.scalar``, ``Schema.empty_table``, and Python values as arguments of ``pyarrow.compute`` do.
So does ``combine_chunks`` of a column without chunks. An ``int`` cost 0.3 to 1.0 seconds and 54 MB, in the program and
in every worker. So our own values go through this file. Values of users may be of any class, pandas' too, and go
through ``pyarrow.array``.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

#: The codes of ``array.array`` by the names of types that it can hold.
_CODES = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float": "f",
    "double": "d",
}


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns values of one sort as an array; None is null.

    Args:
        values: Truth values, numbers, or texts.
        kind: ``bool``, an integer type, ``float32``, ``float64``, ``string`` or another type of text.

    Raises:
        OverflowError, TypeError: The type cannot hold a value.

    Cost: 1 µs a value; large arrays are made by kernels.
    """
    import pyarrow as pa

    count = len(values)
    is_valid = _bits([value is not None for value in values]) if None in values else None
    if kind == pa.bool_():
        return pa.Array.from_buffers(kind, count, [is_valid, _bits(list(map(bool, values)))])
    code = _CODES.get(str(kind))
    if code is not None:
        words = array.array(code, [0 if value is None else value for value in values])
        return pa.Array.from_buffers(kind, count, [is_valid, pa.py_buffer(words)])
    return _texts(["" if value is None else value for value in values], kind, is_valid)


def _texts(values: list[str], kind: pa.DataType, is_valid: pa.Buffer | None) -> pa.Array:
    """Returns texts. They are cast only to a type of views: the first cast of a program takes 30 ms."""
    import pyarrow as pa

    parts = [str.encode(value) for value in values]
    offsets = array.array("i" if kind == pa.string() else "q", [0])
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    buffers = [is_valid, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    own = kind if kind == pa.string() else pa.large_string()
    made = pa.Array.from_buffers(own, len(parts), buffers)
    return made if own == kind else made.cast(kind)


def scalar_of(value: object, kind: pa.DataType) -> pa.Scalar:
    """Returns a value as a scalar; see ``array_of``. None may be of any type."""
    import pyarrow as pa

    return pa.nulls(1, kind)[0] if value is None else array_of([value], kind)[0]


def int64(value: int | None) -> pa.Scalar:
    """Returns a number, or null, as a scalar of 64 bits to compute with."""
    import pyarrow as pa

    return scalar_of(value, pa.int64())


def truth(value: bool) -> pa.Scalar:
    """Returns a truth value as a scalar, to compute with."""
    import pyarrow as pa

    return scalar_of(value, pa.bool_())


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Returns a column as one array. Cost: a copy of the values, if it has several chunks."""
    import pyarrow as pa

    if not column.num_chunks:
        return pa.nulls(0, column.type)
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def no_rows(schema: pa.Schema) -> pa.Table:
    """Returns a table without rows; of all types, where ``empty_table`` knows no dictionaries of views."""
    import pyarrow as pa

    return pa.Table.from_batches([], schema)


def _bits(values: list[bool]) -> pa.Buffer:
    """Returns truth values as Arrow packs them, the first in the lowest bit."""
    import pyarrow as pa

    packed = sum(1 << index for index, value in enumerate(values) if value)
    return pa.py_buffer(packed.to_bytes(-(-len(values) // 8), "little"))
