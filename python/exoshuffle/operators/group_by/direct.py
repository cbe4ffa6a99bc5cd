"""Groups computed from all rows at once, by a query that somebody else writes around them.

Guarantee: the same groups, values and types as by maps and reduces. Only functions are computed so whose result depends
neither on the order of rows nor on how they are divided. Sums of floats are made of integers (``float_sums``).
Groups come in the order of their keys, which costs little and is the same in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.group_by.aggregate import GroupBy, fitted
from exoshuffle.operators.group_by.columns import Aggregate
from exoshuffle.operators.group_by.float_sums import float_sum

if TYPE_CHECKING:
    import pyarrow as pa

#: Functions that keep all values of a group, and what they take for each. DuckDB keeps 8 bytes, in memory that grows by
#: doubling. With the scan, 7 million numbers of one group had 133 MB resident, and those of 1,000 groups 91.
_KEEPING = ("median", "quantile")
KEPT_BYTES = 24
#: Functions of any order of rows; those among them that add up, and those that keep more than a value.
_ANY_ORDER = (
    *("count", "count_distinct", "sum", "mean", "min", "max", "any", "all", "top_k"),
    *_KEEPING,
)
_ADDING = ("sum", "mean")
_MANY = ("count_distinct", "top_k", *_KEEPING)
#: A sum of floats is two of integers, of 32 bytes each, where other values have one.
_FLOAT_SUM_VALUES = 3
#: More sums of floats are shuffled: DuckDB plans each for 6 ms. With 200,000 rows of files that it reads, 16 took
#: 0.38 s of CPU instead of 0.61, and 100 took 2.7 instead of 1.7. 16 of a stream took 0.84.
MOST_FLOAT_SUMS = 16
#: Sums of ten billion decimals of so many digits have at most 38.
MOST_DIGITS = 28
#: Functions whose results are some of the values.
_CHOOSING = ("min", "max", "top_k")
#: Largest values of a group, for each of which DuckDB sets room apart as soon as the group has one.
MOST_TOP = 64
#: −0.0 and 0.0 are equal, and the first of them is the result. So −0.0 makes the query fail.
_NO_MINUS_ZERO = "CASE WHEN {0} = 0 AND signbit({0}) THEN error('minus zero') ELSE {0} END"


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
        more = (_FLOAT_SUM_VALUES - 1) * self.num_float_sums
        return len(self.grouping.aggregates) + more + sum(map(_num_top, self.grouping.aggregates))

    @property
    def kept_row_bytes(self) -> int:
        """See ``Aggregation``."""
        kept = {
            (item.function, item.column)
            for item in self.grouping.aggregates
            if item.function in _KEEPING
        }
        return KEPT_BYTES * len(kept)

    @property
    def num_float_sums(self) -> int:
        """The number of sums and means of floats."""
        return sum(map(self._adds_floats, self.grouping.aggregates))

    @property
    def is_exact_inside(self) -> bool:
        """See ``Aggregation``."""
        # DuckDB lets a sum have one digit more than its type.
        return not any(
            item.function in _MANY or self._may_overflow(item) for item in self.grouping.aggregates
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
        values = [self._value(item, names) for item in self.grouping.aggregates]
        listed = [*(f"{key} AS k{i}" for i, key in enumerate(keys))]
        listed += [f"{value} AS a{i}" for i, value in enumerate(values)]
        clause = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(listed)} FROM ({rows}){clause}"  # noqa: S608  names of ours

    def _value(self, item: Aggregate, names: Mapping[str, str]) -> str:
        value = names[item.column] if item.column is not None else ""
        is_float = _is_of_floats(self.grouping, item)
        if item.function in _CHOOSING:
            chosen = _NO_MINUS_ZERO.format(value) if is_float else value
            is_top = item.function == "top_k"
            return f"max({chosen}, {item.parameter})" if is_top else f"{item.function}({chosen})"
        if item.function in _KEEPING:
            # Any of −0.0 and 0.0 could be the one in the middle.
            number = f"({value} + 0)" if is_float else value
            return item.chosen(
                lambda given: item.definition.direct.format(value=number, parameter=given),
                self.grouping.aggregates,
            )
        total = float_sum(value) if self._adds_floats(item) else f"sum({value})"
        words = {"value": value, "valid": f"({value} IS NOT NULL)", "sum": total}
        return item.definition.direct.format_map(words)

    def _adds_floats(self, item: Aggregate) -> bool:
        return item.function in _ADDING and _is_of_floats(self.grouping, item)

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
    groups = DirectGroups(grouping)
    return groups if groups.num_float_sums <= MOST_FLOAT_SUMS else None


def _is_of_any_order(grouping: GroupBy, item: Aggregate) -> bool:
    """Whether the query computes an aggregate: the largest values only where they are few and have a width."""
    import pyarrow as pa

    if item.function != "top_k":
        return item.function in _ANY_ORDER
    kind = grouping.schema.field(str(item.column)).type
    has_width = pa.types.is_primitive(kind) or pa.types.is_decimal(kind)
    return has_width and _num_top(item) <= MOST_TOP


def _num_top(item: Aggregate) -> int:
    return int(item.parameter) if item.function == "top_k" else 0


def _is_of_floats(grouping: GroupBy, item: Aggregate) -> bool:
    import pyarrow as pa

    if item.column is None:
        return False
    return bool(pa.types.is_floating(grouping.schema.field(item.column).type))
