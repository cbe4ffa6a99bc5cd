"""``Dataset``: files and what to do with them, lazy until a result is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.explain import Bill, explain_node
from exoshuffle.dataset.grouped import Grouped
from exoshuffle.dataset.logical import (
    Limited,
    Shuffled,
    ShuffleOptions,
    Stepped,
    United,
    describe,
    is_records,
    sources,
)
from exoshuffle.dataset.results import Results
from exoshuffle.errors import OptionsError, SchemaError
from exoshuffle.futures import current_engine
from exoshuffle.operators import shuffles
from exoshuffle.operators.distinct import parse_distinct
from exoshuffle.operators.join import JoinOptions, parse_join
from exoshuffle.operators.keys import SortKey, names_of, parse_keys
from exoshuffle.operators.order import ByKeys, ByRecordKey, assignment_named, round_robin
from exoshuffle.operators.shuffles import Shuffle
from exoshuffle.operators.steps import Drop, Filter, MapBatches, Rename, Select, Step, WithColumns
from exoshuffle.operators.table import Sorted
from exoshuffle.shuffle.strategy import Strategy
from exoshuffle.shuffle.workload import ResultPlace
from exoshuffle.units import parse_bytes

if TYPE_CHECKING:
    import pyarrow as pa

PathLike = str | os.PathLike[str]


class Dataset(Results):
    """A table, or fixed-length records, in files; made by ``read_parquet`` and its siblings.

    Nothing is read until a result is asked for, by ``write_*``, ``to_arrow``, ``iter_batches`` or the Arrow stream
    protocol (so ``pyarrow.table(dataset)``, ``polars.DataFrame(dataset)`` and DuckDB take it as it is).
    """

    @property
    def files(self) -> list[str]:
        """The input files in reading order."""
        return [file for source in sources(self.node) for file in source.files]

    @property
    def format(self) -> str:
        """The input format: ``parquet``, ``arrow``, ``csv``, ``jsonl`` or ``records``."""
        name: str = sources(self.node)[0].format
        return name

    # --- rows and columns, without a shuffle -------------------------------------------------------------------

    def select(self, *columns: str, **expressions: str) -> Dataset:
        """Keeps columns, in the order given, and adds computed ones.

        Args:
            *columns: Names.
            **expressions: New columns by name, as SQL: ``total="price * quantity"``.

        Raises:
            SchemaError: An unknown column, or an expression that does not fit the schema.

        Cost: columns that are kept are not copied; expressions are computed in DuckDB, batch by batch.
        """
        return self._stepped(Select(columns, tuple(expressions.items())))

    def with_columns(self, **expressions: str) -> Dataset:
        """Adds columns, or replaces them: ``with_columns(day="date_trunc('day', ts)")``; see ``select``."""
        return self._stepped(WithColumns(tuple(expressions.items())))

    def drop(self, *columns: str) -> Dataset:
        """Leaves columns out.

        Raises:
            SchemaError: An unknown column.
        """
        return self._stepped(Drop(columns))

    def rename(self, columns: Mapping[str, str]) -> Dataset:
        """Gives columns other names, ``{old: new}``.

        Raises:
            SchemaError: An unknown column, or a name that there is already.
        """
        return self._stepped(Rename(tuple(columns.items())))

    def filter(self, condition: str) -> Dataset:
        """Keeps rows for which a condition holds: ``filter("price > 3 and name like 'x%'")``; null counts as false.

        Raises:
            SchemaError: A condition that does not fit the schema.
        """
        return self._stepped(Filter(condition))

    def map_batches(
        self, function: Callable[[pa.Table], Any], *, schema: pa.Schema | None = None
    ) -> Dataset:
        """Hands batches of rows to a function of yours, which runs in worker processes.

        Args:
            function: From a ``pyarrow.Table`` to a table, a record batch or a dictionary of columns. It must give the
                same result for the same rows, since a task may run again.
            schema: Of what it returns; default: what it returns for no rows.

        Raises:
            SchemaError: While running: it returned another schema.
        """
        return self._stepped(MapBatches(function, schema))

    def union(self, *others: Dataset) -> Dataset:
        """The rows of this dataset and of others, one after the other; duplicates stay.

        Raises:
            SchemaError: The schemas differ.
        """
        for other in others:
            if not other.schema.equals(self.schema):
                raise SchemaError(
                    f"union needs equal schemas; one has {_columns(self.schema)}, another {_columns(other.schema)}; "
                    "select() and with_columns() make them equal"
                )
        return Dataset(United((self.node, *(other.node for other in others))))

    def limit(self, count: int) -> Dataset:
        """The first rows. No more of the input is worked on than needed, and a few partitions ahead.

        Raises:
            OptionsError: A negative number.
        """
        if count < 0:
            raise OptionsError(f"limit is {count}; it must be at least 0")
        return Dataset(Limited(self.node, count))

    # --- shuffles ----------------------------------------------------------------------------------------------

    def sort(
        self,
        by: str | Sequence[str] | None = None,
        descending: bool | Sequence[bool] = False,
        nulls: str | Sequence[str] = "last",
        *,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """Sorts by one or several columns; stable.

        NaN is greater than all numbers, −0.0 equals 0.0, strings compare as bytes. Sorting a sorted dataset keeps the
        earlier order among equal keys.

        Args:
            by: Column or columns, the first one first. Fixed-length records need none: their key is their beginning.
            descending: Largest first; one value for all columns or one for each.
            nulls: ``"first"`` or ``"last"``, whatever the direction; one for all or one for each.
            strategy: ``"auto"``, ``"simple"``, ``"push"``, ``"pre_shuffle_merge"`` or an instance.
            num_partitions: Number of output partitions; default: as few as the memory limit allows.

        Returns:
            A dataset; nothing runs yet.

        Raises:
            OptionsError: Arguments that contradict each other.
            SchemaError: A column is unknown or has no order.

        Cost: reads the input once (and a few key columns before); writes what exceeds memory to disk once, and reads
        it back once. Source: Exoshuffle §3.2.
        """
        options = ShuffleOptions(strategy, num_partitions)
        if is_records(self.node):
            if by is not None:
                raise OptionsError("fixed-length records are sorted by their key; leave out by=")
            source = sources(self.node)[0]
            order = ByRecordKey(source.record_bytes, source.key_bytes)
            return self._shuffled(shuffles.sort(self.schema, order), options)
        if by is None:
            raise OptionsError("sort needs at least one column in by=")
        return self._sort_by(parse_keys(by, descending, nulls), options)

    def sort_keys(self, keys: Sequence[SortKey], **options: Any) -> Dataset:
        """``sort`` by ``SortKey`` objects."""
        return self._sort_by(tuple(keys), ShuffleOptions(**options))

    def _sort_by(self, keys: tuple[SortKey, ...], options: ShuffleOptions) -> Dataset:
        child = self.node
        # A stable sort of sorted rows is one sort by both, the later one first.
        while isinstance(child, Shuffled) and isinstance(child.shuffle.finish, Sorted):
            order = child.shuffle.sides[0].order
            if not isinstance(order, ByKeys):
                break
            keys += tuple(
                key for key in order.keys if key.column not in {new.column for new in keys}
            )
            child = child.children[0]
        shuffle = shuffles.sort(self.schema, ByKeys(keys))
        return Dataset(Shuffled((child,), _checked(shuffle), options))

    def random_shuffle(
        self,
        seed: int = 0,
        *,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """All rows in random order: every permutation is as likely as any other.

        The same seed gives the same order, whatever the engine, the memory limit and the number of CPUs and partitions
        are; of CSV and JSON lines and of results of other operations, as long as they are cut into the same parts.

        Args:
            seed: Of the permutation, from 0 to 2**64 - 1.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.

        Raises:
            OptionsError: A seed out of range.

        Cost: as ``sort``, with 8 more bytes per row on the way. Source: Exoshuffle §5.3, where shuffles feed training.
        """
        if not 0 <= seed < 2**64:
            raise OptionsError(f"seed is {seed}; choose a number from 0 to 2**64 - 1")
        shuffle = shuffles.random_shuffle(self.schema, seed)
        return self._shuffled(shuffle, ShuffleOptions(strategy, num_partitions))

    def repartition(
        self,
        num_partitions: int | None = None,
        *,
        target_size: int | str | None = None,
        by: str | Sequence[str] | None = None,
        method: str = "hash",
        strategy: str | Strategy = "auto",
    ) -> Dataset:
        """Cuts the rows into other partitions: files of ``write_*``, or parts of ``iter_batches``.

        Without ``by`` rows are dealt out in turn, so that partitions have equally many. Rows of a partition keep their
        order.

        Args:
            num_partitions: How many.
            target_size: About how large, instead of how many.
            by: Column or columns whose values decide.
            method: With ``by``: ``"hash"`` (equal values meet) or ``"range"`` (partitions follow each other in order).
            strategy: As in ``sort``.

        Raises:
            OptionsError: Arguments that contradict each other.
            SchemaError: A column is unknown or cannot be compared.
        """
        if (num_partitions is None) == (target_size is None):
            raise OptionsError("repartition needs one of num_partitions and target_size")
        target = None if target_size is None else parse_bytes(target_size)
        if target is not None and target < 1:
            raise OptionsError(f"target_size is {target}; it must be at least 1 byte")
        if by is None:
            shuffle = shuffles.repartition(self.schema, (), round_robin)
        else:
            shuffle = shuffles.repartition(self.schema, names_of(by), assignment_named(method))
        return self._shuffled(shuffle, ShuffleOptions(strategy, num_partitions, target))

    def group_by(
        self, *keys: str, strategy: str | Strategy = "auto", num_partitions: int | None = None
    ) -> Grouped:
        """Groups rows with equal keys: ``group_by("k").agg(n="count", total=("x", "sum"))``.

        Null is a key like any other, NaN is one value, and −0.0 equals 0.0.

        Args:
            *keys: Columns; without any all rows are one group.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.

        Raises:
            SchemaError: A column is unknown.
        """
        options = ShuffleOptions(strategy, num_partitions)
        return Grouped(self.schema, keys, options, self._shuffled)

    def distinct(
        self,
        subset: str | Sequence[str] | None = None,
        *,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """Drops duplicates: of rows with equal values, the first in input order stays.

        Args:
            subset: Columns to compare; default: all.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.

        Raises:
            SchemaError: A column is unknown or cannot be compared.
        """
        rows = parse_distinct(self.schema, None if subset is None else names_of(subset))
        return self._shuffled(shuffles.distinct(rows), ShuffleOptions(strategy, num_partitions))

    def join(  # noqa: PLR0913  the arguments that users of pandas and Polars know
        self,
        other: Dataset,
        on: str | Sequence[str] | None = None,
        how: str = "inner",
        *,
        left_on: str | Sequence[str] | None = None,
        right_on: str | Sequence[str] | None = None,
        suffix: str = "_right",
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """Joins with another dataset where keys are equal; null equals nothing, as in SQL.

        Args:
            other: The right side.
            on: Key columns that both sides have.
            how: ``inner``, ``left``, ``right``, ``full``, ``semi``, ``anti`` or ``cross``.
            left_on: Key columns of this side, where names differ.
            right_on: As many of the other side.
            suffix: Added to columns of the right side whose names the left side has too.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.

        Raises:
            OptionsError: Arguments that contradict each other.
            SchemaError: A column is unknown, or types of keys cannot be compared.

        Rows of a partition come in the order of the left side, and for each in that of the right side.
        """
        joined = parse_join(
            self.schema,
            other.schema,
            JoinOptions(
                on=None if on is None else names_of(on),
                left_on=None if left_on is None else names_of(left_on),
                right_on=None if right_on is None else names_of(right_on),
                how=how,
                suffix=suffix,
            ),
        )
        options = ShuffleOptions(strategy, num_partitions)
        return Dataset(Shuffled((self.node, other.node), _checked(shuffles.join(joined)), options))

    def explain(self, output: PathLike | None = None, *, results: ResultPlace = "files") -> Bill:
        """The plan as a bill, without running: tasks, memory, bytes spilled, disk needed and free, and why so.

        Args:
            output: Where the result would go, to tell the free space there.
            results: ``"files"``, or ``"batches"`` if they are to be taken by ``iter_batches`` or ``to_arrow``.

        Raises:
            MemoryLimitError: It cannot fit into memory.
        """
        path = None if output is None else os.fspath(output)
        return explain_node(self.node, current_engine(), path, results)

    def __repr__(self) -> str:
        return f"Dataset({describe(self.node)})"

    # --- internals ---------------------------------------------------------------------------------------------

    def _stepped(self, step: Step) -> Dataset:
        node = Stepped(self.node, step)
        _ = node.schema  # a step that does not fit says so here
        return Dataset(node)

    def _shuffled(self, shuffle: Shuffle, options: ShuffleOptions) -> Dataset:
        return Dataset(Shuffled((self.node,), _checked(shuffle), options))


def _checked(shuffle: Shuffle) -> Shuffle:
    """The shuffle, if its keys fit: they say so when the native object is built."""
    for side in shuffle.sides:
        shuffles.rows_config(side.schema, side.order).build()
    return shuffle


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
