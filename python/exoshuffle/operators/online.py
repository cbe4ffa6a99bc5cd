"""Online aggregation: what the groups of the whole input are likely to be, from those splits that have been read.

Source: Exoshuffle §3.6.1; Hellerstein, Haas and Wang, "Online Aggregation" (SIGMOD 1997). Splits are read in random
order, so that the first n of N are a simple random sample of clusters, without replacement. Let c_i and s_i be count
and sum of a group in split i (0 where the split has none of it), C and S their totals over the n splits, and f = n/N.
(Cochran, "Sampling Techniques", 3rd edition: chapter 2 for totals, chapter 6 for ratios, chapter 9 for clusters.)

    total   N/n · S,   with variance  N² · (1 − f)/n · (Σ s_i² − S²/n) / (n − 1);   counts alike
    mean    R = S/C,   with variance  (1 − f) · n/C² · (Σ s_i² − 2R · Σ c_i·s_i + R² · Σ c_i²) / (n − 1)
    error   Student's t for 95 % and n − 1 degrees of freedom, times the root of the variance

Guarantee: after all splits results are those of ``GroupBy`` and errors are zero (the factor 1 − f). Before, the truth
is within the error in about 95 % of cases, for a group of which many splits have some rows. The bound says less of a
rare group (which is seen late, and then too large), of a sum that few values make up, and of an input of which few
splits have most rows. Squares are summed as doubles, so that errors below 1e-8 of the value are noise.

Why not counts and sums alone: maps and folds merge what comes from different splits, after which the spread between
splits is gone. So a map adds these products to its partial results, and a fold adds them up.

A *state* is a table: a row per group, with its first split, since values are chosen (min, max, first, last) in input
order, whatever the order of reading. A value that was chosen from a later split has a row of its own. So a state grows
with the number of groups, and not with rows or splits.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import OptionsError, ShuffleCheckError
from exoshuffle.operators.aggregate import GroupBy
from exoshuffle.operators.aggregate_columns import Aggregate
from exoshuffle.operators.aggregate_functions import FUNCTIONS, PARTS, Kept
from exoshuffle.operators.aggregate_rows import Operands
from exoshuffle.operators.checks import opened, placed
from exoshuffle.operators.keys import SortKey
from exoshuffle.operators.order import ByKeys, by_hash, round_robin
from exoshuffle.operators.relational import as_table, storable, take
from exoshuffle.operators.shuffles import COMBINE_PERCENT, Shuffle, Side, Whole, rows_config
from exoshuffle.operators.table import Gathered, TableTasks, as_reader, as_rows, own_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.futures.options import Executor

#: Functions whose results are estimates with a bound. The others are of what has been read so far.
ESTIMATED = ("count", "sum", "mean")

#: In the schema of a state: how many maps it has the output of, so that a round that is lost is missed.
_NUM_MAPS = b"num_maps"

#: Of the normal distribution: 95 % is within so many standard deviations.
_Z = 1.959963984540054
#: Student's t for 95 % and 1 or 2 degrees of freedom; for more a series is exact to 0.1 %.
_STUDENT = {1: 12.706204736, 2: 4.302652730}


@dataclass(frozen=True)
class Sample:
    """How much of the input has been read.

    Attributes:
        num_seen: Splits that were read.
        num_splits: All of them.
    """

    num_seen: int
    num_splits: int

    @property
    def is_all(self) -> bool:
        """Whether nothing is left."""
        return self.num_seen == self.num_splits

    @property
    def scale(self) -> float:
        """N/n, by which totals of a sample are too small."""
        return 1.0 if self.is_all else self.num_splits / self.num_seen

    @property
    def factor(self) -> float | None:
        """t² · (1 − f) / (n − 1), which both squares of errors have; None after one split, which has no spread."""
        if self.num_seen < 2:
            return None
        degrees = self.num_seen - 1
        return student(degrees) ** 2 * (1 - self.num_seen / self.num_splits) / degrees


@dataclass(frozen=True)
class Online:
    """Groups and aggregates that can be asked for at any time; made by ``parse_online``.

    Attributes:
        grouping: Of all rows.
    """

    grouping: GroupBy

    @cached_property
    def state_schema(self) -> pa.Schema:
        """Of states, and of what maps make."""
        import pyarrow as pa

        fields = [pa.field(self._split, pa.int64())]
        fields += [pa.field(name, pa.float64()) for name in self._products.values()]
        return pa.schema([*self.grouping.partial_schema, *fields])

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Of results: those of the grouping, and ``<name>_error``, a double, for each that is an estimate."""
        import pyarrow as pa

        errors = [pa.field(f"{item.name}_error", pa.float64()) for item in self._estimated]
        return pa.schema([*self.grouping.output_schema, *errors])

    def summary(self, rows: pa.Table | pa.RecordBatchReader, split: int) -> pa.Table:
        """The state after one split.

        Args:
            rows: All of the split.
            split: Its number in input order.

        Raises:
            InputError: A sum of decimals of more than 38 digits.

        Cost: that of ``GroupBy.partial``, and grouping what it made once more.
        """
        import pyarrow as pa

        parts = self.grouping.partial(as_table(rows))
        table, splits = self.grouping.merged(parts, _repeated(split, parts.num_rows))
        operands = Operands(table, self.grouping.keys)
        products = [
            " * ".join(operands.sql("coalesce({value}, 0)::DOUBLE", name) for name in pair)
            for pair in self._products
        ]
        columns = operands.in_order(operands.each(products)).columns[1:]
        return pa.table([*table.columns, splits, *columns], schema=self.state_schema)

    def merged(self, states: Iterable[pa.Table]) -> pa.Table:
        """One state of several, which are of different splits.

        Raises:
            InputError: A sum of more than 38 digits.

        Cost: sorts their rows by split and groups them twice.
        """
        import pyarrow as pa

        rows = self._in_order(pa.concat_tables([self.state_schema.empty_table(), *states]))
        parts = rows.select(self.grouping.partial_schema.names)
        table, splits = self.grouping.merged(parts, rows[self._split])
        operands = Operands(rows, self.grouping.keys)
        sums = [operands.sql("sum({value})", name) for name in self._products.values()]
        added = operands.in_order(operands.grouped(sums))
        # Rows of values from later splits come after those of the groups.
        zeros = pa.repeat(pa.scalar(0.0), table.num_rows - added.num_rows)
        columns = [
            pa.chunked_array([*column.chunks, zeros], pa.float64()) for column in added.columns[1:]
        ]
        return pa.table([*table.columns, splits, *columns], schema=self.state_schema)

    def result(self, state: pa.Table, sample: Sample) -> pa.Table:
        """What the groups of a state are likely to be after all splits; has ``output_schema``.

        Estimates that do not fit the type of their column are null, as are errors that cannot be told: after a single
        split, and of values that are null.

        Raises:
            InputError: A sum of what has been read that its type cannot hold.

        Cost: that of ``GroupBy.final``, and grouping once more.
        """
        import pyarrow as pa

        rows = self._in_order(state)
        table = self.grouping.final(rows.select(self.grouping.partial_schema.names))
        columns = dict(zip(table.column_names, table.columns, strict=True))
        if sample.is_all:
            errors = [pa.repeat(pa.scalar(0.0), table.num_rows) for _ in self._estimated]
        else:
            errors = self._errors(rows, sample)
            for item in self._estimated:
                if item.function != "mean":
                    columns[item.name] = _scaled(columns[item.name], sample.scale)
        return pa.table([*columns.values(), *errors], schema=self.output_schema)

    def _in_order(self, rows: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        # pyarrow sorts stably, so the row of a group stays before those of its values from later splits.
        return take(rows, pc.sort_indices(rows[self._split]).cast("int64"))

    def _errors(self, rows: pa.Table, sample: Sample) -> list[Any]:
        """A column for each estimate, groups in order of their first row, as ``final`` has them."""
        operands = Operands(rows, self.grouping.keys)
        products = [operands.sql("sum({value})", name) for name in self._products.values()]
        sums = {
            name: operands.sql("sum({value}::DOUBLE)", name)
            for name in dict.fromkeys(itertools.chain(*self._products))
        }
        names = {key: f"r{index}" for index, key in enumerate((*self._products, *sums))}
        grouped = operands.grouped([*products, *sums.values()])
        errors = ", ".join(self._error(item, names, sample) for item in self._estimated)
        if not errors:
            return []
        sql = f"SELECT number, {errors} FROM ({grouped})"  # noqa: S608  only names of ours
        return list(operands.in_order(sql).columns[1:])

    def _error(self, item: Aggregate, names: dict[Any, str], sample: Sample) -> str:
        """SQL for the error of an estimate, over sums and sums of products under these names."""
        factor = sample.factor
        if factor is None:
            return "NULL::DOUBLE"
        n = sample.num_seen
        first, *others = self._quantities(item)
        total, squares = names[first], names[first, first]
        if not others:
            factor *= sample.num_splits**2 / n
            square = f"{squares} - {total} ** 2 / {n}"
        else:
            factor *= n
            (other,) = others
            count = f"nullif({names[other]}, 0)"
            mean = f"({total} / {count})"
            mixed, counts = names[first, other], names[other, other]
            square = f"({squares} - 2 * {mean} * {mixed} + {mean} ** 2 * {counts}) / {count} ** 2"
        # Rounding can leave a little less than nothing. greatest() would take nulls for nothing, too.
        return f"sqrt(CASE WHEN {square} < 0 THEN 0 ELSE ({square}) * {factor!r}::DOUBLE END)"

    @property
    def _estimated(self) -> list[Aggregate]:
        return [item for item in self.grouping.aggregates if item.function in ESTIMATED]

    def _quantities(self, item: Aggregate) -> list[str]:
        """The parts whose spread an error is made of: a total, for a mean followed by its count."""
        return [self.grouping.parts[part] for part in item.parts.values()]

    @cached_property
    def _products(self) -> dict[tuple[str, str], str]:
        """The pairs of parts whose products are summed, and the names of their columns."""
        pairs = dict.fromkeys(
            pair
            for item in self._estimated
            for pair in itertools.combinations_with_replacement(self._quantities(item), 2)
        )
        return {pair: self._unused(" * ".join(pair)) for pair in pairs}

    @property
    def _split(self) -> str:
        return self._unused("split")

    def _unused(self, name: str) -> str:
        while name in self.grouping.keys:
            name += "'"
        return name


def parse_online(grouping: GroupBy) -> Online:
    """``Online`` of a grouping.

    Raises:
        OptionsError: A function whose state grows with the rows or values of a group, or two columns of one name.
    """
    online = Online(grouping)
    names = list(grouping.output_schema.names)
    for item in grouping.aggregates:
        if not _is_bounded(item):
            known = sorted(name for name in FUNCTIONS if _is_bounded(Aggregate("", name, "")))
            raise OptionsError(
                f"stream() cannot compute {item.function!r} from states of one row per group; it can "
                f"{', '.join(known)}, and to_arrow() can all"
            )
        if f"{item.name}_error" in names:
            raise OptionsError(
                f"stream() adds a column {item.name + '_error'!r}, which there is already; rename it"
            )
    return online


def _is_bounded(item: Aggregate) -> bool:
    parts = item.definition.parts
    return bool(parts) and not any(isinstance(PARTS[part], Kept) for part in parts)


def shuffle_online(online: Online) -> Shuffle:
    """The shuffle whose maps make states of splits; what is done with a partition is up to ``OnlineTasks``."""
    keys = online.grouping.keys
    order = ByKeys(tuple(SortKey(key) for key in keys))
    schema = online.state_schema
    return Shuffle(
        "group_by",
        (Side(schema, order, (summary_step(online, 0),)),),
        by_hash if keys else round_robin,
        Gathered(rows_config(schema, order)),
        schema,
        num_partitions=None if keys else 1,
        reduce_percent=COMBINE_PERCENT,
    )


def summary_step(online: Online, split: int) -> Whole:
    """The step that makes the state of a split."""
    summary = functools.partial(online.summary, split=split)
    return Whole(summary, online.state_schema, online.grouping.columns)


@dataclass(frozen=True)
class OnlineTasks:
    """``StreamingTaskSet`` of online aggregation; states are blocks, which hold Arrow streams.

    Attributes:
        online: What is aggregated.
        num_splits: Number of maps.
        tables: Has the maps, gathers slices, and stores tables.
    """

    online: Online
    num_splits: int
    tables: TableTasks

    @property
    def executor(self) -> Executor:
        """See ``StreamingTaskSet``."""
        return self.tables.executor

    def map(self, index: int, item: Any) -> Any:
        """Makes the state of a split and scatters its groups."""
        return self.tables.map(index, item)

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        """The state of a partition after one more round.

        Raises:
            ShuffleCheckError: The slices are not those of the maps behind the ones that are in the state.
        """
        states = [] if state is None else [stored_table(state)]
        before = sum(map(_num_maps, states))
        with (
            placed(self._place(partition)),
            opened(slices, partition, before, None) as sections,
        ):
            states.insert(0, as_reader(self.tables.finish(sections)).read_all())
        num_maps = {_NUM_MAPS: str(before + len(sections))}
        return self._stored(partition, self.online.merged(states).replace_schema_metadata(num_maps))

    def estimate(self, partition: int, state: Any, num_seen: int) -> Any:
        """The result of a partition after so many maps.

        Raises:
            ShuffleCheckError: The state has the output of fewer maps, or of more.
        """
        table = stored_table(state)
        with placed(self._place(partition)):
            if _num_maps(table) != num_seen:
                raise ShuffleCheckError(
                    f"got the output of {_num_maps(table)} maps, not {num_seen}"
                )
        sample = Sample(num_seen, self.num_splits)
        return self._stored(partition, self.online.result(table, sample))

    def _place(self, partition: int) -> str:
        return f"the fold of partition {partition} of {self.tables.name}"

    def _stored(self, partition: int, table: pa.Table) -> Any:
        with own_errors():
            return self.tables.sink(partition, as_rows(table.to_reader()))


def _num_maps(state: pa.Table) -> int:
    """How many maps a state has the output of."""
    return int(state.schema.metadata[_NUM_MAPS])


def stored_table(block: Any) -> pa.Table:
    """The table in a block; its columns lie in the block itself."""
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(block)) as reader:
        return reader.read_all()


def student(degrees: int) -> float:
    """Student's t for a two-sided 95 % and so many degrees of freedom (Abramowitz and Stegun, 26.7.5)."""
    if degrees in _STUDENT:
        return _STUDENT[degrees]
    z, d = _Z, float(degrees)
    terms = (
        (z**3 + z) / (4 * d),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * d**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * d**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * d**4),
    )
    return z + sum(terms)


def _repeated(number: int, count: int) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([pa.repeat(pa.scalar(number, pa.int64()), count)])


def _scaled(column: pa.ChunkedArray, scale: float) -> pa.ChunkedArray:
    """The values times ``scale``, in their own type; null where it cannot hold them."""
    import pyarrow as pa

    rows = storable(pa.table({"value": column}))
    operands = Operands(rows, ())
    # DuckDB rounds where it casts to integers.
    scaled = f"{scale!r}::DOUBLE * {{value}}::DOUBLE"
    sql = operands.each(
        [operands.sql(f"TRY_CAST({scaled} AS {_sql_type(rows, 'value')})", "value")]
    )
    return operands.in_order(sql)["r0"].cast(column.type)


def _sql_type(rows: pa.Table, column: str) -> str:
    import pyarrow as pa

    kind = rows.schema.field(column).type
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return {pa.int64(): "BIGINT", pa.uint64(): "UBIGINT", pa.float64(): "DOUBLE"}[kind]
