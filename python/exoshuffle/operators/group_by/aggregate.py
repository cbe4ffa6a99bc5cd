"""Groups and aggregates: a map combines the rows of a split, and a reduce the results of maps for a partition.

Guarantee: the result is that of one ``GROUP BY`` over all rows in input order, however they were split. Exact functions
are exact to the bit for integers, and up to rounding for floats. Keys, and values that are only chosen (min, max,
first, last, top_k, list), come back as they were, whatever their types. Groups of a partition are in order of their
first row; those of one query (``direct``) in order of their keys.

Functions, by the names that users write. Nulls are not counted and not chosen, except by ``list``. A group without
values gives null, except for counts. NaN is greater than all numbers, but ``approx_quantile`` leaves it out.

| Function | Result |
| --- | --- |
| ``count`` | rows; of a column: values that are not null |
| ``count_distinct`` | different values |
| ``approx_count_distinct`` | the same; exact to 1,024, beyond with a standard error of 3.1 % |
| ``sum`` | of integers and booleans int64, of uint64 and durations the same, of decimals 38 digits, of floats double |
| ``mean`` | double |
| ``var``, ``std`` | double, of a sample (n − 1): null for one value, NaN where one is infinite |
| ``min``, ``max``, ``first``, ``last`` | a value; first and last in input order |
| ``corr``, ``covar_samp``, ``covar_pop`` (y, x) | double, of the rows that have both; NaN where one is infinite |
| ``regr_slope``, ``regr_intercept`` (y, x) | double: the line by which x tells y best |
| ``any``, ``all`` | of booleans |
| ``top_k`` (k) | list of the k largest, largest first |
| ``list`` | list of all values in input order, nulls too |
| ``median``, ``quantile`` (fraction) | double, interpolated |
| ``approx_quantile`` (fraction) | double, of finite values, in memory that does not grow with the group (t-digest) |

Maps combine rows of equal keys, unless a function needs them all: ``list``, ``median`` and the quantiles. Then the
needed columns travel as they are (``Uncombined``). They also do if that is less, which is measured before work starts.
If one key then has so many rows that its partition is too large, the rows are combined there. Even a map that combines
does not combine a split whose keys hardly repeat; its rows travel with the schema of combined rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from exoshuffle.errors import InputError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import int64
from exoshuffle.operators.exact_keys import are_for_arrow
from exoshuffle.operators.group_by import by_arrow
from exoshuffle.operators.group_by.columns import Aggregate, PartColumn
from exoshuffle.operators.group_by.costs import combine_row_bytes
from exoshuffle.operators.group_by.functions import part_type, result_type
from exoshuffle.operators.group_by.kinds import Kept, Picked
from exoshuffle.operators.group_by.pairs import PAIR_FUNCTIONS
from exoshuffle.operators.kernels import cast
from exoshuffle.operators.sql.groups import (
    Operands,
    is_one_group,
    list_of,
    lists_of,
    repeats,
)
from exoshuffle.operators.sql.relational import as_table, take, take_column

if TYPE_CHECKING:
    import pyarrow as pa

_Item = TypeVar("_Item")

#: Functions that remember every value of a group, or a hash of it.
_SETS = ("count_distinct", "approx_count_distinct")
#: Columns that one query computes. DuckDB has vectors for each: 10,000 sums of seven groups found no room in 777 MB.
#: A plan grows faster than they: 1,000 of ``describe`` took 230 MB, which DuckDB does not count, and 1.5 s of CPU.
#: 250 took 20 MB and 0.16 s.
MOST_AT_ONCE = 256
#: Functions whose SQL is as long as that of so many others. 600 of ``std``, 128 at a time, had a program at 262 MB, and
#: 32 at a time at 181.
_LONG = {"std": 8, "var": 8, **dict.fromkeys(PAIR_FUNCTIONS, 32)}


@dataclass(frozen=True)
class GroupBy:
    """Groups and aggregates; made by ``parsing.parse_aggregates``.

    Attributes:
        schema: The schema of the input.
        keys: Columns to group by. Without any, all rows are one group, which exists even without rows.
        aggregates: Columns of the result beside the keys.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that are needed."""
        used = (aggregate.column for aggregate in self.aggregates if aggregate.column is not None)
        return tuple(dict.fromkeys((*self.keys, *used)))

    @property
    def combines(self) -> bool:
        """Whether maps can combine rows."""
        return all(aggregate.definition.parts for aggregate in self.aggregates)

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The schema of the rows that ``partial`` makes and ``final`` takes."""
        import pyarrow as pa

        if not self.combines:
            return pa.schema([self.schema.field(column) for column in self.columns])
        parts = [
            pa.field(name, part_type(part.kind.type, self._type(part.column)))
            for part, name in self.parts.items()
        ]
        return pa.schema([*self._key_fields, *parts])

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The schema of the result: the keys as they were, then the aggregates."""
        import pyarrow as pa

        results = [
            pa.field(item.name, result_type(item.definition.type, self._type(item.column)))
            for item in self.aggregates
        ]
        return pa.schema([*self._key_fields, *results])

    def partial(self, rows: pa.Table | pa.RecordBatchReader) -> pa.Table:
        """Returns the rows that have to travel for a split, with ``partial_schema``.

        Raises:
            InputError: A sum of decimals of more than 38 digits.

        Cost: holds the needed columns of the split. Combining takes another 20 to 50 bytes per row, up to 150 for
        distinct values and 230 for their sketch. Measured with keys and values of 8 bytes each.
        """
        table = as_table(rows).select(list(self.columns))
        if not self.combines:
            return table
        if self.combining_pays(table):
            combined = self.combined(table)
            # Some parts take several rows per key, so there can be more rows than before.
            if combined.num_rows < table.num_rows:
                return combined
        return self.parts_of(table, self._alone(table, self.parts))

    def merged(self, rows: pa.Table, splits: pa.ChunkedArray) -> tuple[pa.Table, pa.ChunkedArray]:
        """Makes fewer rows that mean the same, of rows that ``partial`` or this made; not for parts that are ``Kept``.

        Args:
            rows: In map order.
            splits: The number of the split of each row, ascending.

        Returns:
            One row for each key, keys in order of their first row. Then rows for values that were chosen from a later
            split than the first of their key. And the split of each row, by which they can be put in order again.

        Raises:
            InputError: A sum of more than 38 digits.

        Cost: a hash table of the keys, and the rows of the result.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        operands = Operands(rows, self.keys)
        query = operands.grouped([self.merge_sql(part, operands) for part in self.parts])
        results = operands.in_order(query)
        first = results["number"]
        columns = {part: results[f"r{index}"] for index, part in enumerate(self.parts)}
        later = []
        for part, found in columns.items():
            if isinstance(part.kind, Picked):
                is_same = pc.equal(splits.take(found), splits.take(first))
                kept = pc.if_else(is_same, found, int64(None))
                columns[part] = take_column(rows[self.parts[part]], kept)
                later.append((part, found.filter(pc.invert(is_same))))
        pieces = [self.parts_table(operands.keys_of(results), columns, len(first))]
        for part, found in later:
            taken = take(rows, found)
            pieces.append(self.parts_of(taken, {part: taken[self.parts[part]]}))
        numbers = [
            chunk for found in (first, *(found for _, found in later)) for chunk in found.chunks
        ]
        return pa.concat_tables(pieces), splits.take(pa.chunked_array(numbers, pa.int64()))

    def final(self, rows: pa.Table | pa.RecordBatchReader) -> pa.Table:
        """Returns the groups of a partition, from all its rows of ``partial`` in map order; has ``output_schema``.

        Raises:
            InputError: A sum that its type cannot hold.

        Cost: beside its input 20 bytes per row, and 150 to 300 per group (550 for ``approx_quantile``), among them the
        result. ``list`` and ``count_distinct`` take 90 per row. Measured with keys and values of 8 bytes each.
        """
        table = as_table(rows)
        portions = _portions(self.aggregates, lambda item: _LONG.get(item.function, 1))
        if len(portions) > 1:
            return self._final_in_turn(table, portions)
        if are_for_arrow(table.select(list(self.keys))):
            return self.portion(table)
        return self._by_duckdb(table)

    def _by_duckdb(self, table: pa.Table) -> pa.Table:
        """Does what ``final`` does, by one query."""
        import pyarrow as pa

        operands = Operands(table, self.keys)
        lists = [item for item in self.aggregates if item.function == "list"]
        if not (lists and table.num_rows and is_one_group(operands)):
            lists = []  # DuckDB makes lists of row numbers
        results = operands.in_order(self._final_sql(operands, lists))
        found = [
            list_of(table[aggregate.column])
            if aggregate in lists
            else self._result(aggregate, table, results[f"r{index}"])
            for index, aggregate in enumerate(self.aggregates)
        ]
        return pa.table([*operands.keys_of(results), *found], schema=self.output_schema)

    def _final_in_turn(self, table: pa.Table, portions: Iterable[Sequence[Aggregate]]) -> pa.Table:
        """Does what ``final`` does, some aggregates after others; groups are in the same order each time."""
        import pyarrow as pa

        kind = type(self) if self.combines else Uncombined
        made = [kind(self.schema, self.keys, tuple(some)).portion(table) for some in portions]
        keys = made[0].columns[: len(self.keys)]
        results = [column for part in made for column in part.columns[len(self.keys) :]]
        return pa.table([*keys, *results], schema=self.output_schema)

    def portion(self, table: pa.Table) -> pa.Table:
        """Does what ``final`` does for aggregates that one query computes, by Arrow where that gives the same."""
        made = self._by_arrow(table)
        return self._by_duckdb(table) if made is None else made

    def _by_arrow(self, table: pa.Table) -> pa.Table | None:
        """Does what ``final`` does, by Arrow; None where its result could differ."""
        import pyarrow as pa

        made = None if self.combines else by_arrow.grouped(table, self.keys, self.aggregates)
        if made is None:
            return None
        what = [f"{item.function} of column {item.column!r}" for item in self.aggregates]
        kinds = self.output_schema.types[len(self.keys) :]
        results = map(fitted, made.columns[len(self.keys) :], kinds, what)
        return pa.table([*made.columns[: len(self.keys)], *results], schema=self.output_schema)

    @property
    def row_cost(self) -> int:
        """Bytes that ``partial`` takes for a row beside it, while rows are combined."""
        return combine_row_bytes(self.aggregates, MOST_AT_ONCE)

    @property
    def group_cost(self) -> tuple[int, int]:
        """Memory that ``final`` takes for rows of one group beside them: a share of them in percent, and bytes per row.

        Measured with 1.5 million rows of a key and a value of 8 bytes. They took 25 bytes per row for ``median``, 107
        for ``list``, 66 for ``count_distinct``, 105 for ``approx_count_distinct``. With texts of 200 bytes, ``list``
        takes another 200 %: its result is a second copy, which goes on to a writer or a block.
        """
        lists = [item for item in self.aggregates if item.definition.result == "rows"]
        sets = [item for item in self.aggregates if item.function in _SETS]
        return (300 if lists else 50), 10 + 20 * len(self.aggregates) + 80 * len({*lists, *sets})

    @property
    def sole_group_cost(self) -> tuple[int, int]:
        """``group_cost`` if there is no other group, so that a list is the column as it is: joined, and written.

        Measured with 90,000 texts of 1 kB within 700 MB: 2.9 times their size with the rows.
        """
        lists = [item.column for item in self.aggregates if item.function == "list"]
        others = [item for item in self.aggregates if item.function != "list"]
        if not lists:
            return self.group_cost
        copies = 200 * max(map(lists.count, lists))
        if not others:
            return copies, 10
        percent, row_bytes = replace(self, aggregates=tuple(others)).group_cost
        return copies + percent, row_bytes

    @cached_property
    def parts(self) -> dict[PartColumn, str]:
        """The parts of all aggregates, each once, and the names of their columns."""
        names: dict[PartColumn, str] = {}
        for part in (part for aggregate in self.aggregates for part in aggregate.parts.values()):
            about = ", ".join(filter(None, (part.column, part.parameter)))
            name = f"{part.part}({about})"
            while name in self.keys:
                name += "'"
            names[part] = name
        return names

    @property
    def _key_fields(self) -> list[pa.Field]:
        return [self.schema.field(key) for key in self.keys]

    def _type(self, column: str | None) -> pa.DataType:
        import pyarrow as pa

        return pa.null() if column is None else self.schema.field(column).type

    def combining_pays(self, table: pa.Table) -> bool:
        """Returns whether keys repeat so often that ``partial`` combines these rows. Cost: 10 to 20 ns per row."""
        pairs = [
            dict.fromkeys((*self.keys, part.column))
            for part in self.parts
            if part.column is not None and isinstance(part.kind, Kept) and part.kind.is_per_value
        ]
        return all(repeats(table, tuple(columns)) for columns in (self.keys, *pairs))

    def combined(self, table: pa.Table) -> pa.Table:
        """Does what ``partial`` does, for rows in which one key may have many, however seldom others repeat.

        Returns:
            A row per key, for the parts that have one; then, for each other part, the rows that matter. If keys do not
            repeat, these can be more rows than before.

        Raises:
            InputError: A sum of decimals of more than 38 digits.

        Cost: that of ``partial`` when it combines.
        """
        import pyarrow as pa

        operands = Operands(table, self.keys)
        pieces = [self._folded(table)]
        for part in self.parts:
            if isinstance(part.kind, Kept):
                sql = operands.sql(part.kind.keep, part.column, part.parameter)
                rows = take(table, operands.computed(sql)["number"])
                pieces.append(self.parts_of(rows, self._alone(rows, [part])))
        return pa.concat_tables(pieces)

    def _folded(self, table: pa.Table) -> pa.Table:
        columns: dict[PartColumn, pa.Array] = {}
        folds = [(part, part.kind.fold) for part in self.parts if not isinstance(part.kind, Kept)]
        # Without any part there are groups all the same.
        for some in _portions(folds):
            operands = Operands(table, self.keys)
            query = operands.grouped([operands.sql(fold, part.column) for part, fold in some])
            results = operands.in_order(query)
            columns |= {part: results[f"r{index}"] for index, (part, _) in enumerate(some)}
        for part, numbers in columns.items():
            if isinstance(part.kind, Picked):
                columns[part] = take_column(table[part.column], numbers)
        return self.parts_table(operands.keys_of(results), columns, results.num_rows)

    def _alone(self, rows: pa.Table, parts: Iterable[PartColumn]) -> dict[PartColumn, pa.Array]:
        """Returns these parts for every single row."""
        operands = Operands(rows, self.keys)
        columns = {part: rows[part.column] for part in parts if not part.kind.row}
        made = [part for part in parts if part.kind.row]
        if made:
            results = operands.computed(
                operands.each([operands.sql(part.kind.row, part.column) for part in made])
            )
            columns |= {part: results[f"r{index}"] for index, part in enumerate(made)}
        return columns

    def parts_of(self, rows: pa.Table, columns: Mapping[PartColumn, pa.Array]) -> pa.Table:
        """Returns these parts for every row, beside its keys."""
        return self.parts_table([rows[key] for key in self.keys], columns, rows.num_rows)

    def parts_table(
        self, keys: list[pa.ChunkedArray], columns: Mapping[PartColumn, pa.Array], num_rows: int
    ) -> pa.Table:
        """Returns keys and parts with ``partial_schema``; parts that are not given are null."""
        import pyarrow as pa

        arrays = list(keys)
        for part, name in self.parts.items():
            kind = self.partial_schema.field(name).type
            if part in columns:
                arrays.append(fitted(columns[part], kind, f"{part.part} of column {part.column!r}"))
            else:
                # pyarrow makes no array of some intervals. Queries are tried with no rows of them.
                arrays.append(pa.nulls(num_rows, kind) if num_rows else pa.chunked_array([], kind))
        return pa.table(arrays, schema=self.partial_schema)

    def _final_sql(self, operands: Operands, left_out: Sequence[Aggregate]) -> str:
        if not self.combines:
            return operands.grouped(
                "NULL" if item in left_out else item.direct(operands, self.aggregates)
                for item in self.aggregates
            )
        inner = [self.merge_sql(part, operands) for part in self.parts]
        merged = {part: f"r{index}" for index, part in enumerate(self.parts)}
        outer = [item.finish(merged) for item in self.aggregates]
        results = "".join(f", {sql} AS r{index}" for index, sql in enumerate(outer))
        keys = "".join(f", {name}" for name in operands.carried.values())
        grouped = operands.grouped(inner)
        return f"SELECT number{keys}{results} FROM ({grouped})"  # noqa: S608  only names of ours

    def merge_sql(self, part: PartColumn, operands: Operands) -> str:
        """Returns SQL that computes a part of a group from rows of parts."""
        siblings = self._siblings[part.column]
        return operands.sql(part.kind.merge, self.parts[part], part.parameter, siblings)

    @cached_property
    def _siblings(self) -> Mapping[str | None, Mapping[str, str]]:
        """The names of the parts of each column."""
        names: dict[str | None, dict[str, str]] = {}
        for part, name in self.parts.items():
            names.setdefault(part.column, {})[part.part] = name
        return names

    def _result(self, item: Aggregate, table: pa.Table, results: pa.ChunkedArray) -> pa.Array:
        function = item.definition
        if function.result == "value":
            kind = self.output_schema.field(item.name).type
            return fitted(results, kind, f"{item.function} of column {item.column!r}")
        source = item.column
        if self.combines:
            (source,) = (self.parts[part] for part in item.parts.values())
        chosen = lists_of if function.result == "rows" else take_column
        return chosen(table[source], results)


class Uncombined(GroupBy):
    """The same groups, but rows travel as they are.

    A row of a key and a number of 8 bytes each takes 17 bytes. As parts of a count, a sum and a minimum it takes 41.
    """

    @property
    def combines(self) -> bool:
        """See ``GroupBy``."""
        return False


def _portions(
    items: Sequence[_Item], length: Callable[[_Item], int] = lambda _: 1
) -> list[Sequence[_Item]]:
    """Returns what one query computes at a time; one portion at least."""
    sums = itertools.accumulate(map(length, items))
    places = [(total - 1) // MOST_AT_ONCE for total in sums]
    parts = itertools.groupby(zip(places, items, strict=True), key=itemgetter(0))
    return [[item for _, item in part] for _, part in parts] or [items]


def fitted(column: pa.ChunkedArray, kind: pa.DataType, what: str) -> pa.ChunkedArray:
    """Returns the column as this type; ``what`` it is, for messages.

    Raises:
        InputError: A value that the type cannot hold.
    """
    import pyarrow as pa

    try:
        if pa.types.is_duration(kind):
            column = cast(column, pa.int64())
        column = cast(column, kind)
        if pa.types.is_decimal(kind):
            # DuckDB 1.5 lets a sum have one digit more than its type.
            column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{what} does not fit {kind}; cast the column to double first: {error}"
        ) from None
    return column
