"""Keeps the first row of every key: in each split, and then in each partition of the kept rows.

Guarantee: rows pass unchanged, whatever their types, and in input order. The first row of each key is kept, so the
result does not depend on how the input was split. DuckDB sees only keys (``sql.groups``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError
from exoshuffle.late_dataclasses import dataclass
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
        if table.num_rows > FEW_ROWS:
            return self.final(table) if repeats(table, self.keys) else table
        # Counting the keys of few rows takes as long as finding the first of each.
        rows = first_rows(table, self.keys)
        return take(table, rows) if len(rows) < WORTHWHILE * table.num_rows else table

    def final(self, data: pa.Table | pa.RecordBatchReader) -> pa.Table:
        """Returns the first row of every key of a partition, in input order.

        Cost: beside its input the rows kept, unless that is all. Also 20 bytes per row if few are, and 90 if all are
        (keys of 8 bytes).
        """
        table = as_table(data)
        rows = first_rows(table, self.keys)
        # Numbers ascend, so as many as there are rows are all of them. Taking long texts would copy each twice.
        return table if len(rows) == table.num_rows else take(table, rows)


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
