"""The end of a query whose rows are sorted: all of them, or the first.

Guarantee: rows come in the order of ``sort``. Those of a join or group-by have no order of their own. So where keys are
equal, all other columns decide, the keys of groups before others. So every run gives the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.core.keys import SortKey


@dataclass(frozen=True)
class OrderedRows:
    """An ``Aggregation`` that keeps rows.

    Attributes:
        schema: Their schema.
        order: The keys that they are sorted by.
        before: The columns that decide first among rows of equal keys.
        count: How many of them there are at the most; None: all.
    """

    schema: pa.Schema
    order: Sequence[SortKey]
    before: tuple[str, ...] = ()
    count: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """See ``Aggregation``."""
        return tuple(self.schema.names)

    @property
    def keys(self) -> tuple[str, ...]:
        """See ``Aggregation``."""
        return ()

    @property
    def num_values(self) -> int:
        """See ``Aggregation``."""
        return 0

    @property
    def is_exact_inside(self) -> bool:
        """See ``Aggregation``: no query goes on with the rows."""
        return False

    @property
    def keeps_rows(self) -> bool:
        """See ``Aggregation``."""
        return True

    def most_rows(self, num_rows: float) -> float:
        """See ``Aggregation``."""
        return num_rows if self.count is None else min(num_rows, self.count)

    def sql(self, names: Mapping[str, str], rows: str) -> str:
        """See ``Aggregation``."""
        by_keys = [
            f"{names[key.column]} {'DESC' if key.descending else 'ASC'} "
            f"NULLS {'FIRST' if key.nulls_first else 'LAST'}"
            for key in self.order
        ]
        sorted_by = {key.column for key in self.order}
        others = dict.fromkeys((*self.before, *self.columns))
        ties = [
            f"{names[name]} ASC NULLS LAST"
            for name in others
            if name in names and name not in sorted_by
        ]
        first = "" if self.count is None else f" LIMIT {self.count}"
        listed = ", ".join(names[name] for name in self.columns)
        return f"SELECT {listed} FROM ({rows}) ORDER BY {', '.join([*by_keys, *ties])}{first}"  # noqa: S608  names of ours

    def result(self, found: pa.Table) -> pa.Table:
        """See ``Aggregation``."""
        import pyarrow as pa

        from exoshuffle.operators.group_by.aggregate import fitted

        columns = [
            fitted(column, field.type, f"column {field.name!r}")
            for column, field in zip(found.columns, self.schema, strict=True)
        ]
        return pa.table(columns, schema=self.schema)
