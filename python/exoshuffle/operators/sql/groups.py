"""Groups of rows by DuckDB: which rows are the first of their group, and groups one after another.

Guarantee: queries see keys and numbers of rows. A caller gets rows of the table itself, so every type passes
unchanged. Keys are equal as in DuckDB's GROUP BY: null is a key, NaN equals NaN, −0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError, SchemaError
from exoshuffle.futures import Value
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of, one_array, scalar_of
from exoshuffle.operators.batches import picking
from exoshuffle.operators.dictionaries import without_null_values
from exoshuffle.operators.exact_keys import are_for_arrow
from exoshuffle.operators.kernels import call, grouped
from exoshuffle.operators.sql.databases import has_unchecked_sums
from exoshuffle.operators.sql.relational import (
    as_python,
    by_number,
    computed,
    is_common,
    row_numbers,
    storable,
    take,
    take_column,
)
from exoshuffle.operators.sql.types import unknown_column

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows are combined in maps if groups are fewer than this share of them. Grouping 2 million rows of 1.9 million groups
#: took 0.2 s and saved 5 % of the bytes; the estimate took 0.02 s.
WORTHWHILE = 0.75

#: Up to so many rows, keys are counted: of 91 keys in 150 rows, DuckDB 1.5 estimates 66 to 131.
FEW_ROWS = 4096


#: A query groups by so many keys at most. DuckDB has vectors for each, several times over. To group 1,500 rows by
#: 10,000 keys took 1.36 GB within 1 GB, or found no memory.
MOST_KEYS = 256
#: The column of the first row that is equal so far.
_FIRST = "\0first"


class Operands:
    """The columns of a table under names that SQL cannot misread, each made when an expression first mentions it.

    Templates mention these words, and by others the values of other columns:

    * ``{value}``: a column's values
    * ``{valid}``: whether they are not null, known for every type
    * ``{sum}``: their sum
    * ``{number}``: the number of the row
    * ``{keys}``: the keys, each with a comma
    * ``{group}``: the GROUP BY clause
    * ``{parameter}``: the argument that is no column

    Attributes:
        table: The rows.
        keys: Columns to group by.
    """

    def __init__(self, table: pa.Table, keys: Sequence[str]) -> None:
        self.table = table
        self.keys = tuple(keys)
        self._columns: dict[str, pa.Array] = {"number": row_numbers(table.num_rows)}

    def sql(
        self,
        template: str,
        column: str | None = None,
        parameter: str = "",
        others: Mapping[str, str] | None = None,
    ) -> str:
        """Fills in a template about a column; ``others`` maps words of the template to other columns."""
        words: dict[str, Callable[[], str]] = {
            "number": lambda: "number",
            "parameter": lambda: parameter,
            "keys": lambda: "".join(f"{self._value(key)}, " for key in self.keys),
            "group": self._group,
        }
        if column is not None:
            words |= {
                "value": lambda: self._value(column),
                "valid": lambda: self._valid(column),
                "sum": lambda: self._sum(column),
            }
        for word, other in (others or {}).items():
            words[word] = lambda other=other: self._value(other)  # type: ignore[misc]
        return template.format_map(_Words(words))

    def grouped(self, expressions: Iterable[str]) -> str:
        """Returns a query: each group's first row as ``number``, ``carried`` keys, aggregates as ``r0``, ``r1`` …."""
        keys = "".join(f", {self._value(key)} AS {name}" for key, name in self.carried.items())
        return f"SELECT min(number) AS number{keys}{_listed(expressions)} FROM t {self._group()}"  # noqa: S608  made here

    @cached_property
    def carried(self) -> dict[str, str]:
        """The keys that queries return, and under which names: integers come back as they were.

        Taking them from the table by row number would first join the chunks of a column. That way, grouping 40 million
        rows by 25 million integers touched a tenth more new memory.
        """
        import pyarrow as pa

        kinds = (self.table.schema.field(key).type for key in self.keys)
        are_integers = map(pa.types.is_integer, kinds)
        return {
            key: f"k{index}"
            for index, (key, is_integer) in enumerate(zip(self.keys, are_integers, strict=True))
            if is_integer
        }

    def keys_of(self, groups: pa.Table) -> list[pa.ChunkedArray]:
        """Returns the keys of the result of ``grouped``: the carried ones, and others from the first rows."""
        return [
            groups[self.carried[key]]
            if key in self.carried
            else take_column(self.table[key], groups["number"])
            for key in self.keys
        ]

    def each(self, expressions: Iterable[str], of_key: Mapping[str, str] | None = None) -> str:
        """Returns a query: every row's number as ``number``, and expressions as ``r0``, ``r1`` ….

        Args:
            expressions: They may name aggregates.
            of_key: The names of aggregates, and their SQL. They are of the rows with the key of the row.
        """
        joined = self._joined(of_key) if of_key else ""
        return f"SELECT number{_listed(expressions)} FROM t{joined}"  # noqa: S608  made here

    def _joined(self, aggregates: Mapping[str, str]) -> str:
        keys = {f"g{index}": self._value(key) for index, key in enumerate(self.keys)}
        made = ", ".join(f"{sql} AS {name}" for name, sql in (keys | dict(aggregates)).items())
        equal = " AND ".join(f"{value} IS NOT DISTINCT FROM {name}" for name, value in keys.items())
        grouped = f"(SELECT {made} FROM t {self._group()})"  # noqa: S608  made here
        return f" LEFT JOIN {grouped} ON {equal or 'true'}"

    def computed(self, sql: str) -> pa.Table:
        """Runs a query over these columns; it calls them ``t``."""
        import pyarrow as pa

        return computed(sql, t=pa.table(self._columns))

    def in_order(self, sql: str) -> pa.Table:
        """Runs a query like ``computed``; results are in the order of their column ``number``."""
        return by_number(self.computed(sql), "number")

    def _value(self, column: str) -> str:
        name = f"c{self.table.schema.get_field_index(column)}"
        if name not in self._columns:
            values = self.table.column(column)
            if not is_common(values.type):
                values = storable(self.table.select([column])).column(0)
            self._columns[name] = values
        return name

    def _valid(self, column: str) -> str:
        name = f"v{self.table.schema.get_field_index(column)}"
        if name not in self._columns:
            self._columns[name] = call("is_valid", self.table[column])
        return name

    def _sum(self, column: str) -> str:
        value = self._value(column)
        if sums_fit(self.table[column]) and has_unchecked_sums():
            return f"sum_no_overflow({value})::BIGINT"
        return f"sum({value})"

    def _group(self) -> str:
        return f"GROUP BY {', '.join(map(self._value, self.keys))}" if self.keys else ""


def sums_fit(column: pa.ChunkedArray, limit: int = 2**63) -> bool:
    """Returns whether these are signed integers of which no sum can reach a limit, that of 64 bits.

    The check costs 0.3 ns a row. Sums that check for it themselves take twice as long in DuckDB, and 16 bytes each.
    """
    import pyarrow as pa

    if not pa.types.is_signed_integer(column.type):
        return False
    bounds = call("min_max", column).as_py()
    largest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
    return bool(largest * len(column) < limit)


def _listed(expressions: Iterable[str]) -> str:
    return "".join(f", {sql} AS r{index}" for index, sql in enumerate(expressions))


@dataclass(frozen=True)
class _Words:
    """The words of ``str.format_map``, looked up so that only mentioned columns are made."""

    meanings: Mapping[str, Callable[[], str]]

    def __getitem__(self, word: str) -> str:
        return self.meanings[word]()


def check_column(schema: pa.Schema, column: str) -> None:
    """Raises ``SchemaError`` unless there is exactly one column of this name."""
    if schema.get_field_index(column) < 0:
        raise SchemaError(unknown_column(column, schema))


def check_keys(schema: pa.Schema, keys: Sequence[str]) -> None:
    """Raises unless these columns can be grouped by.

    Raises:
        OptionsError: A key twice.
        SchemaError: An unknown column, or one of a type that cannot be compared.
    """
    import pyarrow as pa

    seen: set[str] = set()
    for key in keys:
        check_column(schema, key)
        if key in seen:
            raise OptionsError(f"key {key!r} is named twice; name it once")
        seen.add(key)
        if is_common(schema.field(key).type):
            continue
        try:
            first_rows(pa.Table.from_batches([], pa.schema([schema.field(key)])), [key])
        except SchemaError as error:
            kind = schema.field(key).type
            raise SchemaError(f"column {key!r} is {kind}, which cannot be a key: {error}") from None


def first_rows(table: pa.Table, keys: Sequence[str]) -> pa.ChunkedArray:
    """Returns the number of the first row of every group, ascending; of few rows by Arrow, where keys are exact."""
    if are_for_arrow(table.select(keys)):
        return _first_rows_by_arrow(table, keys)
    if len(keys) > MOST_KEYS:
        return _first_rows_of_many(table, keys)
    operands = Operands(table, keys)
    return operands.in_order(operands.sql("SELECT min({number}) AS number FROM t {group}"))[
        "number"
    ]


def _first_rows_by_arrow(table: pa.Table, keys: Sequence[str]) -> pa.ChunkedArray:
    import pyarrow as pa

    columns = {f"k{index}": table[key] for index, key in enumerate(keys)}
    rows = pa.table({**columns, "number": row_numbers(table.num_rows)})
    found = grouped(rows, list(columns), [("number", "min")])
    return by_number(found, "number_min")["number_min"]


def _first_rows_of_many(table: pa.Table, keys: Sequence[str]) -> pa.ChunkedArray:
    """Does as ``first_rows``, some keys at a time: rows are equal if they were so far, and are by the next keys."""
    numbers = row_numbers(table.num_rows)
    # Of each row, the number of the first row that is equal so far.
    firsts = call("subtract", numbers, numbers)
    for start in range(0, len(keys), MOST_KEYS):
        some = keys[start : start + MOST_KEYS]
        operands = Operands(table.select(some).append_column(_FIRST, firsts), (*some, _FIRST))
        sql = "SELECT min({number}) AS number, list({number}) AS members FROM t {group}"
        groups = operands.in_order(operands.sql(sql))
        members = _flattened(groups["members"])
        of_each = call("list_parent_indices", groups["members"])
        firsts = groups["number"].take(of_each).take(call("sort_indices", members))
        if len(groups) == table.num_rows:
            break
    return groups["number"]


def repeats(table: pa.Table, keys: Sequence[str]) -> bool:
    """Returns whether keys repeat so often that combining rows of equal keys pays.

    Cost: a hash per row and a sketch, 10 ns per row; the estimate is within about 10 %. Few rows are counted.
    """
    if not keys or not table.num_rows:
        return True
    operands = Operands(table, keys)
    count = "count(DISTINCT " if table.num_rows <= FEW_ROWS else "approx_count_distinct("
    # The constant follows the keys because of their comma.
    sql = operands.sql(f"SELECT {count}hash({{keys}}0)) AS estimate FROM t")  # noqa: S608  made here
    estimate = operands.computed(sql)["estimate"][0].as_py()
    return bool(estimate < WORTHWHILE * table.num_rows)


def iter_groups(
    table: pa.Table, keys: Sequence[str]
) -> Iterator[tuple[tuple[Value, ...], pa.Table]]:
    """Yields groups in order of their first row: the values of their keys (``as_python``), and their rows in order.

    Without keys all rows are one group. A table without rows has no groups.

    Cost: a second copy of the table and 60 bytes per row, 180 if every row is a group; 6 µs per group. If all rows are
    one group, it is the table itself, in as many pieces as it came.
    """
    import pyarrow.compute as pc

    if not table.num_rows:
        return
    operands = Operands(table, keys)
    if is_one_group(operands):
        yield tuple(as_python(table[key][0]) for key in keys), table
        return
    members = operands.grouped(["list_sort(list(number))"])
    groups = operands.in_order(members)
    names = dict(zip(keys, operands.keys_of(groups), strict=True))
    rows = take(table, _flattened(groups["r0"]))
    lengths = pc.list_value_length(groups["r0"]).to_pylist()
    # The rows as they came would be a second copy for as long as groups are taken.
    del table, operands, members, groups
    start = 0
    for index, length in enumerate(lengths):
        yield tuple(as_python(names[key][index]) for key in keys), rows.slice(start, length)
        start += length


def is_one_group(operands: Operands) -> bool:
    """Returns whether all rows (at least one) have one key; looks at the others only if the first and last agree."""
    table, keys = operands.table, list(operands.keys)
    if not table.slice(0, 1).select(keys).equals(table.slice(table.num_rows - 1).select(keys)):
        return False
    sql = operands.sql("SELECT count(*) AS n FROM (SELECT 1 FROM t {group} LIMIT 2)")
    return not keys or table.num_rows == 1 or operands.computed(sql)["n"][0].as_py() == 1


def lists_of(column: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.Array:
    """Returns lists of values of a column, from lists of row numbers; null for null.

    Raises:
        InputError, SchemaError: See ``batches.picking``.

    Cost: a copy of the values; strings and binary of more than 2 GB in all do not fit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = one_array(take_column(column, _flattened(numbers)))
    lengths = pc.list_value_length(numbers)
    # A zero of another type is converted, for which Arrow looks for pandas.
    lengths = one_array(pc.fill_null(lengths, scalar_of(0, lengths.type)))
    offsets = pa.concat_arrays([array_of([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, values, mask=one_array(numbers.is_null()))


def list_of(column: pa.ChunkedArray) -> pa.Array:
    """Returns all values of a column as one list. Raises, and costs, as ``lists_of``."""
    import pyarrow as pa

    with picking([column.type]):
        values = one_array(without_null_values(column))
    return pa.ListArray.from_arrays(array_of([0, len(column)], pa.int32()), values)


def _flattened(lists: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([chunk.flatten() for chunk in lists.chunks], pa.int64())
