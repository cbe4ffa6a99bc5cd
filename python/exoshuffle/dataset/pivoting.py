"""Makes columns of rows: groups whose aggregates have a column for each value of another column.

It is an aggregation of columns that have the values of some rows only, so it runs, spills and is checked as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.expressions import Expr, col, lit

if TYPE_CHECKING:
    import pyarrow as pa

#: Most columns that are made: each is aggregated by itself.
MAX_COLUMNS = 1000
#: Names of columns between, which no result has.
_PREFIX = "__exoshuffle_pivot_"


@dataclass(frozen=True)
class Pivoted:
    """The columns of a pivot.

    Attributes:
        columns: Columns with the values of some rows each, by name.
        aggregates: Their aggregates, by the names of the result's columns.
    """

    columns: dict[str, Expr]
    aggregates: dict[str, tuple[str, str]]


def check_on(field: pa.Field) -> None:
    """Raises ``SchemaError`` for values that no expression compares: DuckDB has no durations of so many units."""
    import pyarrow as pa

    if pa.types.is_duration(field.type):
        raise SchemaError(
            f"pivot makes a column for each value of {field.name!r}, and it is {field.type}, whose values are not "
            "compared; cast it to int64 before"
        )


def pivoted(
    on: str, values: str, found: Sequence[object], function: str, taken: set[str]
) -> Pivoted:
    """Returns the columns of a pivot.

    Args:
        on: The column whose values become columns.
        values: The column that is aggregated.
        found: The values of ``on``.
        function: The aggregate.
        taken: Names that the result has already.

    Raises:
        OptionsError: Too many values.
        SchemaError: Two columns of one name.
    """
    if len(found) > MAX_COLUMNS:
        raise OptionsError(
            f"pivot makes a column for each value of {on!r}, and it has more than {MAX_COLUMNS:,}; group by it instead"
        )
    columns: dict[str, Expr] = {}
    aggregates: dict[str, tuple[str, str]] = {}
    for number, value in enumerate(found):
        name = "null" if value is None else str(value)
        if name in aggregates or name in taken:
            raise SchemaError(
                f"pivot would give two columns the name {name!r}, one of them for {shown(value)}; rename, or change "
                f"values of {on!r} before"
            )
        is_this = col(on).is_null() if value is None else col(on) == lit(value)
        columns[f"{_PREFIX}{number}"] = Expr(
            f"CASE WHEN {is_this.text} THEN {col(values).text} END"
        )
        aggregates[name] = (f"{_PREFIX}{number}", function)
    return Pivoted(columns, aggregates)
