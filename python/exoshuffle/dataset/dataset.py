"""``Dataset``: the operations of all its families, with groups, windows, pivots and summaries; lazy until a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.merging import merging
from exoshuffle.dataset.narrow import check_datasets
from exoshuffle.dataset.summarizing import Summarizing
from exoshuffle.dataset.tree.nodes import Node, ShuffleOptions
from exoshuffle.dataset.tree.seeds import seed_or_fresh
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.core.computed import aliased, key_expressions, named_keys
from exoshuffle.operators.core.keys import names_of, once
from exoshuffle.operators.sql.expressions import Columns, Expr, col
from exoshuffle.operators.sql.given import function_texts, text_of_expression
from exoshuffle.operators.sql.over import RangeFrame, RowFrame
from exoshuffle.operators.sql.parsing import column
from exoshuffle.operators.steps.columns import WithColumns
from exoshuffle.strategies.strategy import Strategy

if TYPE_CHECKING:
    from exoshuffle.dataset.grouped import Grouped
    from exoshuffle.dataset.partial import Partial
    from exoshuffle.operators.core.shuffle import Shuffle
    from exoshuffle.operators.group_by.written import GroupPlan
    from exoshuffle.operators.steps.step import Step


class Dataset(Summarizing["Dataset"]):
    """A table, or fixed-length records, in files; made by ``read_parquet`` and its siblings.

    A dataset reads no rows until a program asks for a result: by ``write_*``, ``to_arrow``, ``iter_batches`` or the
    Arrow stream protocol. So ``pyarrow.table(dataset)``, ``polars.DataFrame(dataset)`` and DuckDB take it as it is.
    """

    def group_by(
        self,
        *keys: Columns,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
        **named: str | Expr,
    ) -> Grouped[Dataset, Aggregated]:
        """Groups rows with equal keys: ``group_by("k").agg(n="count", total=("x", "sum"))``.

        Null is a key like any other, NaN is one value, and −0.0 equals 0.0.

        Args:
            *keys: Columns, expressions, or a list of them: ``group_by("year(ts)")``, or the object
                ``xs.col("ts").dt.year()``. The column of an expression is named by its text, or as the object is. A
                repeated column changes nothing. Without any, all rows are one group.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.
            **named: Expressions by the name of their column: ``group_by(year="year(ts)")``.

        Raises:
            OptionsError: An argument is something else than names and expressions, or two keys have one name.
            SchemaError: A column is unknown, or an expression does not fit the schema.
        """
        from exoshuffle.dataset.grouped import Grouped

        options = ShuffleOptions(strategy, num_partitions)
        refuse_arguments("group_by", [name for name in named if not _is_key(named[name])])
        found = named_keys("group_by", (*keys, *aliased(named)), self.schema)
        makers = self._shuffled_behind, self._aggregated, self._first_rows
        return Grouped(self.schema, found, options, *makers)

    def window(  # noqa: PLR0913  the parts of an OVER clause
        self,
        *named: Expr,
        partition_by: Columns = (),
        order_by: Columns = (),
        descending: bool | Sequence[bool] = False,
        nulls: str | Sequence[str] = "last",
        frame: RowFrame | None = None,
        range_frame: RangeFrame | None = None,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
        **functions: str | Expr,
    ) -> Dataset:
        """Adds columns of window functions: values for each row, from the rows of the same keys, which all stay.

        For example ``window(partition_by="k", order_by="t", n="row_number()", before="lag(x)", total="sum(x)")``.
        ``with_columns`` takes the same functions with an OVER clause, in expressions, and under any name.

        The functions are (``exoshuffle.operators.over.functions``):

        * ``row_number()``, ``rank()``, ``dense_rank()``, ``percent_rank()``, ``cume_dist()``, ``ntile(n)``;
        * ``lag(x)``, ``lag(x, n)``, ``lag(x, n, default)`` and ``lead``, of any type;
        * ``first_value(x)``, ``last_value(x)``, ``nth_value(x, n)``; nulls are values, but for
          ``first_value(x IGNORE NULLS)``;
        * ``count(*)``, ``count(x)``, ``count(DISTINCT x)``, ``sum``, ``mean``, ``min``, ``max``, ``var``, ``std``,
          ``any``, ``all``, ``median`` and ``quantile(x, fraction)``, as in ``Grouped.agg``.

        Rows of equal order come in input order where one has to be before the other; they have one rank. Keys and order
        values are equal as in ``group_by`` and ``sort``. Rows of a key keep their input order in the result. Keys come
        in any order, so sort the result where that matters.

        Args:
            *named: Functions as objects, named by ``alias``: ``xs.row_number()``, ``xs.col("x").sum().alias("total")``.
            partition_by: The keys, as names, SQL, expressions or a list of them. Without any all rows are one key,
                which must fit into memory.
            order_by: The order of the rows of a key, likewise. With it, an aggregate without a frame is of all rows up
                to this one and those of equal order, as in SQL.
            descending: As in ``sort``.
            nulls: As in ``sort``.
            frame: The first and last row that an aggregate, or ``first_value`` and its siblings, sees, counted from the
                row itself. So ``(-2, 0)`` is the row and the two before it, ``(None, 0)`` all up to it,
                ``(None, None)`` all rows of the key.
            range_frame: The same as distances of the values of the only ``order_by``: numbers, or timedeltas for times;
                a day has 24 hours.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.
            **functions: The functions by the name of the new column, as SQL or as objects. A column of that name is
                replaced.

        Raises:
            OptionsError: No function, or arguments that contradict each other.
            SchemaError: An unknown column or function, or one that does not fit the types of its columns.
            InputError: While running: a result that its type cannot hold.
            LargeGroupError: While running: the rows of one key do not fit into memory.

        Cost: as ``sort``, and a sort of each key for each order. One shuffle for all functions.
        """
        options = ShuffleOptions(strategy, num_partitions)
        keys = key_expressions("partition_by", partition_by, self.schema)
        order = key_expressions("order_by", order_by, self.schema)
        made = {
            name: Expr(text)
            .over(
                keys,
                order_by=order,
                descending=descending,
                nulls=nulls,
                frame=frame,
                range_frame=range_frame,
            )
            .text
            for name, text in function_texts(named, functions).items()
        }
        return self._added(tuple(made.items()), options)

    def distinct(
        self,
        subset: str | Sequence[str] | None = None,
        *,
        keep: str = "first",
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
        **others: object,
    ) -> Dataset:
        """Drops duplicates: the first of equal rows, in input order, stays. Many rows come in no certain order.

        Args:
            subset: Columns to compare; a repeated column changes nothing. Default: all.
            keep: Which of equal rows stays: ``"first"``, or ``"any"``, which is the same here.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.
            **others: As in ``sort``.

        Raises:
            SchemaError: A column is unknown or cannot be compared.
        """
        from exoshuffle.operators.distinct.distinct import parse_distinct
        from exoshuffle.operators.distinct.shuffle import distinct_shuffle

        refuse_arguments("distinct", others)
        if keep not in ("first", "any"):
            raise OptionsError(
                f'keep is {shown(keep)}; it must be "first", and for other rows write '
                "filter(xs.row_number().over(keys, order_by=names) == 1)"
            )
        names = None if subset is None else once(names_of(subset, "subset"))
        rows = parse_distinct(self.schema, names)
        return self._shuffled(distinct_shuffle(rows), ShuffleOptions(strategy, num_partitions))

    def join_where(
        self, other: Dataset, *conditions: str | Expr, suffix: str = "_right"
    ) -> Dataset:
        """Joins with another dataset where conditions hold: ``join_where(bands, "low <= price", "price < high")``.

        Every pair of rows for which all conditions are true comes once, with the columns of both; null counts as false.

        Args:
            other: The right side.
            *conditions: SQL or expressions over the columns of both sides.
            suffix: Added to columns of the right side whose names the left side has too, also in conditions.

        Raises:
            OptionsError: No condition, or something else.
            SchemaError: A condition does not fit the columns.

        Cost: equal columns, ``a = b``, make it a ``join`` by these, and what names one side filters it before. Else
        comparisons of numbers, days or moments, ``a <= b``, have both sides sorted, and cost what their pairs cost.
        Without either it is a cross join, whose pairs are filtered as they are made. The memory limit holds, and the
        time grows with the product of both sides.
        """
        from exoshuffle.operators.join.conditions import crossing, parse_conditions
        from exoshuffle.operators.join.shuffle import join_shuffle

        check_datasets("join_where", [other])
        if not conditions:
            raise OptionsError('join_where got no condition; write one, such as "low <= price"')
        ours = set(self.columns)
        shared = [name for name in other.columns if name in ours]
        theirs = other.rename({name: f"{name}{suffix}" for name in shared})
        texts = [text_of_expression(each) for each in conditions]
        parsed = parse_conditions(texts, self.schema, theirs.schema, suffix)
        sides = [
            side.filter(*found) if found else side
            for side, found in ((self, parsed.left), (theirs, parsed.right))
        ]
        if parsed.keys:
            left_on, right_on = map(list, zip(*parsed.keys, strict=True))
            joined = sides[0].join(sides[1], left_on=left_on, right_on=right_on)
        else:
            crossed = join_shuffle(crossing(sides[0].schema, sides[1].schema, parsed.both))
            joined = sides[0]._shuffled(crossed, ShuffleOptions(), (sides[1].node,))  # noqa: SLF001  another of ours
        return joined.filter(*parsed.both) if parsed.both else joined

    def pivot(
        self,
        on: str,
        *,
        index: str | Sequence[str],
        values: str,
        aggregate: str = "first",
        on_columns: Sequence[object] | None = None,
        **others: object,
    ) -> Dataset:
        """Makes a row for each group of ``index``, with a column for each value of another column.

        Args:
            on: The column whose values become columns. They are named by these values as text, null as ``null``.
                Without values the result has the columns of ``index`` alone.
            index: The columns to group by.
            values: The column that is aggregated, over the rows of a group that have the value.
            aggregate: A function of one column, as in ``Grouped.agg``. Where a group has no such rows, the result is
                that of no values: null, or 0 for ``count``.
            on_columns: The values that become columns, in this order. Default: all, in their order; the input is read
                at once for that.
            **others: As in ``sort``.

        Raises:
            OptionsError: More than 1,000 values, or an unknown function.
            SchemaError: An unknown column or type for the function, two columns of one name, durations as ``on``.

        Cost: as two ``group_by``; without ``on_columns`` also a ``distinct``, when it is called.
        """
        from exoshuffle.dataset.pivoting import MAX_COLUMNS, check_on, pivoted
        from exoshuffle.operators.core.order import check_group_keys
        from exoshuffle.operators.sql.relational import as_python

        refuse_arguments("pivot", others)
        keys = once(names_of(index, "index"))
        for name in (*keys, on, values):
            column(name, self.schema)
        check_on(self.schema.field(on))
        check_group_keys(self.schema, keys)
        found = on_columns
        if found is None:
            different = self.select(on).distinct().limit(MAX_COLUMNS + 1)
            found = [as_python(value) for value in different.sort(on).to_arrow()[on]]
        if not found:
            return self.select(*keys).distinct()
        made = pivoted(on, values, found, aggregate, keys)
        numbered = self.with_columns(**made.numbers).group_by(*keys, *made.numbers)
        lists = numbered.agg(**made.aggregates).group_by(*keys).agg(**made.lists)
        return lists.select(*keys, **made.columns)

    def agg(self, /, *given: Any, **aggregates: Any) -> Aggregated:
        """Aggregates all rows, into one: ``agg(n="count", total="sum(price * quantity)")``; see ``Grouped.agg``."""
        return self.group_by().agg(*given, **aggregates)

    # The names by which users of pandas and Polars know these.
    groupby = group_by
    aggregate = agg
    unique = drop_duplicates = distinct

    def merge(
        self,
        right: Dataset,
        how: str = "inner",
        on: str | Sequence[str] | None = None,
        *,
        left_on: str | Sequence[str] | None = None,
        right_on: str | Sequence[str] | None = None,
        suffixes: tuple[str, str] = ("_x", "_y"),
        **others: object,
    ) -> Dataset:
        """Joins with the arguments of pandas; see ``join``. Null equals nothing, as in SQL and other than in pandas.

        Args:
            right: The right side.
            how: As in ``join``, or ``outer``.
            on: As in ``join``; default: the columns that both sides have, unless ``left_on`` is given.
            left_on: As in ``join``.
            right_on: As in ``join``.
            suffixes: Added to columns that both sides have and that are no keys.
            **others: As in ``sort``.
        """
        refuse_arguments("merge", others)
        check_datasets("merge", [self, right])
        made = merging(self.schema, right.schema, how, (on, left_on, right_on), suffixes)
        ours, theirs = self.rename(made.left_names), right.rename(made.right_names)
        return ours.join(theirs, how=how, **made.keys)

    def pivot_table(
        self,
        values: str,
        index: str | Sequence[str],
        columns: str | Sequence[str],
        aggfunc: str = "mean",
    ) -> Dataset:
        """Pivots with the arguments of pandas, of one column of ``values`` and one of ``columns``; see ``pivot``.

        There is a column for each value of ``columns``. pandas drops those in which all is null; here they stay, since
        the columns must be known before the values are.
        """
        names = names_of(columns, "columns")
        if len(names) != 1:
            raise OptionsError(f"columns is {shown(columns)}; pivot_table takes one column")
        return self.pivot(names[0], index=index, values=values, aggregate=aggfunc)

    def value_counts(self, *names: str | Sequence[str]) -> Dataset:
        """Counts the rows with each value of columns, as ``count``; the most frequent come first."""
        return self.group_by(*names).agg(count="count").sort("count", descending=True)

    def null_count(self) -> Dataset:
        """Counts the nulls of each column, in one row."""
        names = self.schema.names
        nulls = self.select(*(col(name).is_null().cast("int64") for name in names))
        sums = nulls.group_by().agg(**{name: (name, "sum") for name in names})
        return sums.select(*(col(name).fill_null(0).cast("int64") for name in names))

    # --- internals ---------------------------------------------------------------------------------------------

    def _made(self, node: Node) -> Dataset:
        return Dataset(node)

    def _shuffled_behind(
        self, shuffle: Shuffle, options: ShuffleOptions, steps: tuple[Step, ...] = ()
    ) -> Dataset:
        """Returns the dataset of a shuffle of these rows behind steps."""
        return self._stepped(*steps)._shuffled(shuffle, options)  # noqa: SLF001  a dataset's own

    def _aggregated(self, plan: GroupPlan, options: ShuffleOptions) -> Aggregated:
        from exoshuffle.operators.group_by.shuffle import group_by_shuffle

        steps = (WithColumns(plan.before),) if plan.before else ()
        groups = self._shuffled_behind(group_by_shuffle(plan.grouping), options, steps)
        made = groups.select(**dict(plan.after)) if plan.after else groups
        return Aggregated(made.node, groups.node, plan, options)


class Aggregated(Dataset):
    """Groups and aggregates, made by ``Grouped.agg``: a dataset that can also be watched.

    Attributes:
        groups: The groups, before expressions of several aggregates are computed.
        plan: The keys and the aggregates.
        options: How to run the shuffle; ``stream`` has a strategy of its own.
    """

    def __init__(self, node: Node, groups: Node, plan: GroupPlan, options: ShuffleOptions) -> None:
        super().__init__(node)
        self.groups = groups
        self.plan = plan
        self.options = options

    def stream(self, seed: int | None = None) -> Iterator[Partial]:
        """Yields partial results while the aggregation runs, each of more of the input, the last one of all of it.

        Counts, sums and means are estimates for the whole input. Each has a column ``<name>_error``, a double in the
        unit of the estimate. In about 95 % of cases, the truth is no further than that from the estimate. That holds as
        far as the parts that were read, at random, are like the others. The error is a rough guess after two or three
        parts, or where few parts have most rows. Errors are zero in the last result and only there. They are null where
        they cannot be told: one part read, no value seen, or a sum of zeros. So are those of a mean of values of one
        part, or of equal ones. ``min``, ``max``, ``first``, ``last``, ``any``, ``all``, ``std`` and ``var`` are of the
        rows read so far. Groups that were not seen yet are missing. Estimates that do not fit the type of their column
        are null.

        The next part is computed while the program looks at a result. Breaking out of the loop ends the aggregation.

        Args:
            seed: Seed of the order in which the input is read, from 0 to 2**64 - 1; default: a fresh one, which the
                results tell.

        Raises:
            OptionsError: At once: a seed out of range, or a function that needs more than one row per group
                (``median``, ``count_distinct`` …). Also an expression of several aggregates, or a column with the name
                of an error.
            InputError: While it runs: the type of a sum cannot hold the sum of the rows read so far.

        Cost: reads the input once. States are blocks of a row per group, and at most one more row for each ``min``,
        ``max``, ``first`` and ``last``. States are merged and read once per round, up to 16 times. A result is a table
        in memory, outside the memory limit. Source: Exoshuffle §3.6.1; the formulae are in
        ``exoshuffle.operators.online.estimates``.
        """
        from exoshuffle.dataset.online import partials

        if self.plan.after:
            raise OptionsError(
                "stream estimates aggregates, and no expressions of several; give each aggregate a column of its own, "
                "and compute with their estimates"
            )
        return partials(self.groups, self.plan.grouping, self.options, seed_or_fresh(seed))


def _is_key(given: object) -> bool:
    return isinstance(given, str | Expr)
