"""``Ordering``: sorts, shuffles and repartitions a dataset; it changes the places of rows, and never the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exoshuffle.dataset.applying import Dataset
from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.frames import Frames
from exoshuffle.dataset.tree import sampling
from exoshuffle.dataset.tree.facts import is_records
from exoshuffle.dataset.tree.nodes import (
    LimitNode,
    Node,
    ShuffleNode,
    ShuffleOptions,
    WindowNode,
    check_count,
    is_read,
    sources,
)
from exoshuffle.dataset.tree.seeds import seed_or_fresh
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.computed import sort_columns
from exoshuffle.operators.core.keys import (
    SortKey,
    are_directions,
    check_keys,
    check_names,
    names_of,
    once,
    parse_keys,
    places_of,
)
from exoshuffle.operators.core.order import ByKeys, ByRecordKey, assignment_named
from exoshuffle.operators.core.shuffle import Shuffle, rows_config
from exoshuffle.operators.sort.shuffle import sort_keys, sort_shuffle
from exoshuffle.operators.sql.expressions import Columns, Expr
from exoshuffle.operators.steps.columns import Drop
from exoshuffle.strategies.strategy import Strategy
from exoshuffle.units import parse_bytes


class Ordering(Frames[Dataset]):
    """The order of a dataset's rows, and how they are cut into partitions."""

    def sort(
        self,
        by: Columns | None = None,
        *more: Any,
        descending: bool | Sequence[bool] = False,
        nulls: str | Sequence[str] = "last",
        nulls_last: bool | Sequence[bool] | None = None,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
        **others: object,
    ) -> Dataset:
        """Sorts by one or several columns or expressions; stable.

        NaN is greater than all numbers, −0.0 equals 0.0, strings compare as bytes. Sorting a sorted dataset keeps the
        earlier order among equal keys.

        Args:
            by: Column or columns, the most significant first, as names or expressions: ``sort("lower(name)")``. A
                repeated column changes nothing; it must have the same direction and place of nulls. Fixed-length
                records need no column: their key is their beginning.
            *more: Further columns, instead of a list of all; or first the directions, as in Ray Data.
            descending: Largest first; one value for all columns or one for each.
            nulls: ``"first"`` or ``"last"``, whatever the direction; one for all or one for each.
            nulls_last: As Polars has it, instead of ``nulls``: True or False, one for all or one for each.
            strategy: ``"auto"``, ``"simple"``, ``"push"``, ``"pre_shuffle_merge"``, ``"streaming"``, or an instance; or
                ``"whole"`` for one task instead of a shuffle, which ``"auto"`` takes for few rows.
                An instance takes the options of a strategy: ``PreShuffleMerge(MergeOptions(percent=80))``,
                ``Push(merge_bytes=10**8)``, ``Simple(Speculation())``. ``Auto(...)`` compares a strategy of your own
                with these (all in ``exoshuffle.strategies``).
            num_partitions: Number of output partitions; default: as few as the memory limit allows.
            **others: None; arguments of other libraries are refused with what to write instead.

        Returns:
            A dataset; nothing runs yet.

        Raises:
            OptionsError: Arguments that contradict each other.
            SchemaError: A column is unknown or has no order.

        Cost: reads the input once (and a few key columns before). Writes the rows that exceed memory to disk once, and
        reads them back once. Source: Exoshuffle §3.2.
        """
        refuse_arguments("sort", others)
        options = ShuffleOptions(strategy, num_partitions)
        if nulls_last is not None:
            if nulls != "last":
                raise OptionsError("sort got nulls and nulls_last; give one of them")
            nulls = places_of(nulls_last)
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
        if more and descending is False and are_directions(more[0]):
            descending, more = more[0], more[1:]
        if more:
            by = (*([by] if isinstance(by, str | Expr) else by), *more)
        return self._made(self._sorted_by(by, descending, nulls, options))

    def sort_keys(
        self,
        keys: Sequence[SortKey],
        *,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """Sorts by ``SortKey`` objects, as ``sort`` does; keys of one column must be equal."""
        options = ShuffleOptions(strategy, num_partitions)
        return self._made(_sorted(self.node, check_keys(keys), options))

    def _sorted_by(
        self,
        by: Columns,
        descending: bool | Sequence[bool],
        nulls: str | Sequence[str],
        options: ShuffleOptions,
    ) -> Node:
        """Returns the tree of a sort by columns, and by expressions as columns that go again."""
        names, made = sort_columns(by, self.schema)
        keys = parse_keys(names, descending, nulls)
        if not made:
            return _sorted(self.node, keys, options)
        rows = self.with_columns(**made).node
        return self._stepped_on(_sorted(rows, keys, options), Drop(tuple(made))).node

    def top_k(
        self,
        n: int,
        by: Columns,
        descending: bool | Sequence[bool] = True,
        nulls: str | Sequence[str] = "last",
    ) -> Dataset:
        """Keeps the first n rows of a sort, in its order: by default those with the largest values.

        The result is the same as that of ``sort(by, descending, nulls).limit(n)``. Rows with equal keys keep their
        input order, nulls come last by default, and NaN is greater than all numbers.

        Args:
            n: Number of rows; all if there are fewer.
            by: As in ``sort``.
            descending: As in ``sort``, but largest first is the default; False gives the smallest.
            nulls: As in ``sort``.

        Raises:
            OptionsError: A negative number, or arguments that contradict each other.
            SchemaError: A column is unknown or has no order.

        Cost: reads the input once. Each map sorts the keys of its split and sends n rows at most to one reduce. Where
        these rows do not fit into the memory of the reduce, all rows are sorted instead.
        """
        check_count("n", n)
        return self._made(LimitNode(self._sorted_by(by, descending, nulls, ShuffleOptions()), n))

    def random_shuffle(
        self,
        seed: int | None = None,
        *,
        window: int | str | None = None,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """Puts all rows in random order: every permutation is as likely as any other.

        The same seed gives the same order of the rows of the same files. The engine, the memory limit, the number of
        CPUs and partitions, and steps in between that need no shuffle do not change that order.

        Results of other shuffles, limits and users' functions come in parts. A row of them is known by its part and its
        place there, so the order is the same as long as the parts are. The parts follow from the memory limit and the
        number of CPUs. Where rows go by hash (groups, joins, ``distinct``), ``num_partitions`` of the shuffle before
        keeps them the same, unless a large part is kept in pieces. It does not where a sort cuts at sampled keys.

        With a **window** the shuffle is cheap and partial, for data that is read again and again, as in training. Files
        are cut into windows of neighbouring rows; the windows come in random order, and so do the rows of each. A row
        may come out anywhere, but the rows of its window stay together. Two rows of a window are never further apart
        than the window has rows, and rows of two windows never mix. Values that are correlated over more than a window
        stay clustered, and a sample of the first rows is one of few windows. Leave the window out for these.

        Args:
            seed: Seed of the permutation, from 0 to 2**64 - 1. Default: a fresh one, the same for all results of this
                dataset; ``seeds``, ``explain()`` and results of writing tell it.
            window: Size of a window, for a partial shuffle. It is a number of rows (as many as have the mean size of
                all), or a size of rows in memory as text (``"64MB"``). A window does not reach over the end of a file.
                If it is larger than a quarter of a row group, it does not reach over the end of that either. Most
                windows have half of this size or more, and none has more than all of it.
            strategy: As in ``sort``; not with a window.
            num_partitions: As in ``sort``; not with a window.

        Raises:
            OptionsError: A seed or window out of range, or a window for rows that are not read from files.

        Cost: as ``sort``, with 8 more bytes per row on the way. With a window: reads the input once, spills nothing,
        holds three windows per CPU in memory. Small windows cost as much as a shuffle without any. Small are those of
        less than 256 kB, or of less than a quarter of a mean Parquet row group or Arrow IPC batch. Reading these one by
        one, in random order, would decode each row group again and again. Source: Exoshuffle §5.3, where shuffles feed
        training.
        """
        from exoshuffle.dataset.jobs.windows import check_window, small_window

        seed = seed_or_fresh(seed)
        options = ShuffleOptions(strategy, num_partitions)
        if window is None:
            return self._made(sampling.in_random_order(self.node, seed, options))
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
            return self._made(WindowNode(self.node, seed, window))
        return self._made(sampling.in_random_order(self.node, seed, options, rows))

    def repartition(
        self,
        num_partitions: int | None = None,
        *,
        target_size: int | str | None = None,
        by: str | Sequence[str] | None = None,
        method: str | None = None,
        strategy: str | Strategy = "auto",
        **others: object,
    ) -> Dataset:
        """Cuts the rows into other partitions: files of ``write_*``, or parts of ``iter_batches``.

        Without ``by`` rows are dealt out in turn, so that partitions have equally many. Rows of a partition keep their
        order.

        Args:
            num_partitions: Number of partitions.
            target_size: About the size of a partition, instead of their number.
            by: Column or columns whose values decide; a repeated column changes nothing.
            method: With ``by``: ``"hash"`` (equal values meet; the default) or ``"range"`` (partitions follow each
                other in order). Without it: ``"round-robin"``.
            strategy: As in ``sort``.
            **others: As in ``sort``.

        Raises:
            OptionsError: Arguments that contradict each other.
            SchemaError: A column is unknown or cannot be compared.
        """
        from exoshuffle.operators.repartition.shuffle import repartition_shuffle

        refuse_arguments("repartition", others)
        if (num_partitions is None) == (target_size is None):
            raise OptionsError("repartition needs one of num_partitions and target_size")
        target = None if target_size is None else parse_bytes(target_size)
        if target is not None and target < 1:
            raise OptionsError(f"target_size is {target}; it must be at least 1 byte")
        keys = () if by is None else once(names_of(by, "by"))
        shuffle = repartition_shuffle(self.schema, keys, assignment_named(method, bool(keys)))
        return self._shuffled(shuffle, ShuffleOptions(strategy, num_partitions, target))

    # The names by which users of Spark and pandas know these.
    order_by = sort

    def sort_values(
        self,
        by: str | Sequence[str],
        ascending: bool | Sequence[bool] = True,
        na_position: str = "last",
    ) -> Dataset:
        """Sorts with the arguments of pandas; see ``sort``."""
        if isinstance(ascending, bool):
            return self.sort(by, descending=not ascending, nulls=na_position)
        return self.sort(by, descending=[not up for up in ascending], nulls=na_position)

    def nlargest(self, n: int, columns: str | Sequence[str]) -> Dataset:
        """Keeps the n rows with the largest values; see ``top_k``."""
        return self.top_k(n, columns)

    def nsmallest(self, n: int, columns: str | Sequence[str]) -> Dataset:
        """Keeps the n rows with the smallest values; see ``top_k``."""
        return self.top_k(n, columns, descending=False)

    def _shuffled(
        self, shuffle: Shuffle, options: ShuffleOptions, others: Sequence[Node] = ()
    ) -> Dataset:
        """Returns the dataset of a shuffle of these rows, and of those of other trees."""
        return self._made(_checked(ShuffleNode((self.node, *others), shuffle, options)))


def _sorted(child: Node, keys: tuple[SortKey, ...], options: ShuffleOptions) -> ShuffleNode:
    """Returns the tree of a sort."""
    schema = child.schema
    check_names(keys, schema.names)
    # A stable sort of sorted rows is one sort by the keys of both, those of the later sort first.
    while isinstance(child, ShuffleNode) and (earlier := sort_keys(child.shuffle)) is not None:
        new = {key.column for key in keys}
        keys += tuple(key for key in earlier if key.column not in new)
        child = child.children[0]
    return _checked(ShuffleNode((child,), sort_shuffle(schema, ByKeys(keys)), options))


def _checked(node: ShuffleNode) -> ShuffleNode:
    """Returns a shuffle whose keys fit: building the native object raises otherwise."""
    for side in node.shuffle.sides:
        rows_config(side.schema, side.order).build()
    return node
