"""Makes Arrow streams of tables in memory, of any library; refuses what Arrow has no columns for.

No library is imported here: an object tells by its class from which library it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.arguments import repeated
from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.operators.steps.values import check_zones, typed_array
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a Polars frame that are converted at once: its text is copied.
_SLICE_ROWS = 262_144
#: Types of Polars that Arrow has not: it hands out a format of its own, which pyarrow does not read.
_TOO_WIDE = ("Int128", "UInt128")
#: Most names that a refusal lists.
_LISTED = 5


def kind_of(data: object) -> str:
    """Returns the class of an object with its library, such as ``pandas.DataFrame``, for messages and to tell apart."""
    kind = type(data)
    library = kind.__module__.partition(".")[0]
    return kind.__qualname__ if library == "builtins" else f"{library}.{kind.__qualname__}"


def hands_out_arrow(data: object) -> bool:
    """Whether an object has Arrow data."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def reader_of_arrow(data: object) -> pa.RecordBatchReader:
    """Returns the batches of anything that hands out Arrow data.

    Raises:
        OptionsError: It hands out none, or a single column.
    """
    import pyarrow as pa

    if isinstance(data, pa.RecordBatchReader):
        return data  # a copy of it would have the text of errors alone
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    except pa.ArrowInvalid as error:
        if "non-struct" not in str(error):
            raise
        raise OptionsError(
            f"from_arrow takes tables, and got a column, {kind_of(data)}; name it: from_pydict({{'x': column}})"
        ) from None
    if isinstance(data, str | os.PathLike):
        raise OptionsError(
            f"from_arrow takes tables in memory, and got the path {shown(data)}; for files call read_parquet and its "
            "siblings"
        )
    if isinstance(data, Iterator):
        raise OptionsError(
            f"from_arrow got {_described(data)}, which tells no schema; write "
            "pyarrow.RecordBatchReader.from_batches(schema, batches), or give a list"
        )
    raise OptionsError(
        f"from_arrow takes a table, batches or a stream of Arrow data, and got {_described(data)}; for "
        "lists call from_items, for a dictionary of columns from_pydict"
    )


def reader_of_pandas(frame: Any) -> pa.RecordBatchReader:
    """Returns the batches of a pandas frame, without its index.

    Raises:
        SchemaError: Two columns of one name, or object columns whose values have no common type.
    """
    import pyarrow as pa

    check_names([str(name) for name in frame.columns])
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        mixed = [str(name) for name in frame.columns if not _is_convertible(frame[name])]
        raise SchemaError(
            f"{_columns(mixed)} with values that have no common type (dtype object); convert with astype(), or "
            "leave out"
        ) from error
    # The notes of pandas about its index and types are not true of results.
    return table.replace_schema_metadata(None).to_reader()


def _is_convertible(column: Any) -> bool:
    import pyarrow as pa

    try:
        pa.Array.from_pandas(column)
    except (pa.ArrowException, TypeError, OverflowError):
        return False
    return True


def reader_of_polars(frame: Any) -> pa.RecordBatchReader:
    """Returns the batches of a Polars frame, with plain text.

    Why plain text: a piece of a column of views refers to the text of all of its rows.

    Raises:
        SchemaError: Columns of Python objects, whose addresses Polars would hand out, or of integers of 128 bits.
    """
    import pyarrow as pa

    objects = [name for name, kind in frame.schema.items() if _contains(kind, ("Object",))]
    if objects:
        raise SchemaError(
            f"{_columns(objects)} of Python objects (dtype Object), which have no Arrow type; cast or leave out"
        )
    wide = [name for name, kind in frame.schema.items() if _contains(kind, _TOO_WIDE)]
    if wide:
        raise SchemaError(
            f"{_columns(wide)} of integers of 128 bits, which Arrow has not; cast to pl.Int64 or pl.Decimal(38, 0)"
        )
    plain = sys.modules["polars"].CompatLevel.oldest()
    schema = frame.head(0).to_arrow(compat_level=plain).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in frame.iter_slices(_SLICE_ROWS):
            yield from rows.to_arrow(compat_level=plain).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def _contains(kind: object, names: Sequence[str]) -> bool:
    """Whether a Polars type is, or contains, one of these."""
    inside = [getattr(kind, "inner", None), *(field.dtype for field in getattr(kind, "fields", ()))]
    return str(kind) in names or any(_contains(part, names) for part in inside if part is not None)


def reader_of_columns(
    columns: Mapping[str, object], schema: pa.Schema | None
) -> pa.RecordBatchReader:
    """Returns the batches of columns by name; ``schema`` may give their types and order.

    Raises:
        OptionsError: Names that are not those of the schema, different lengths, or a value that is no column.
        SchemaError: Values without a common type, or values that do not fit the schema.
    """
    import pyarrow as pa

    by_name = {str(name): values for name, values in columns.items()}
    names = list(by_name) if schema is None else names_of(schema)
    if sorted(by_name) != sorted(names):
        raise OptionsError(
            f"schema has the columns {_listed(names)}, and the data {_listed(list(by_name))}; give a type to each, and "
            "to no others"
        )
    arrays = [
        _array(name, by_name[name], None if schema is None else schema.field(name).type)
        for name in names
    ]
    for name, array in zip(names, arrays, strict=True):
        if len(array) != len(arrays[0]):
            raise OptionsError(
                f"column {names[0]!r} has {counted(len(arrays[0]), 'value')}, and column {name!r} {len(array):,}; give "
                "all columns one length"
            )
    if schema is None:
        return pa.table(dict(zip(names, arrays, strict=True))).to_reader()
    return pa.Table.from_arrays(arrays, schema=schema).to_reader()


def _array(name: str, values: Any, kind: pa.DataType | None) -> Any:
    """Returns a column as Arrow data."""
    import pyarrow as pa

    if isinstance(values, str | bytes | Mapping) or not (
        isinstance(values, Iterable) or hasattr(values, "__arrow_c_array__")
    ):
        raise OptionsError(f"column {name!r} is {shown(values)}; give a list of its values")
    try:
        if isinstance(values, pa.ChunkedArray):
            return values if kind is None else values.cast(kind)
        if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__array__"):
            return pa.chunked_array(values, kind)
        is_listed = isinstance(values, Sequence) or hasattr(values, "__len__")
        values = values if is_listed else list(values)
        if getattr(values, "ndim", 1) > 1:  # of NumPy or torch: a tensor for each row
            return typed_array(values.__array__(), kind)
        made = pa.array(values, kind)
        check_zones(values, made.type)
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        reason = str(error).splitlines()[0]
        to = "do not fit its type" if kind is not None else "have no common type"
        raise SchemaError(
            f"values of column {name!r} {to}: {reason}; convert them, or give the type by schema="
        ) from error
    return made


def names_of(schema: object) -> list[str]:
    """Returns the names of a ``pyarrow.Schema``.

    Raises:
        OptionsError: It is something else.
    """
    import pyarrow as pa

    if not isinstance(schema, pa.Schema):
        raise OptionsError(f"schema is {shown(schema)}; give a pyarrow.Schema")
    return list(schema.names)


def check_names(names: Sequence[str]) -> None:
    """Raises ``SchemaError`` unless there are columns, with names that differ."""
    if not names:
        raise SchemaError("the rows have no columns; give at least one")
    twice = repeated(names)
    if twice:
        raise SchemaError(
            f"two columns have the name {_listed(twice)}; names must differ, so rename one"
        )


def _columns(names: Sequence[str]) -> str:
    return f"the DataFrame has column{'s' * (len(names) != 1)} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    shown_names = ", ".join(map(repr, names[:_LISTED]))
    more = len(names) - _LISTED
    return f"{shown_names} and {more:,} more" if more > 0 else shown_names


def _described(data: object) -> str:
    return f"{kind_of(data)} {shown(data)}" if not isinstance(data, list | tuple) else "a list"
