"""Finishes groups of so many rows that memory has no room for all aggregates at once: in less memory, and more time.

One aggregate is computed after the other, and different values are counted in passes, by their hashes. Guarantee: the
results are those of ``GroupBy.final``.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.group_by.aggregate import GroupBy, Uncombined
from exoshuffle.operators.group_by.columns import Aggregate
from exoshuffle.operators.sql.relational import as_table

if TYPE_CHECKING:
    import pyarrow as pa

#: Passes over the rows in which different values are counted. With 3 million values of a key, beside a median and a
#: quantile, groups needed 563 MB, and need 233.
PASSES = 8
#: Bytes per row, in ``GroupBy.group_cost``, that a pass remembers only its part of.
_COUNTED_BYTES = 80


@dataclass(frozen=True)
class Sparing:
    """Aggregates rows that travelled as they are.

    Attributes:
        grouping: The grouping; its rows are not combined.
    """

    grouping: GroupBy

    @property
    def cost(self) -> tuple[int, int]:
        """Memory that ``final`` takes beside its rows; see ``GroupBy.group_cost``. Results that are lists add up."""
        costs = [self._of(item).group_cost for item in self.grouping.aggregates]
        least = min(percent for percent, _ in costs)
        passed = [
            row_bytes - (_COUNTED_BYTES * (PASSES - 1) // PASSES if _is_counted(item) else 0)
            for item, (_, row_bytes) in zip(self.grouping.aggregates, costs, strict=True)
        ]
        return least + sum(percent - least for percent, _ in costs), max(passed)

    def final(self, rows: pa.Table | pa.RecordBatchReader) -> pa.Table:
        """Does as ``GroupBy.final``. Cost: a query for each aggregate; ``PASSES`` for ``count_distinct``."""
        import pyarrow as pa

        table, grouping = as_table(rows), self.grouping
        first, *others = (self._alone(item, table) for item in grouping.aggregates)
        columns = [*first.columns, *(made.column(made.num_columns - 1) for made in others)]
        return pa.table(columns, schema=grouping.output_schema)

    def _alone(self, item: Aggregate, table: pa.Table) -> pa.Table:
        """Returns the keys and one aggregate; groups are always in order of their first row."""
        import pyarrow.compute as pc

        if not _is_counted(item):
            return self._made(item, table)
        passes = [self._made(_in_pass(item, number), table) for number in range(PASSES)]
        last = passes[0].num_columns - 1
        counts = functools.reduce(pc.add, (made.column(last) for made in passes))
        return passes[0].set_column(last, item.name, counts)

    def _made(self, item: Aggregate, table: pa.Table) -> pa.Table:
        grouping = self._of(item)
        return grouping.final(table.select(list(grouping.columns)))

    def _of(self, item: Aggregate) -> GroupBy:
        return Uncombined(self.grouping.schema, self.grouping.keys, (item,))


def _is_counted(item: Aggregate) -> bool:
    return item.function == "count_distinct"


def _in_pass(item: Aggregate, number: int) -> Aggregate:
    """Returns a count of those different values whose hashes belong to a pass."""
    belongs = f"hash({{value}}) % {PASSES} = {number}"
    direct = f"{item.definition.direct} FILTER ({belongs})"
    return replace(item, definition=replace(item.definition, direct=direct))
