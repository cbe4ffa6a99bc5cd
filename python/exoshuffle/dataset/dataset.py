"""``Dataset``: files and what to do with them, lazy until a result is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence

from exoshuffle.dataset import sampling
from exoshuffle.dataset.bill import Bill
from exoshuffle.dataset.commit import Overwrite
from exoshuffle.dataset.explain import Destination, explain_node
from exoshuffle.dataset.formats import FORMATS
from exoshuffle.dataset.grouped import Grouped
from exoshuffle.dataset.logical import (
    MergeJoined,
    Shuffled,
    ShuffleOptions,
    Windowed,
    check_count,
    describe,
    is_read,
    is_records,
    sources,
)
from exoshuffle.dataset.narrow import Narrow, check_datasets
from exoshuffle.dataset.paths import local_path
from exoshuffle.dataset.seeds import seed_or_fresh, seeds_of
from exoshuffle.dataset.windows import check_window, small_window
from exoshuffle.dataset.write import WriteOptions, is_held
from exoshuffle.errors import OptionsError, OutputError
from exoshuffle.futures import current_engine
from exoshuffle.operators.asof.asof import DIRECTIONS, AsofOptions, Tolerance, parse_asof
from exoshuffle.operators.core.keys import (
    SortKey,
    check_keys,
    check_names,
    names_in,
    names_of,
    once,
    parse_keys,
)
from exoshuffle.operators.core.order import ByKeys, ByRecordKey, assignment_named
from exoshuffle.operators.core.shuffle import Shuffle, rows_config
from exoshuffle.operators.distinct.distinct import parse_distinct
from exoshuffle.operators.distinct.shuffle import distinct_shuffle
from exoshuffle.operators.join.join import JoinOptions, parse_join
from exoshuffle.operators.join.shuffle import join_shuffle
from exoshuffle.operators.repartition.shuffle import repartition_shuffle
from exoshuffle.operators.sort.shuffle import sort_keys, sort_shuffle
from exoshuffle.operators.sql.parsing import column
from exoshuffle.plan.workload import ResultPlace
from exoshuffle.strategies.strategy import Strategy
from exoshuffle.units import parse_bytes

PathLike = str | os.PathLike[str]


class Dataset(Narrow):
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
        """The input format: ``parquet``, ``arrow``, ``csv``, ``jsonl``, ``records``, ``text`` or ``binary``."""
        name: str = sources(self.node)[0].format
        return name

    @property
    def output_format(self) -> str:
        """The format of files where none is named: the input's, or ``parquet`` if that cannot hold the rows.

        Formats that hold tables stay: what they cannot hold is an error when it is written.
        """
        name = self.format
        if not FORMATS[name].holds_tables and not is_held(self.node, name):
            return "parquet"
        return name

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of its random operations, given or fresh, each once; of operations in a row in their order."""
        return seeds_of(self.node)

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
            by: Column or columns, the first one first; one that is named again changes nothing, and must have the same
                direction and place of nulls. Fixed-length records need none: their key is their beginning.
            descending: Largest first; one value for all columns or one for each.
            nulls: ``"first"`` or ``"last"``, whatever the direction; one for all or one for each.
            strategy: ``"auto"``, ``"simple"``, ``"push"``, ``"pre_shuffle_merge"``, ``"streaming"``, or an instance,
                to which options of strategies are given: ``PreShuffleMerge(MergeOptions(percent=80))``,
                ``Push(merge_bytes=10**8)``, ``Simple(Speculation())``; ``Auto(...)`` compares one of your own with
                these (all in ``exoshuffle.strategies``).
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
            if descending is not False:
                raise OptionsError(
                    "fixed-length records are sorted smallest first; leave out descending="
                )
            source = sources(self.node)[0]
            order = ByRecordKey(source.record_bytes, source.key_bytes)
            return self._shuffled(sort_shuffle(self.schema, order), options)
        if by is None:
            raise OptionsError("sort needs at least one column in by=")
        return self._sort_by(parse_keys(by, descending, nulls), options)

    def sort_keys(
        self,
        keys: Sequence[SortKey],
        *,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """``sort`` by ``SortKey`` objects; one of a column that was named before must be equal to it."""
        return self._sort_by(check_keys(keys), ShuffleOptions(strategy, num_partitions))

    def _sort_by(self, keys: tuple[SortKey, ...], options: ShuffleOptions) -> Dataset:
        check_names(keys, self.schema.names)
        child = self.node
        # A stable sort of sorted rows is one sort by both, the later one first.
        while isinstance(child, Shuffled) and (earlier := sort_keys(child.shuffle)) is not None:
            new = {key.column for key in keys}
            keys += tuple(key for key in earlier if key.column not in new)
            child = child.children[0]
        shuffle = sort_shuffle(self.schema, ByKeys(keys))
        return Dataset(Shuffled((child,), _checked(shuffle), options))

    def top_k(
        self,
        n: int,
        by: str | Sequence[str],
        descending: bool | Sequence[bool] = True,
        nulls: str | Sequence[str] = "last",
    ) -> Dataset:
        """The first n rows of a sort, in its order: by default those with the largest values.

        The same as ``sort(by, descending, nulls).limit(n)``: of rows with equal keys the first in input order come
        first, nulls come last unless asked for, and NaN is greater than all numbers.

        Args:
            n: How many; all if there are fewer.
            by: As in ``sort``.
            descending: As in ``sort``, but largest first is the default; False gives the smallest.
            nulls: As in ``sort``.

        Raises:
            OptionsError: A negative number, or arguments that contradict each other.
            SchemaError: A column is unknown or has no order.

        Cost: reads the input once; each map sorts the keys of its split and sends n rows at most, one reduce takes
        these. Where they do not fit into its memory, all rows are sorted instead.
        """
        check_count("n", n)
        return self._sort_by(parse_keys(by, descending, nulls), ShuffleOptions()).limit(n)

    def random_shuffle(
        self,
        seed: int | None = None,
        *,
        window: int | str | None = None,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """All rows in random order: every permutation is as likely as any other.

        The same seed gives the same order of the rows of the same files, whatever the engine, the memory limit and the
        number of CPUs and partitions are, and whatever steps that need no shuffle lie between.

        What other shuffles, limits and users' functions make is ordered by which part of that result a row is in, and
        where in it: the order is the same as long as these parts are, which follow from the memory limit and the number
        of CPUs. ``num_partitions`` of the shuffle before keeps them the same where rows go by hash (groups, joins,
        ``distinct``), unless a part is so large that it is kept in pieces; not where a sort cuts at sampled keys.

        With a **window** it is cheap and partial, for data that is read again and again, as in training: files are cut
        into windows of neighbouring rows, the windows come in random order, and the rows of each in random order. So a
        row may come out anywhere, but among the rows of its window, which stay together: two rows of a window are never
        further apart than it has rows, and rows of two windows never mix. Values that are correlated over more than a
        window stay clustered, and a sample of the first rows is one of few windows: for these, leave the window out.

        Args:
            seed: Of the permutation, from 0 to 2**64 - 1. Default: a fresh one, the same for all results of this
                dataset, which ``seeds``, ``explain()`` and results of writing tell.
            window: Its size, for a partial shuffle: a number of rows (as many as have the mean size of all), or a size
                of rows in memory as text (``"64MB"``). A window does not reach over the end of a file, nor of a row
                group if it is larger than a quarter of one; most have half of this size or more, and none has more.
            strategy: As in ``sort``; not with a window.
            num_partitions: As in ``sort``; not with a window.

        Raises:
            OptionsError: A seed or window out of range, or a window for rows that are not read from files.

        Cost: as ``sort``, with 8 more bytes per row on the way. With a window: reads the input once, spills nothing,
        holds three windows per CPU in memory. Windows of less than 256 kB, or of less than a quarter of a row group of
        Parquet or a batch of Arrow IPC, in the mean, cost as much as a shuffle without: read one by one, in random
        order, they would decode each row group again and again. Source: Exoshuffle §5.3, where shuffles feed training.
        """
        seed = seed_or_fresh(seed)
        options = ShuffleOptions(strategy, num_partitions)
        if window is None:
            return Dataset(sampling.in_random_order(self.node, seed, options))
        check_window(window)
        if options != ShuffleOptions():
            raise OptionsError(
                "a shuffle within windows has no partitions; leave out strategy and num_partitions, or the window"
            )
        if not is_read(self.node):
            raise OptionsError(
                "a shuffle within windows reads files; write the result of the other operation first, or leave out "
                "the window"
            )
        rows = small_window(self.node, window)
        if rows is None:
            return Dataset(Windowed(self.node, seed, window))
        return Dataset(sampling.in_random_order(self.node, seed, options, rows))

    def repartition(
        self,
        num_partitions: int | None = None,
        *,
        target_size: int | str | None = None,
        by: str | Sequence[str] | None = None,
        method: str | None = None,
        strategy: str | Strategy = "auto",
    ) -> Dataset:
        """Cuts the rows into other partitions: files of ``write_*``, or parts of ``iter_batches``.

        Without ``by`` rows are dealt out in turn, so that partitions have equally many. Rows of a partition keep their
        order.

        Args:
            num_partitions: How many.
            target_size: About how large, instead of how many.
            by: Column or columns whose values decide; one that is named again changes nothing.
            method: With ``by`` ``"hash"`` (equal values meet; the default) or ``"range"`` (partitions follow each
                other in order), without it ``"round-robin"``.
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
        keys = () if by is None else once(names_of(by, "by"))
        shuffle = repartition_shuffle(self.schema, keys, assignment_named(method, bool(keys)))
        return self._shuffled(shuffle, ShuffleOptions(strategy, num_partitions, target))

    def group_by(
        self,
        *keys: str | Sequence[str],
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Grouped:
        """Groups rows with equal keys: ``group_by("k").agg(n="count", total=("x", "sum"))``.

        Null is a key like any other, NaN is one value, and −0.0 equals 0.0.

        Args:
            *keys: Columns, or a list of them, of which one that is named again changes nothing; without any all rows
                are one group.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.

        Raises:
            OptionsError: Something else than names.
            SchemaError: A column is unknown.
        """
        options = ShuffleOptions(strategy, num_partitions)
        names = once(names_in(keys, "group_by"))
        for name in names:
            column(name, self.schema)  # one that there is not says so here
        return Grouped(self.schema, names, options, self._shuffled)

    def distinct(
        self,
        subset: str | Sequence[str] | None = None,
        *,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """Drops duplicates: of rows with equal values, the first in input order stays.

        Args:
            subset: Columns to compare, of which one that is named again changes nothing; default: all.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.

        Raises:
            SchemaError: A column is unknown or cannot be compared.
        """
        names = None if subset is None else once(names_of(subset, "subset"))
        rows = parse_distinct(self.schema, names)
        return self._shuffled(distinct_shuffle(rows), ShuffleOptions(strategy, num_partitions))

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
            on: Key columns that both sides have; one that is named again changes nothing.
            how: ``inner``, ``left``, ``right``, ``full``, ``semi``, ``anti`` or ``cross``.
            left_on: Key columns of this side, where names differ.
            right_on: As many of the other side; the same pair again changes nothing.
            suffix: Added to columns of the right side whose names the left side has too.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.

        Raises:
            OptionsError: Arguments that contradict each other; later, ``strategy`` or ``num_partitions`` for a cross
                join of two large sides.
            SchemaError: A column is unknown, or types of keys cannot be compared.

        Rows of a partition come in the order of the left side, and for each in that of the right side.

        Cost: as ``sort``, of both sides; less where a side is small, up to 16 MB and a sixteenth of what the memory
        limit leaves for data. If neither ``strategy`` nor ``num_partitions`` is given, such a side is given to every
        task that reads the other, and nothing is shuffled: the right side of ``inner``, ``left``, ``semi`` and ``anti``
        joins, the left one of ``inner`` and ``right`` joins. A cross join does so with either side, and deals out the
        other one first if it was given one of the two arguments; where both sides are larger, both go into the store,
        and a partition of the result is made for each two pieces of them.
        """
        check_datasets("join", [other])
        joined = parse_join(
            self.schema,
            other.schema,
            JoinOptions(
                on=None if on is None else names_of(on, "on"),
                left_on=None if left_on is None else names_of(left_on, "left_on"),
                right_on=None if right_on is None else names_of(right_on, "right_on"),
                how=how,
                suffix=suffix,
            ),
        )
        options = ShuffleOptions(strategy, num_partitions)
        return Dataset(Shuffled((self.node, other.node), _checked(join_shuffle(joined)), options))

    def join_asof(  # noqa: PLR0913  the arguments that users of pandas and Polars know
        self,
        other: Dataset,
        on: str | None = None,
        *,
        left_on: str | None = None,
        right_on: str | None = None,
        by: str | Sequence[str] | None = None,
        direction: str = "backward",
        tolerance: Tolerance | None = None,
        suffix: str = "_right",
        strategy: str | Strategy = "auto",
    ) -> Dataset:
        """Joins each row with the nearest row of another dataset: quotes with trades, readings with settings.

        Every row of this side comes once, in the order of ``by`` and then ``on``, with nulls where nothing matches.

        Args:
            other: The right side.
            on: The column of both sides that has to be near, as a time or a number; once in the result.
            left_on: The column of this side, where names differ; both are in the result then.
            right_on: The column of the other side.
            by: Column or columns of both sides that have to be equal; null equals nothing.
            direction: ``"backward"``, the last row of the other side that is not greater; ``"forward"``, the first that
                is not smaller; ``"nearest"``, whichever is nearer, the later one if both are as near. Of rows with
                equal keys the last one counts, with ``"forward"`` the first one.
            tolerance: Rows further apart do not match: a number; of times a ``timedelta`` or text such as ``"1h30m"``.
            suffix: Added to columns of the right side whose names the left side has too.
            strategy: Of the sorts, as in ``sort``.

        Raises:
            OptionsError: Arguments that contradict each other, or a tolerance that does not fit the type of ``on``.
            SchemaError: A column is unknown, or types of keys cannot be compared.

        Cost: sorts both sides, but for one that is in the order of ``on`` already, without ``by``; then reads each
        once more, in pieces. Beyond memory, a side is spilled as in ``sort``, and as sorted pieces.
        """
        check_datasets("join_asof", [other])
        if strategy in DIRECTIONS:
            raise OptionsError(
                f"strategy says how rows are shuffled; write direction={strategy!r} for which row is near"
            )
        options = AsofOptions(
            on=on,
            left_on=left_on,
            right_on=right_on,
            by=() if by is None else once(names_of(by, "by")),
            direction=direction,
            tolerance=tolerance,
            suffix=suffix,
        )
        joined = parse_asof(self.schema, other.schema, options)
        node = MergeJoined((self.node, other.node), joined, ShuffleOptions(strategy))
        return Dataset(node)

    def explain(
        self,
        output: PathLike | None = None,
        *,
        results: ResultPlace = "files",
        options: WriteOptions | None = None,
        overwrite: Overwrite = False,
    ) -> Bill:
        """The plan as a bill, without running: tasks, memory, bytes spilled, disk needed and free, and why so.

        Args:
            output: Where the result would go, to tell the free space there, and whether it can.
            results: ``"files"``, or ``"batches"`` if they are to be taken by ``iter_batches`` or ``to_arrow``.
            options: How files would be written; default: in the format of the input, without compression.
            overwrite: As for ``write_parquet``.

        Raises:
            MemoryLimitError: It cannot fit into memory.
            OptionsError: Another word for ``results``, or the result cannot be written in this format.
            OutputError: The output exists, or cannot be written.
        """
        if results not in ("files", "batches"):
            raise OptionsError(f'results is {results!r}; write "files" or "batches"')
        path = None if output is None else local_path(output, OutputError)
        to = Destination(results, path, options or WriteOptions(self.output_format), overwrite)
        return explain_node(self.node, current_engine(), to)

    def __repr__(self) -> str:
        return f"Dataset({describe(self.node)})"

    # --- internals ---------------------------------------------------------------------------------------------

    def _shuffled(self, shuffle: Shuffle, options: ShuffleOptions) -> Dataset:
        return Dataset(Shuffled((self.node,), _checked(shuffle), options))


def _checked(shuffle: Shuffle) -> Shuffle:
    """The shuffle, if its keys fit: they say so when the native object is built."""
    for side in shuffle.sides:
        rows_config(side.schema, side.order).build()
    return shuffle
