"""Arrow's compute functions, for what tiny queries need.

Why not ``pyarrow.compute``, nor the methods of arrays that call it: its import makes a documented function of each
kernel. That takes 28 ms, a twelfth of a program that filters a tiny table.

Why the private ``pyarrow._compute``: it defines ``call_function`` and the options, which ``pyarrow.compute`` hands out
as they are. They are public and documented there, so only the name of the module may change. ``test_kernels.py`` finds
that in the pyarrow that the suite runs with, and no other file imports the module. The same goes for ``pyarrow._acero``
and ``pyarrow.acero``, which takes 60 ms. Distributions may leave this one out, as conda's ``pyarrow-core`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa


def call(name: str, *values: object) -> Any:
    """Returns what the kernel of this name, with its default options, makes of arrays, tables and scalars."""
    from pyarrow._compute import call_function

    return call_function(name, list(values))


def first_of(
    column: pa.ChunkedArray, count: int, order: Literal["ascending", "descending"]
) -> pa.Array:
    """Returns where the first values of a column in an order are, in no order themselves."""
    from pyarrow._compute import SelectKOptions, call_function

    # An array has no name to give.
    return call_function("select_k_unstable", [column], SelectKOptions(count, [("", order)]))


def places_of(values: pa.ChunkedArray, among: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the place of each value among others, the first one; null for null, and for what is not there."""
    from pyarrow._compute import SetLookupOptions, call_function

    return call_function("index_in", [values], SetLookupOptions(among, skip_nulls=True))


def places_in_order(
    values: pa.Array, descending: bool = False, nulls_first: bool = False
) -> pa.Array:
    """Returns the places of values in their order, as int64; equal ones keep theirs."""
    from pyarrow._compute import ArraySortOptions, call_function

    options = ArraySortOptions(
        "descending" if descending else "ascending",
        null_placement="at_start" if nulls_first else "at_end",
    )
    return call_function("array_sort_indices", [values], options).view("int64")


def running(function: Literal["sum", "min", "max"], values: pa.Array) -> pa.Array:
    """Returns the sum, least or greatest of the values up to each one; null for null, which is left out."""
    from pyarrow._compute import CumulativeOptions, call_function

    return call_function(f"cumulative_{function}", [values], CumulativeOptions(skip_nulls=True))


def encoded(values: pa.Array) -> pa.DictionaryArray:
    """Returns values as numbers of different values; null is one of these."""
    from pyarrow._compute import DictionaryEncodeOptions, call_function

    return call_function("dictionary_encode", [values], DictionaryEncodeOptions("encode"))


@cache
def has_groups() -> bool:
    """Whether this pyarrow has the module of ``grouped``; where it has not, DuckDB groups."""
    try:
        import_module("pyarrow._acero")
    except ImportError:
        return False
    return True


def grouped(
    table: pa.Table, keys: Sequence[str], aggregates: Sequence[tuple[str, str]]
) -> pa.Table:
    """Returns the keys and aggregates of groups, by one thread; the sum of a column ``x`` is named ``x_sum``.

    Args:
        table: The rows.
        keys: Columns to group by.
        aggregates: Columns, each with Arrow's name of a function without options.
    """
    from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions

    wanted = [
        ([column], f"hash_{function}", None, f"{column}_{function}")
        for column, function in aggregates
    ]
    steps = [
        Declaration("table_source", TableSourceNodeOptions(table)),
        Declaration("aggregate", AggregateNodeOptions(wanted, keys=list(keys))),
    ]
    return Declaration.from_sequence(steps).to_table(use_threads=False)


def cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Returns a column as another type, which holds all its values; a column of this type as it is.

    Raises:
        pyarrow.ArrowInvalid: A value does not fit.
        pyarrow.ArrowNotImplementedError: No cast leads there.
    """
    if column.type == kind:
        return column
    from pyarrow._compute import CastOptions, call_function

    return call_function("cast", [column], CastOptions.safe(kind))


def cast_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns a table with the types of a schema that has its names; raises as ``cast``."""
    import pyarrow as pa

    columns = zip(table.columns, schema.types, strict=True)
    return pa.Table.from_arrays([cast(column, kind) for column, kind in columns], schema=schema)
