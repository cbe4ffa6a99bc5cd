"""Keeps the first row of every key: in each split, and then in each partition of the kept rows.

Guarantee: rows pass unchanged, whatever their types, and in input order. The first row of each key is kept, so the
result does not depend on how the input was split. DuckDB, or Arrow for few rows, sees only keys (``sql.groups``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.exact_keys import are_for_arrow
from exoshuffle.operators.sql.groups import (
    FEW_ROWS,
    WORTHWHILE,
    check_keys,
    first_rows,
    repeats,
)
from exoshuffle.operators.sql.relational import as_table, take

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows that are longer on average are few.
LONG_BYTES = 4_000


@dataclass(frozen=True)
class Distinct:
    """Keeps the first row of every key.

    Attributes:
        schema: The schema of the rows, before and after.
        keys: Columns that tell rows apart.
    """

    schema: pa.Schema
    keys: tuple[str, ...]

    def partial(self, data: pa.Table | pa.RecordBatchReader) -> pa.Table:
        """Returns the rows of a split that may be first: one of each key, or all if keys hardly repeat.

        Cost: as ``final``; if keys hardly repeat, only an estimate of that, 10 ns per row. Nothing for fewer rows than
        there are keys.
        """
        table = as_table(data)
        if table.num_rows <= len(self.keys):
            return table  # DuckDB takes longer to plan for a key than to go through a row
        if table.num_rows > FEW_ROWS and not are_for_arrow(table.select(list(self.keys))):
            return self.final(table) if repeats(table, self.keys) else table
        # Counting the keys of few rows takes as long as finding the first of each.
        rows = first_rows(table, self.keys)
        return _kept(table, rows) if len(rows) < WORTHWHILE * table.num_rows else table

    def final(self, data: pa.Table | pa.RecordBatchReader) -> pa.Table:
        """Returns the first row of every key of a partition, in input order.

        Cost: beside its input the rows kept, unless that is all. Also 20 bytes per row if few are, and 90 if all are
        (keys of 8 bytes).
        """
        table = as_table(data)
        rows = first_rows(table, self.keys)
        # Numbers ascend, so as many as there are rows are all of them.
        return table if len(rows) == table.num_rows else _kept(table, rows)


def _kept(table: pa.Table, rows: pa.ChunkedArray) -> pa.Table:
    """Returns rows of a table, whose numbers ascend.

    To take long texts copies them twice. So long rows are parts of the table if they are half of its bytes.
    """
    if table.nbytes < LONG_BYTES * table.num_rows:
        return take(table, rows)
    import pyarrow as pa

    runs: list[range] = []
    for number in rows.to_pylist():
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    kept = pa.concat_tables([table.slice(run.start, len(run)) for run in runs])
    return kept if 2 * kept.nbytes >= table.nbytes else take(table, rows)


def parse_distinct(schema: pa.Schema, subset: Sequence[str] | None = None) -> Distinct:
    """Returns ``Distinct`` for the arguments of ``Dataset.distinct``.

    Args:
        schema: The schema of the rows.
        subset: Columns that tell rows apart; default: all.

    Raises:
        OptionsError: No column, or one twice.
        SchemaError: An unknown column, or one of a type that cannot be compared.
    """
    keys = tuple(schema.names if subset is None else subset)
    if not keys:
        raise OptionsError("distinct needs at least one column to tell rows apart by")
    check_keys(schema, keys)
    return Distinct(schema, keys)
