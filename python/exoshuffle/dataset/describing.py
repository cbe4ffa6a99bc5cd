"""Describes the columns of a dataset by a few numbers, as users of pandas and Polars know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, SupportsFloat

from exoshuffle.operators.arrow_values import array_of
from exoshuffle.operators.group_by.functions import accepts, function_of
from exoshuffle.operators.group_by.parsing import AggregateSpec
from exoshuffle.operators.sql.relational import as_python, has_too_many_digits, plain_type

if TYPE_CHECKING:
    import pyarrow as pa

#: Name of a line, its function and its parameter, in the order of the lines. Quartiles are approximate, because exact
#: ones need all values of a column in memory.
_LINES: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("count", "count", ()),
    ("mean", "mean", ()),
    ("std", "std", ()),
    ("min", "min", ()),
    ("25%", "approx_quantile", (0.25,)),
    ("50%", "approx_quantile", (0.5,)),
    ("75%", "approx_quantile", (0.75,)),
    ("max", "max", ()),
)
_ROWS = "rows"


def described(
    schema: pa.Schema, aggregated: Callable[[dict[str, AggregateSpec]], pa.Table]
) -> pa.Table:
    """Returns the lines, as ``Dataset.describe`` says.

    Args:
        schema: Schema of the rows.
        aggregated: Makes a table of one row of aggregates.
    """
    import pyarrow as pa

    specs: dict[str, AggregateSpec] = {_ROWS: "count"}
    for index, field in enumerate(schema):
        # Decimals of more digits than can be computed with are only counted.
        lines_of = _LINES[:1] if has_too_many_digits(plain_type(field.type)) else _LINES
        for line, function, parameter in lines_of:
            if accepts(function_of(function, field.type).takes, field.type):
                specs[f"{index} {line}"] = (field.name, function, *parameter)
    table = aggregated(specs)
    found = {name: as_python(table[name][0]) for name in table.column_names}
    lines = ["count", "null_count", *(line for line, _, _ in _LINES[1:])]
    columns: dict[str, pa.Array] = {"statistic": array_of(lines, pa.string())}
    for index, field in enumerate(schema):
        values = {line: found.get(f"{index} {line}") for line in lines}
        values["null_count"] = found[_ROWS] - found[f"{index} count"]
        columns[field.name] = _column(list(values.values()), field.type)
    return pa.Table.from_arrays(list(columns.values()), names=["statistic", *schema.names])


def _column(values: list[SupportsFloat | None], kind: pa.DataType) -> pa.Array:
    """Returns the values as doubles if the column has numbers, else as text."""
    import pyarrow as pa

    if accepts("numbers", kind):
        return array_of([None if each is None else float(each) for each in values], pa.float64())
    return array_of([None if each is None else str(each) for each in values], pa.string())
