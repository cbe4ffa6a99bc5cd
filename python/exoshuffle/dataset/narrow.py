"""``Narrow``: the operations on the rows of a dataset that need no shuffle of all rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from exoshuffle.dataset.applying import (
    ROW_OPTIONS,
    Applying,
    Dataset,
    RowOptions,
    options_of_rows,
)
from exoshuffle.dataset.arguments_elsewhere import ARGUMENTS, refuse_arguments
from exoshuffle.dataset.tree import sampling
from exoshuffle.dataset.tree.facts import is_records
from exoshuffle.dataset.tree.nodes import (
    LimitNode,
    MapNode,
    Node,
    ShuffleNode,
    ShuffleOptions,
    UnionNode,
    check_count,
    sources,
)
from exoshuffle.dataset.tree.over import with_windows
from exoshuffle.dataset.tree.seeds import seed_or_fresh
from exoshuffle.dataset.tree.unified import unified
from exoshuffle.errors import OptionsError, SchemaError, shown, unknown
from exoshuffle.operators.core.keys import names_in
from exoshuffle.operators.sort.shuffle import sort_keys
from exoshuffle.operators.sql.expressions import (
    Expr,
    col,
    lit,
    sql,
)
from exoshuffle.operators.sql.given import named_expressions, text_of_expression
from exoshuffle.operators.sql.literals import NUMBERS
from exoshuffle.operators.sql.terms import Operand
from exoshuffle.operators.steps.columns import Drop, Filter, Rename, Select, WithColumns
from exoshuffle.operators.steps.rows import KeepRows
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa


class Narrow(Applying[Dataset]):
    """A dataset's rows and columns."""

    def select(self, /, *columns: str | Expr | Sequence[str], **expressions: Operand) -> Dataset:
        """Keeps columns, in the order given, and adds computed ones.

        Args:
            *columns: Names, lists of them, or expressions with a name: ``(xs.col("x") + 1).alias("y")``.
            **expressions: New columns by name, as SQL, as an expression or as a number: ``total="price * quantity"``.

        Raises:
            OptionsError: A column is given by something else than a name, or an expression is no text.
            SchemaError: An unknown column, an expression that does not fit the schema, or a name twice: columns of the
                result must differ in their names.

        Cost: copies no column that is kept; computes expressions in DuckDB, batch by batch.
        """
        computed, given = _texts(expressions), list[object](columns)
        kept: tuple[str, ...] = ()
        if any(isinstance(each, Expr) for each in _flat(given)):
            computed = (*_in_order(given), *computed)
        else:
            kept = names_in(given, "select")
            _refuse_sql(kept, self.schema)
        node, made, _ = _windowed(self.node, computed, ShuffleOptions())
        return self._stepped_on(node, Select(kept, made))

    def with_columns(self, /, *named: Expr | Sequence[Expr], **expressions: Operand) -> Dataset:
        """Adds columns, or replaces them: ``with_columns(day="date_trunc('day', ts)")``.

        Expressions may have window functions, here and in ``select`` and ``filter``:
        ``with_columns(share="x / sum(x) OVER (PARTITION BY k)")``, or the object ``xs.col("x").sum().over("k")``. Then
        each set of keys takes a shuffle, as ``Dataset.window`` does.

        Args:
            *named: Expressions with a name, as in ``select``.
            **expressions: New columns by name, as in ``select``.

        Raises:
            OptionsError: Something else.
            SchemaError: As ``select``.
        """
        computed = named_expressions("with_columns", _flat(named))
        return self._added((*computed.items(), *_texts(expressions)), ShuffleOptions())

    def drop(
        self,
        *names: str | Sequence[str],
        columns: str | Sequence[str] = (),
        **others: object,
    ) -> Dataset:
        """Leaves columns out: names, or lists of them, also as ``columns=``; a repeated name changes nothing.

        Raises:
            OptionsError: An argument is something else than names.
            SchemaError: An unknown column.
        """
        refuse_arguments("drop", others)
        return self._stepped(Drop(names_in((*names, columns), "drop")))

    def rename(self, columns: Mapping[str, str]) -> Dataset:
        """Gives columns other names, ``{old: new}``.

        Raises:
            OptionsError: The argument is no dictionary of names.
            SchemaError: An unknown column, or a new name that another column has already.
        """
        if not isinstance(columns, Mapping):
            raise OptionsError(
                f"rename got {shown(columns)}; give a dictionary of old names and new ones, {{'old': 'new'}}"
            )
        for name in columns.values():
            if not isinstance(name, str):
                raise OptionsError(f"rename has the new name {shown(name)}; it must be text")
        return self._stepped(Rename(tuple(columns.items())))

    def filter(
        self,
        *conditions: str | Expr | Sequence[str | Expr] | Callable[[dict[str, Any]], object],
        expr: str | Expr | None = None,
        on_error: str = "raise",
        **equal: Any,
    ) -> Dataset:
        """Keeps rows for which conditions hold: ``filter("price > 3 and name like 'x%'")``; null counts as false.

        A condition is SQL, or an expression: ``filter((xs.col("price") > 3) & xs.col("name").str.starts_with("x"))``.

        A function is called with each row as a dictionary, in worker processes, and keeps it by returning True. That
        costs some microseconds for each value, and reads no file less. Other conditions come before it. With
        ``on_error="skip"`` it leaves out rows for which the function fails; see ``map_batches``. Beside a function,
        ``memory``, ``num_cpus``, ``num_gpus``, ``resources``, ``concurrency``, ``ordered``, ``fn_args`` and
        ``fn_kwargs`` are those of ``flat_map``, and no names of columns.

        ``expr`` is one more condition, under the name that Ray Data and pandas have for it. Other arguments by name
        are values that columns of these names must have: ``filter(country="DE")``.

        Conditions joined by ``and`` that name only partition columns decide which files are read at all. Comparisons of
        columns with literals decide which row groups and pages of Parquet are read. Row groups and pages whose
        statistics show that they have no such row are not read. Errors that a condition would raise for their rows do
        not come.

        Conditions that cannot fail, as such comparisons, also come before shuffles and joins that they are written
        behind. They do so as far as the rows of the result are the same. So rows that they drop are not moved.

        Raises:
            OptionsError: No condition, or something else.
            SchemaError: A condition does not fit the schema.
        """
        given = [*_flat(conditions), *(() if expr is None else (expr,))]
        functions = [condition for condition in given if callable(condition)]
        names = ROW_OPTIONS if functions else ()
        options = {name: equal.pop(name) for name in names if name in equal}
        foreign = [name for name in equal if name in ARGUMENTS["filter"]]
        refuse_arguments("filter", [name for name in foreign if name not in self.schema.names])
        given += [col(name) == value for name, value in equal.items()]
        if functions and len(given) > 1:
            plain = [each for each in given if not callable(each)]
            rows: Any = self.filter(*plain) if plain else self
            for function in functions:
                rows = rows.filter(function, on_error=on_error, **options)
            return cast("Dataset", rows)
        if functions:
            return self._kept_by(
                functions[0], options_of_rows("filter", options | {"on_error": on_error})
            )
        if on_error != "raise":
            raise OptionsError(
                f"filter got on_error={shown(on_error)} without a function; give a function, or "
                "leave it out"
            )
        if not given:
            raise OptionsError('filter got nothing; write a condition, such as xs.col("x") > 3')
        texts = [text_of_expression(each) for each in given]
        node, made, added = _windowed(self.node, [("", text) for text in texts], ShuffleOptions())
        condition = made[0][1]
        if len(made) > 1:
            condition = " AND ".join(sql(text).text for _, text in made)
        return self._stepped_on(node, Filter(condition), *_without(added))

    def _kept_by(self, function: Callable[..., object], options: RowOptions) -> Dataset:
        """Keeps rows for which a function returns True."""
        keep = KeepRows(
            options.further.bound(function),
            self.schema,
            memory_bytes=options.memory_bytes,
            on_error=options.on_error,
        )
        return self._with_function(keep, options.needs)

    def union(self, *others: Dataset) -> Dataset:
        """Appends the rows of other datasets to those of this one; duplicates stay.

        Columns are matched by name, and come in the order of this dataset. A column can be null in the result if it can
        be in any of the datasets. Where types differ, the result has the type that holds the values of all: see
        "Types that meet" in docs/formats.md.

        Raises:
            OptionsError: An argument is no dataset.
            SchemaError: The datasets differ in their columns, or types have no common one; or fixed-length records
                differ in their keys.
        """
        check_datasets("union", others)
        nodes = [self.node, *(other.node for other in others)]
        _check_keys(nodes)
        return self._made(UnionNode(unified(nodes)))

    def limit(self, count: int) -> Dataset:
        """Keeps the first rows. Works on no more of the input than needed, and a few partitions ahead.

        Of files whose rows come out one by one as they are, it reads no row groups or batches but those of its rows.

        Finds the first rows of a sort as ``top_k`` does, if the sort was given neither a strategy nor a number of
        partitions. It does so also where ``select``, ``drop`` and ``rename`` stand between.

        Raises:
            OptionsError: The number is negative.
        """
        check_count("limit", count)
        node, steps = self.node, list[Step]()
        # The first rows of a sort are found by its keys, whatever becomes of its columns behind it.
        while isinstance(node, MapNode) and node.step.keeps_all:
            steps.insert(0, node.step)
            node = node.child
        if isinstance(node, ShuffleNode) and sort_keys(node.shuffle) is not None:
            return self._stepped_on(LimitNode(node, count), *steps)
        return self._made(LimitNode(self.node, count))

    def sample(
        self,
        n: int | None = None,
        *,
        fraction: float | None = None,
        seed: int | None = None,
        **others: object,
    ) -> Dataset:
        """Chooses some of the rows at random, without replacement.

        A pseudo-random number of the seed, the file and the place in the file decides about a row. So the same seed
        chooses the same rows. The engine, the memory limit, the number of CPUs, and steps in between such as ``filter``
        and ``select`` do not matter. From results of shuffles, limits and ``map_batches`` it chooses the same rows as
        long as they are cut into the same parts. A union numbers files and parts anew, and a join does parts. So a
        sample below a union is another choice than alone: two samples there may share rows that they do not share
        alone.

        Args:
            n: Number of rows: exactly so many, or all if there are fewer. Every subset of this size is as likely as any
                other. They come in random order: they are the first n of ``random_shuffle(seed)``.
            fraction: Instead of ``n``: each row is kept with this probability, independently of the others. So their
                number varies by about the square root of it. Rows keep their order.
            seed: From 0 to 2**64 - 1. A sample of a sample is a new choice, even with the same seed. Default: a fresh
                one, the same for all results of this dataset; ``seeds``, ``explain()`` and results of writing tell it.
            **others: None; arguments of pandas and Polars are refused with what to write instead.

        Raises:
            OptionsError: Both or none of ``n`` and ``fraction``, or one out of range.

        Cost: reads the input once. ``fraction`` needs no shuffle; ``n`` is found as by ``top_k``.
        """
        refuse_arguments("sample", others)
        if n is not None and fraction is None:
            return self._made(sampling.rows_of(self.node, n, seed_or_fresh(seed)))
        if fraction is not None and n is None:
            return self._made(sampling.fraction_of(self.node, fraction, seed_or_fresh(seed)))
        raise OptionsError("sample needs one of n and fraction")

    # --- internals ---------------------------------------------------------------------------------------------

    def _added(self, expressions: Sequence[tuple[str, str]], options: ShuffleOptions) -> Dataset:
        """Adds columns of named expressions; ``options`` are for the shuffles of window functions in them."""
        node, made, added = _windowed(self.node, expressions, options)
        return self._stepped_on(node, WithColumns(made), *_without(added))


def _windowed(
    node: Node, expressions: Sequence[tuple[str, str]], options: ShuffleOptions
) -> tuple[Node, tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Returns the rows with the columns of window functions in named expressions; see ``tree.over``."""
    names = [name for name, _ in expressions]
    node, made, added = with_windows(node, [text for _, text in expressions], options)
    return node, tuple(zip(names, made, strict=True)), added


def _without(added: tuple[str, ...]) -> tuple[Step, ...]:
    """Returns the steps that leave added columns out."""
    return (Drop(added),) if added else ()


def _texts(expressions: Mapping[str, Operand]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, lit(given).text if isinstance(given, NUMBERS) else text_of_expression(given))
        for name, given in expressions.items()
    )


def _flat(given: Iterable[object]) -> list[object]:
    """Returns arguments, with the parts of those that are lists."""
    parts = (each if isinstance(each, list | tuple) else (each,) for each in given)
    return [part for each in parts for part in each]


def _in_order(columns: Iterable[object]) -> list[tuple[str, str]]:
    """Returns names and expressions as expressions: one that is only a column is that column."""
    listed: list[Expr] = []
    for each in _flat(columns):
        names = [each] if isinstance(each, Expr) else map(col, names_in([each], "select"))
        listed.extend(names)
    return list(named_expressions("select", listed).items())


def check_datasets(operator: str, others: Sequence[object]) -> None:
    """Raises ``OptionsError`` unless all are datasets."""
    for other in others:
        if not isinstance(other, Narrow):
            kind = type(other)
            is_list = isinstance(other, list | tuple)
            remedy = (
                f"write a * before a list of datasets, {operator}(*datasets)"
                if is_list and operator == "union"
                else "make a dataset of a table in memory by from_arrow"
            )
            raise OptionsError(
                f"{operator} takes a Dataset, and got a {kind.__module__}.{kind.__qualname__}; {remedy}"
            )


def _check_keys(nodes: Sequence[Node]) -> None:
    """Raises ``SchemaError`` where records have keys of different sizes: they would have no common key to sort by."""
    read = [source for node in nodes if is_records(node) for source in sources(node)]
    sizes = sorted({int(source.key_bytes) for source in read})
    if len(sizes) > 1:
        raise SchemaError(
            f"union needs records with keys of one size, and these have {sizes[0]} and {sizes[-1]} bytes; read all "
            "with the same key_size"
        )


def _refuse_sql(names: Sequence[str], schema: pa.Schema) -> None:
    """Raises ``SchemaError`` for SQL in the place of a name, with how to write it: it would be an unknown column."""
    for name in names:
        if schema.get_field_index(name) >= 0 or name.isidentifier() or name in schema.names:
            continue
        several = [part.strip() for part in name.split(",")]
        alias = re.fullmatch(r"(.+)\sas\s+(\w+)", name, re.IGNORECASE | re.DOTALL)
        if name == "*":
            remedy = "select(*dataset.columns) for all"
        elif set(several) <= set(schema.names):
            remedy = f"select({', '.join(map(repr, several))}) for several columns"
        elif alias is not None:
            remedy = f"select({alias[2]}={alias[1].strip()!r}) for an expression"
        else:
            remedy = f"select(name={name!r}) for an expression"
        raise SchemaError(f"{unknown('column', name, schema.names)}; write {remedy}")
