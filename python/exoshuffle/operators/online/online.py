"""Online aggregation: estimates the groups of the whole input from the splits that have been read.

Source: Exoshuffle §3.6.1. Splits are read in random order, so those read so far are a sample of all; ``estimates``
draws the conclusions from that.

Guarantee: after all splits results are those of ``GroupBy`` and errors are zero.

Why not counts and sums alone: maps and folds merge the rows of different splits. Then the spread between splits, from
which errors are computed, is gone. So a map adds products of counts, sums and the size of the split to its partial
results. It also adds whether a group is the only one of the split. A fold adds all these up.

A *state* is a table with a row per group and its first split. It needs the split since values are chosen (min, max,
first, last) in input order, whatever the order of reading. A value that was chosen from a later split has its own row.
So a state grows with the number of groups, and not with rows or splits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import int64, no_rows, scalar_of
from exoshuffle.operators.group_by.aggregate import GroupBy
from exoshuffle.operators.group_by.columns import Aggregate, PartColumn
from exoshuffle.operators.group_by.functions import FUNCTIONS, PARTS
from exoshuffle.operators.group_by.kinds import Function, Kept
from exoshuffle.operators.online.estimates import (
    SIZE,
    Names,
    Sample,
    mean_error_sql,
    scaled,
    total_error_sql,
)
from exoshuffle.operators.sql.groups import Operands
from exoshuffle.operators.sql.relational import as_table, take

if TYPE_CHECKING:
    import pyarrow as pa

#: Functions whose results are estimates with a bound. The results of others are for the rows read so far.
ESTIMATED = ("count", "sum", "mean")
#: Stands for whether a group is the only one of a split, among the quantities of the group.
_ALONE = "alone in the split"


@dataclass(frozen=True)
class Online:
    """Groups and aggregates with results at any time; made by ``parse_online``.

    Attributes:
        grouping: The grouping of all rows.
    """

    grouping: GroupBy

    @cached_property
    def parts(self) -> GroupBy:
        """The grouping whose parts states have, with the number of values of every sum."""
        sums = [item for item in self.grouping.aggregates if item.function == "sum"]
        counts = [replace(item, function="count", definition=FUNCTIONS["count"]) for item in sums]
        return replace(self.grouping, aggregates=(*self.grouping.aggregates, *counts))

    @cached_property
    def state_schema(self) -> pa.Schema:
        """The schema of states, and of the rows that maps make."""
        import pyarrow as pa

        fields = [pa.field(self._split, pa.int64())]
        fields += [pa.field(name, pa.float64()) for name in self._products.values()]
        return pa.schema([*self.parts.partial_schema, *fields])

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The schema of results: that of the grouping, and ``<name>_error``, a double, for each estimate."""
        import pyarrow as pa

        errors = [pa.field(f"{item.name}_error", pa.float64()) for item in self._estimated]
        return pa.schema([*self.grouping.output_schema, *errors])

    def summary(self, rows: pa.Table | pa.RecordBatchReader, split: int, size: float) -> pa.Table:
        """Returns the state after one split.

        Args:
            rows: All rows of the split.
            split: The split's number in input order.
            size: The split's size, as in ``Sample``.

        Raises:
            InputError: A sum of decimals of more than 38 digits.

        Cost: that of ``GroupBy.partial``, and grouping its result once more.
        """
        import pyarrow as pa

        parts = self.parts.partial(as_table(rows))
        table, splits = self.parts.merged(parts, _repeated(split, parts.num_rows))
        operands = Operands(table, self.grouping.keys)
        numbers = {SIZE: float(size), _ALONE: float(table.num_rows == 1)}
        products = [
            " * ".join(
                f"{numbers[name]!r}::DOUBLE"
                if name in numbers
                else operands.sql("coalesce({value}, 0)::DOUBLE", name)
                for name in factors
            )
            for factors in self._products
        ]
        columns = operands.in_order(operands.each(products)).columns[1:]
        return pa.table([*table.columns, splits, *columns], schema=self.state_schema)

    def merged(self, states: Iterable[pa.Table]) -> pa.Table:
        """Merges several states, of different splits, into one.

        Raises:
            InputError: A sum of more than 38 digits.

        Cost: sorts their rows by split and groups them twice.
        """
        import pyarrow as pa

        rows = self._in_order(pa.concat_tables([no_rows(self.state_schema), *states]))
        parts = rows.select(self.parts.partial_schema.names)
        table, splits = self.parts.merged(parts, rows[self._split])
        operands = Operands(rows, self.grouping.keys)
        sums = [operands.sql("sum({value})", name) for name in self._products.values()]
        added = operands.in_order(operands.grouped(sums))
        # Rows for values from later splits come after the rows for groups.
        zeros = pa.repeat(scalar_of(0.0, pa.float64()), table.num_rows - added.num_rows)
        columns = [
            pa.chunked_array([*added[f"r{index}"].chunks, zeros], pa.float64())
            for index in range(len(sums))
        ]
        return pa.table([*table.columns, splits, *columns], schema=self.state_schema)

    def result(self, state: pa.Table, sample: Sample) -> pa.Table:
        """Estimates the groups of a state after all splits; has ``output_schema``.

        Estimates that do not fit the type of their column are null. So are errors that are not known (``estimates``
        says which) and errors of null values.

        Raises:
            InputError: A sum of the rows read that its type cannot hold.

        Cost: that of ``GroupBy.final``, and grouping once more.
        """
        import pyarrow as pa

        rows = self._in_order(state)
        table = self.grouping.final(rows.select(self.grouping.partial_schema.names))
        columns = dict(zip(table.column_names, table.columns, strict=True))
        if sample.is_all:
            errors = [
                pa.repeat(scalar_of(0.0, pa.float64()), table.num_rows) for _ in self._estimated
            ]
        else:
            errors = self._errors(rows, sample)
            for item in self._estimated:
                if item.function != "mean":
                    columns[item.name] = scaled(columns[item.name], sample.scale)
        return pa.table([*columns.values(), *errors], schema=self.output_schema)

    def _in_order(self, rows: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        # pyarrow sorts stably, so the row of a group stays before the rows for its values from later splits.
        return take(rows, pc.sort_indices(rows[self._split]).cast("int64"))

    def _errors(self, rows: pa.Table, sample: Sample) -> list[pa.Array]:
        """Returns a column of errors for each estimate, groups in order of their first row, as in ``final``."""
        operands = Operands(rows, self.grouping.keys)
        products = [operands.sql("sum({value})", name) for name in self._products.values()]
        sums = {part: operands.sql("sum({value}::DOUBLE)", part) for part in self._all_quantities}
        names = {key: f"r{index}" for index, key in enumerate((*self._products, *sums))}
        grouped = operands.grouped([*products, *sums.values()])
        errors = ", ".join(self._error_sql(item, names) for item in self._estimated)
        if not errors:
            return []
        sql = f"SELECT number, {errors} FROM ({grouped}), ({sample.constants_sql})"  # noqa: S608  names of ours
        return list(operands.in_order(sql).columns[1:])

    def _error_sql(self, item: Aggregate, names: Names) -> str:
        total, count = self._quantities(item)
        if item.function == "mean":
            return mean_error_sql(total, count, names)
        # Without keys there is no group that a split could lack.
        alone = _ALONE if self.grouping.keys else ""
        return total_error_sql(total, count, alone, names)

    @property
    def _estimated(self) -> list[Aggregate]:
        return [item for item in self.grouping.aggregates if item.function in ESTIMATED]

    def _quantities(self, item: Aggregate) -> tuple[str, str]:
        """Returns the parts that an error is computed from: a total, and its number of rows."""
        parts = [self.parts.parts[part] for part in item.parts.values()]
        if item.function == "sum":
            parts.append(self.parts.parts[PartColumn("count", item.column, "")])
        return parts[0], parts[-1]

    @cached_property
    def _all_quantities(self) -> list[str]:
        found = itertools.chain.from_iterable(map(self._quantities, self._estimated))
        return list(dict.fromkeys(found))

    @cached_property
    def _products(self) -> dict[tuple[str, ...], str]:
        """The products that are summed over splits beside the parts: by their factors, the names of the columns."""
        products: dict[tuple[str, ...], None] = {}
        for item in self._estimated:
            total, count = self._quantities(item)
            wanted = [(total, total), (total, SIZE), (SIZE,), (_ALONE,)]
            if item.function == "mean":
                wanted = [(total, total), (total, count), (count, count)]
            products |= dict.fromkeys(wanted)
        return {factors: self._unused(" * ".join(factors)) for factors in products}

    @property
    def _split(self) -> str:
        return self._unused("split")

    def _unused(self, name: str) -> str:
        while name in self.grouping.keys:
            name += "'"
        return name


def parse_online(grouping: GroupBy) -> Online:
    """Returns ``Online`` of a grouping.

    Raises:
        OptionsError: A function whose state grows with the rows or values of a group, or two columns of one name.
    """
    online = Online(grouping)
    names = list(grouping.output_schema.names)
    for item in grouping.aggregates:
        if not _is_bounded(item.definition):
            known = sorted(name for name, function in FUNCTIONS.items() if _is_bounded(function))
            raise OptionsError(
                f"stream() cannot compute {item.function!r} from states of one row per group; it can "
                f"{', '.join(known)}, and to_arrow() can all"
            )
        if f"{item.name}_error" in names:
            raise OptionsError(
                f"stream() adds a column {item.name + '_error'!r}, which there is already; rename it"
            )
    return online


def _is_bounded(function: Function) -> bool:
    parts = function.parts
    return bool(parts) and not any(isinstance(PARTS[part], Kept) for part in parts)


def _repeated(number: int, count: int) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([pa.repeat(int64(number), count)])
