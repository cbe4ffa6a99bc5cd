"""Datasets from rows in memory: one function per kind of table, and ``range`` for numbers that nobody has to give.

The rows are copied into the engine's store when the dataset is made. There they count against the memory limit, and are
spilled if they do not fit. So a dataset may be used many times, also one of a stream that can be read only once. The
rows are freed with the last dataset that reads them, and when the engine is closed.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.arguments import is_whole
from exoshuffle.dataset.concatenated import concat
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.inputs.ranges import RangeInput, schema_of_range
from exoshuffle.dataset.inputs.storing import stored
from exoshuffle.dataset.inputs.tables import (
    check_names,
    hands_out_arrow,
    kind_of,
    names_of,
    reader_of_arrow,
    reader_of_columns,
    reader_of_pandas,
    reader_of_polars,
)
from exoshuffle.dataset.tree.nodes import MAX_ROWS, Given
from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa


def from_arrow(data: object) -> Dataset:
    """Makes a dataset of any Arrow data in memory, or of a stream of it.

    Args:
        data: Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``: a ``pyarrow.Table``, a record batch, a
            ``RecordBatchReader``, a DuckDB relation, frames of Polars and pandas (as ``from_polars`` and
            ``from_pandas``). A dataset, too: its result is then kept, for a program that uses it several times. Or a
            list of tables or batches, whose rows follow each other as in ``concat``.

    Returns:
        A dataset with the same columns and types.

    Raises:
        OptionsError: Something else, or a single column.
        SchemaError: No column, or two columns of one name.
        DiskFullError: The rows exceed memory, and the spill directories have no room.

    Cost: reads all rows once, a batch at a time, and copies them into the store.
    """
    if kind_of(data) == "pandas.DataFrame":
        return from_pandas(data)
    if kind_of(data) in ("polars.DataFrame", "polars.LazyFrame"):
        return from_polars(data)
    if isinstance(data, list | tuple) and data and all(map(hands_out_arrow, data)):
        return concat([from_arrow(each) for each in data])
    if isinstance(data, Dataset):
        return data.materialize()
    return kept(f"from_arrow of {kind_of(data)}", reader_of_arrow(data))


def from_pandas(frame: object) -> Dataset:
    """Makes a dataset of a pandas ``DataFrame``, without its index; ``frame.reset_index()`` makes columns of that.

    Args:
        frame: The frame. Missing values are null, and so is NaN.

    Raises:
        OptionsError: Something else than a ``DataFrame``.
        SchemaError: Two columns of one name, no column, or object columns whose values have no common type.

    Cost: as ``from_arrow``, and a copy of columns of text.
    """
    if kind_of(frame) != "pandas.DataFrame":
        raise OptionsError(
            f"from_pandas takes a pandas.DataFrame, and got {kind_of(frame)}; for other tables call from_arrow"
        )
    return kept("from_pandas", reader_of_pandas(frame))


def from_polars(frame: Any) -> Dataset:
    """Makes a dataset of a Polars ``DataFrame``; a ``LazyFrame`` is collected first, in memory beside the limit.

    Args:
        frame: The frame. Text becomes ``large_string``, and categories become dictionaries.

    Raises:
        OptionsError: Something else than a frame.
        SchemaError: Columns of Python objects (dtype ``Object``), or no column.

    Cost: as ``from_arrow``, and a copy of columns of text, some rows at a time.
    """
    if kind_of(frame) == "polars.LazyFrame":
        frame = frame.collect()
    if kind_of(frame) != "polars.DataFrame":
        raise OptionsError(
            f"from_polars takes a polars.DataFrame, and got {kind_of(frame)}; for other tables call from_arrow"
        )
    return kept("from_polars", reader_of_polars(frame))


def from_pydict(columns: Mapping[str, object], *, schema: pa.Schema | None = None) -> Dataset:
    """Makes a dataset of columns by name: ``{"x": [1, 2], "s": ["a", None]}``. ``from_dict`` is the same.

    Args:
        columns: Lists, NumPy arrays, Arrow arrays or anything else that can be iterated over, all of one length. None
            is null. Arrays of several axes become columns of tensors.
        schema: Names and types of all columns. Default: the types that Arrow infers from all values.

    Raises:
        OptionsError: Something else than a dictionary, columns of different lengths, or a value that is no column.
        SchemaError: No column, or values that have no common type or do not fit the schema.

    Cost: as ``from_arrow``, and all values as Arrow data beside the store while the dataset is made.
    """
    if not isinstance(columns, Mapping):
        raise OptionsError(
            f"from_pydict takes a dictionary of columns, and got {shown(columns)}; for rows call from_items"
        )
    return kept("from_pydict", reader_of_columns(columns, schema))


from_dict = from_pydict


def from_items(items: Iterable[object], *, schema: pa.Schema | None = None) -> Dataset:
    """Makes a dataset of rows: dictionaries give columns by their keys, other values one column ``item``.

    Args:
        items: The rows, all dictionaries or none. A key that a row lacks is null there.
        schema: Names and types of the columns. Default: all keys, in the order in which they come, with the types that
            Arrow infers from all values.

    Raises:
        OptionsError: No collection of rows, or dictionaries beside other values.
        SchemaError: No item and no schema; values that have no common type or do not fit the schema.

    Cost: all items in memory, as Python objects and as Arrow data, while the dataset is made.
    """
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise OptionsError(
            f"from_items takes a list of rows, and got {shown(items)}; for a dictionary of columns call from_pydict"
        )
    columns = _columns_of(list(items), None if schema is None else names_of(schema))
    return kept("from_items", reader_of_columns(columns, schema))


def _columns_of(rows: list[object], names: list[str] | None) -> dict[str, list[object]]:
    """Returns rows as columns; ``names`` are those of a schema."""
    if not rows:
        if names is None:
            raise SchemaError("from_items got no item, so there are no columns; give schema=")
        return {name: [] for name in names}
    dicts = [row for row in rows if isinstance(row, Mapping)]
    if len(dicts) == len(rows):
        keys = dict.fromkeys([*(names or ()), *(key for row in dicts for key in row)])
        return {key: [row.get(key) for row in dicts] for key in keys}
    if dicts:
        are_dicts = [isinstance(row, Mapping) for row in rows]
        odd = are_dicts.index(not are_dicts[0])
        raise OptionsError(
            f"item 0 is {shown(rows[0])}, and item {odd} is {shown(rows[odd])}; give dictionaries only, or none"
        )
    if names is not None and len(names) != 1:
        raise OptionsError(
            f"item 0 is {shown(rows[0])}, and schema has {counted(len(names), 'column')}; give dictionaries"
        )
    return {names[0] if names else "item": rows}


def range(  # noqa: A001  called as xs.range, as it is called elsewhere
    start: int, stop: int | None = None, step: int = 1
) -> Dataset:
    """Makes a dataset of whole numbers, in a column ``id`` (int64): ``range(n)`` has those from 0 to n - 1.

    Args:
        start: The first number; the number of rows, if it is given alone.
        stop: The first number that is not included.
        step: Distance of neighbours; not zero.

    Raises:
        OptionsError: A number that is not whole, or does not fit int64; a step of 0; more than 2**63 - 1 rows.

    Cost: each task makes the numbers that it needs; the store keeps none.
    """
    first, end = (0, start) if stop is None else (start, stop)
    for name, number in (("start", first), ("stop", end), ("step", step)):
        if not is_whole(number) or not -MAX_ROWS - 1 <= number <= MAX_ROWS:
            raise OptionsError(f"{name} is {shown(number)}; it must be a whole number of 64 bits")
    if step == 0:
        raise OptionsError("step is 0; it must be another number")
    num_rows = max(0, -((first - end) // step))
    if num_rows > MAX_ROWS:
        raise OptionsError(f"range has {num_rows} rows; it must have at most 2**63 - 1")
    numbers = builtins.range(int(first), int(end), int(step))
    return Dataset(Given(RangeInput(numbers), schema_of_range(), num_rows, 0, "range"))


def kept(label: str, batches: pa.RecordBatchReader) -> Dataset:
    """Puts the rows of a stream into the store, and returns the dataset that reads them."""
    check_names(batches.schema.names)
    kept = stored(batches)
    return Dataset(Given(kept.rows, batches.schema, kept.num_rows, kept.num_bytes, label))
