"""Groups computed from all rows at once, by a query that somebody else writes around them.

Guarantee: the same groups, values and types as by maps and reduces. Only functions are computed so whose result depends
neither on the order of rows nor on how they are divided. Integers and decimals are exact, sums of floats are not.
Groups come in the order of their keys, which costs little and is the same in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.group_by.aggregate import GroupBy, fitted
from exoshuffle.operators.group_by.columns import Aggregate

if TYPE_CHECKING:
    import pyarrow as pa

#: Functions of any order of rows, and those among them that round if values are floats.
_ANY_ORDER = ("count", "count_distinct", "sum", "mean", "min", "max", "any", "all")
_ROUNDING = ("sum", "mean")
#: Sums of ten billion decimals of so many digits have at most 38.
MOST_DIGITS = 28
#: Functions whose result is one of the values: −0.0 and 0.0 are equal, so either could be it.
_CHOOSING = ("min", "max")


@dataclass(frozen=True)
class DirectGroups:
    """An ``Aggregation`` of groups.

    Attributes:
        grouping: The groups.
    """

    grouping: GroupBy

    @property
    def columns(self) -> tuple[str, ...]:
        """See ``Aggregation``."""
        return self.grouping.columns

    @property
    def keys(self) -> tuple[str, ...]:
        """See ``Aggregation``."""
        return self.grouping.keys

    @property
    def num_values(self) -> int:
        """See ``Aggregation``."""
        return len(self.grouping.aggregates)

    @property
    def is_exact_inside(self) -> bool:
        """See ``Aggregation``."""
        # DuckDB lets a sum have one digit more than its type.
        return not any(
            item.function == "count_distinct" or self._may_overflow(item)
            for item in self.grouping.aggregates
        )

    @property
    def keeps_rows(self) -> bool:
        """See ``Aggregation``."""
        return False

    def most_rows(self, num_rows: float) -> float:
        """See ``Aggregation``."""
        return num_rows

    def _may_overflow(self, item: Aggregate) -> bool:
        import pyarrow as pa

        if item.function != "sum" or item.column is None:
            return False
        kind = self.grouping.schema.field(item.column).type
        return bool(pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS)

    def sql(self, names: Mapping[str, str], rows: str) -> str:
        """See ``Aggregation``."""
        keys = [names[key] for key in self.grouping.keys]
        values = [_sql(item, names) for item in self.grouping.aggregates]
        listed = [*(f"{key} AS k{i}" for i, key in enumerate(keys))]
        listed += [f"{value} AS a{i}" for i, value in enumerate(values)]
        clause = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(listed)} FROM ({rows}){clause}"  # noqa: S608  names of ours

    def result(self, found: pa.Table) -> pa.Table:
        """See ``Aggregation``."""
        import pyarrow as pa

        schema = self.grouping.output_schema
        columns = [
            fitted(column, field.type, f"column {field.name!r}")
            for column, field in zip(found.columns, schema, strict=True)
        ]
        return pa.table(columns, schema=schema)


def direct_groups(grouping: GroupBy) -> DirectGroups | None:
    """Returns the groups of all rows at once; None if they could differ from those of maps and reduces."""
    import pyarrow as pa

    keys = [grouping.schema.field(key).type for key in grouping.keys]
    if any(map(pa.types.is_floating, keys)):
        return None  # −0.0 and 0.0 are one key, and the first of them stands for it
    if not all(_is_of_any_order(grouping, item) for item in grouping.aggregates):
        return None
    return DirectGroups(grouping)


def _is_of_any_order(grouping: GroupBy, item: Aggregate) -> bool:
    import pyarrow as pa

    is_float = item.column is not None and pa.types.is_floating(
        grouping.schema.field(item.column).type
    )
    rounds = is_float and item.function in (*_ROUNDING, *_CHOOSING)
    return item.function in _ANY_ORDER and not rounds


def _sql(item: Aggregate, names: Mapping[str, str]) -> str:
    value = names[item.column] if item.column is not None else ""
    if item.function in _CHOOSING:
        return f"{item.function}({value})"
    words = {"value": value, "valid": f"({value} IS NOT NULL)", "sum": f"sum({value})"}
    return item.definition.direct.format_map(words)
