"""``Grouped``: the operations on groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from exoshuffle.arguments import repeated
from exoshuffle.dataset.elsewhere import ON_GROUPS
from exoshuffle.dataset.jobs.learning import learnt
from exoshuffle.dataset.tree.nodes import ShuffleOptions
from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batch_formats import with_format
from exoshuffle.operators.core.keys import names_in, names_of
from exoshuffle.operators.core.shuffle import Shuffle
from exoshuffle.operators.group_by.functions import ALIASES, FUNCTIONS, accepts, function_of
from exoshuffle.operators.group_by.parsing import AggregateSpec
from exoshuffle.operators.group_by.text import parse_aggregate_text
from exoshuffle.operators.group_by.written import GroupPlan, plan_groups
from exoshuffle.operators.map_groups.shuffle import map_groups_shuffle
from exoshuffle.operators.map_groups.step import first_group
from exoshuffle.operators.sql.elsewhere import remedy_for
from exoshuffle.operators.sql.expressions import Expr
from exoshuffle.operators.steps.columns import WithColumns
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.step import Step, steps_schema
from exoshuffle.units import option_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: The results of operations on groups. The classes of these names import this file, so it cannot import them.
Dataset = TypeVar("Dataset")
Aggregated = TypeVar("Aggregated")


@dataclass(frozen=True)
class Grouped(Generic[Dataset, Aggregated]):
    """Groups of rows with equal keys; made by ``Dataset.group_by``.

    Attributes:
        schema: Schema of the rows.
        keys: Names of the keys, with the SQL of those that are expressions.
        options: How to run the shuffle.
        shuffled: Makes the dataset of a shuffle of the rows behind steps.
        aggregated: Makes the dataset of aggregates.
        first_rows: Reads a few of the first rows behind steps; None where a shuffle would have to make them.
        chosen: Columns that ``sum`` and its siblings aggregate; without any, all that they can.
    """

    schema: pa.Schema
    keys: Mapping[str, str | None]
    options: ShuffleOptions
    shuffled: Callable[[Shuffle, ShuffleOptions, tuple[Step, ...]], Dataset]
    aggregated: Callable[[GroupPlan, ShuffleOptions], Aggregated]
    first_rows: Callable[[tuple[Step, ...]], pa.Table | None]
    chosen: tuple[str, ...] = ()

    def __repr__(self) -> str:
        chosen = f", columns={list(self.chosen)}" if self.chosen else ""
        return f"Grouped(keys={list(self.keys)}{chosen}); agg(), its siblings and map_groups() make a dataset of it"

    if not TYPE_CHECKING:  # else every name that is wrong would seem right

        def __getattr__(self, name: str) -> Any:
            remedy = remedy_for(name, ON_GROUPS, Grouped)
            column = f'"{name}"' if name in self.schema.names else "column"
            remedy = remedy or f"write agg(name=({column}, function))"
            raise AttributeError(f"groups have no attribute {name!r}; {remedy}")

    def __getitem__(self, columns: str | Sequence[str]) -> Grouped[Dataset, Aggregated]:
        """Chooses the columns of ``sum`` and its siblings: ``group_by("k")[["x", "y"]].sum()``."""
        return replace(self, chosen=names_of(columns, "brackets"))

    def agg(
        self,
        /,
        *given: str | Expr | Mapping[str, str | Sequence[str]] | Sequence[Any],
        **aggregates: AggregateSpec | Expr,
    ) -> Aggregated:
        """Makes one row per group, with the keys and ``name=(column, function)`` for each aggregate.

        The functions take values that are not null (``exoshuffle.operators.group_by.aggregate`` has their results):

        * of any: ``count``, ``count_distinct``, ``approx_count_distinct``, ``min``, ``max``, ``first`` and ``last`` in
          input order, ``top_k`` (k), ``list`` (with nulls);
        * of numbers: ``sum`` and ``mean`` (of booleans, too), ``var`` and ``std`` of a sample, ``median``,
          ``quantile`` (fraction), ``approx_quantile`` (fraction);
        * of two columns of numbers, as in ``r="corr(y, x)"`` or ``r=("y", "corr", "x")``: ``corr``, ``covar_samp``,
          ``covar_pop``, ``regr_slope``, ``regr_intercept``;
        * of booleans: ``any``, ``all``.

        NaN is greater than all numbers, and infinities are values like others. ``approx_quantile`` is the exception: it
        leaves NaN and infinities out, and is null where nothing else is there.

        Aggregates are also of expressions, and in expressions: ``total="sum(price * quantity)"``, ``share="sum(x) /
        count(*)"``, or the objects ``(xs.col("price") * 2).sum()`` and ``xs.col("x").sum() / xs.len()``. They may have
        ``DISTINCT`` in ``count``, and ``FILTER (WHERE ...)``.

        Args:
            *given: Aggregates as on the command line: ``"n=count(), total=sum(x), p90=quantile(x, 0.9)"``. Or as
                objects: ``xs.col("x").sum().alias("total")``. Or functions by column: ``{"x": "sum", "y": "mean"}``,
                where several functions of a column name theirs ``x_sum``. Or a list of these.
            **aggregates: By name of the new column: ``"count"``, ``(column, function)`` or ``(column, function,
                parameter)``, for example ``n="count", total=("x", "sum"), p90=("x", "quantile", 0.9)``; SQL or objects.

        Returns:
            A dataset; its ``stream`` yields estimates while the aggregation runs.

        Raises:
            SchemaError: A column is unknown, or its type does not have the function.
            OptionsError: An unknown function, a bad parameter, a name twice, no aggregate at all.

        Cost: maps combine the rows of a split where that sends fewer bytes, as measured before work starts. Only keys
        and aggregated columns travel.
        """
        specs: dict[str, AggregateSpec] = {}
        for each in (*map(_specs, given), aggregates):
            for name, spec in each.items():
                if name in specs:
                    raise OptionsError(f"two aggregates have the name {name!r}; names must differ")
                specs[name] = _written(name, spec)
        return self.aggregated(plan_groups(self.schema, self.keys, specs), self.options)

    def count(self) -> Aggregated:
        """Makes one row per group, with the keys and the number of its rows as ``count``."""
        return self.agg(count="count")

    def len(self, name: str = "len") -> Aggregated:
        """Does as ``count``, with Polars' name for the column."""
        return self.agg(**{name: "count"})

    def sum(self, *columns: str | Sequence[str]) -> Aggregated:
        """Makes one row per group, with the keys and the sum of each column under its name.

        Args:
            *columns: The columns; default: all but the keys whose type has this function.
        """
        return self._each("sum", columns)

    def mean(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives means, as ``sum`` gives sums."""
        return self._each("mean", columns)

    def min(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives the least values, as ``sum`` gives sums."""
        return self._each("min", columns)

    def max(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives the greatest values, as ``sum`` gives sums."""
        return self._each("max", columns)

    def std(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives standard deviations of samples, as ``sum`` gives sums."""
        return self._each("std", columns)

    def var(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives variances of samples, as ``sum`` gives sums."""
        return self._each("var", columns)

    def n_unique(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives the numbers of different values that are not null, as ``sum`` gives sums; ``nunique`` is the same."""
        return self._each("count_distinct", columns)

    def median(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives medians, as ``sum`` gives sums."""
        return self._each("median", columns)

    def first(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives the first values in input order, as ``sum`` gives sums."""
        return self._each("first", columns)

    def last(self, *columns: str | Sequence[str]) -> Aggregated:
        """Gives the last values in input order, as ``sum`` gives sums."""
        return self._each("last", columns)

    def _each(self, function: str, columns: Sequence[str | Sequence[str]]) -> Aggregated:
        """Aggregates columns by one function, each under its own name."""
        names = names_in(columns, function) or self.chosen
        if not names:
            names = tuple(
                field.name
                for field in self.schema
                if field.name not in self.keys
                and accepts(function_of(function, field.type).takes, field.type)
            )
        if not names:
            raise SchemaError(
                f"no column beside the keys has a {function}; name columns in agg(), with functions of their types"
            )
        return self.agg(**{name: (name, function) for name in names})

    # The names by which users of pandas know these.
    aggregate = agg
    size = count
    nunique = n_unique

    def map_groups(
        self,
        function: Callable[[Any], object],
        *,
        schema: pa.Schema | None = None,
        memory: int | str = 0,
        batch_format: str = "pyarrow",
    ) -> Dataset:
        """Hands every group, as a ``pyarrow.Table`` in input order, to a function of yours, in worker processes.

        Args:
            function: Returns a table, a record batch or a dictionary of columns, of any number of rows.
            schema: Schema of its results. Default: that of its result for no rows; it is called for these once, in a
                worker process. If it fails for these, it gets the first group of the first 16 rows,
                where these can be read without a shuffle.
            memory: Memory that it takes beside the group and its result, as in ``Dataset.map_batches``. A group may
                fill the rest of the limit; default: the rest beside a copy of the group.
            batch_format: As in ``Dataset.map_batches``.

        Raises:
            OptionsError: An argument is no function, no schema, or no size.
            FunctionMemoryError: While running: it took more memory than that, and the limit had no more.
            SchemaError: While running: it returned another schema.
        """
        declared = option_bytes("memory", memory, 0)
        call = MapBatches(
            with_format(function, batch_format), schema, memory_bytes=declared, call="map_groups"
        )
        made = tuple((name, sql) for name, sql in self.keys.items() if sql is not None)
        for name, _ in made:
            if name in self.schema.names:
                raise OptionsError(
                    f"the key {name!r} would hide a column from the function; give it another name by alias()"
                )
        steps = (WithColumns(made),) if made else ()
        rows = steps_schema(steps, self.schema)
        keys = tuple(self.keys)
        learns = partial(learnt, first_rows=lambda: first_group(self.first_rows(steps), keys))
        shuffle = map_groups_shuffle(rows, keys, call, learns)
        return self.shuffled(shuffle, self.options, steps)


def _specs(given: object) -> Mapping[str, object]:
    """Returns the aggregates of one argument by name."""
    if isinstance(given, Expr):
        if given.name is None:
            raise OptionsError(f"agg got {shown(given)} without a name; add .alias(name)")
        return {given.name: given}
    if isinstance(given, str):
        return parse_aggregate_text(given)
    if isinstance(given, Mapping):
        return _by_column(given)
    if isinstance(given, Sequence):
        listed = [pair for each in given for pair in _specs(each).items()]
        twice = repeated(name for name, _ in listed)
        if twice:
            raise OptionsError(f"two aggregates have the name {twice[0]!r}; names must differ")
        return dict(listed)
    raise OptionsError(
        f'agg got {shown(given)}; write name=(column, function), text such as "total=sum(x)", or xs.col("x").sum()'
    )


def _by_column(given: Mapping[str, object]) -> Mapping[str, object]:
    """Returns functions by column as aggregates: one has the name of its column, several have their own behind it."""
    found: dict[str, object] = {}
    for column, functions in given.items():
        if isinstance(functions, str) or not isinstance(functions, Sequence):
            found[column] = (column, functions)
        else:
            found |= {f"{column}_{function}": (column, function) for function in functions}
    return found


def _written(name: str, given: Any) -> AggregateSpec:
    """Returns an aggregate as ``plan_groups`` takes it."""
    is_bare = isinstance(given, str) and "(" not in given and given != "count"
    if is_bare and ALIASES.get(given, given) in FUNCTIONS:
        raise OptionsError(
            f"aggregate {name!r} is {given!r}; write (column, {given!r}), or {{column: {given!r}}}"
        )
    is_plain = isinstance(given, Expr) and given.is_column
    return given.text if isinstance(given, Expr) and not is_plain else given
