"""Makes a ``GroupBy`` from the arguments of users, and refuses unsuitable ones before work starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError, SchemaError
from exoshuffle.operators.core.keys import names_of
from exoshuffle.operators.group_by.aggregate import GroupBy
from exoshuffle.operators.group_by.columns import Aggregate
from exoshuffle.operators.group_by.functions import (
    ALIASES,
    FUNCTIONS,
    ROWS,
    accepts,
    function_of,
    parameter_sql,
)
from exoshuffle.operators.group_by.pairs import PAIR_FUNCTIONS
from exoshuffle.operators.sql.expressions import Expr
from exoshuffle.operators.sql.groups import check_column, check_keys
from exoshuffle.operators.sql.relational import is_common

if TYPE_CHECKING:
    import pyarrow as pa

#: One aggregate as users write it: ``"count"``, ``(column, function)`` or ``(column, function, parameter)``. Other text
#: is SQL, which ``written.plan_groups`` makes such aggregates of.
AggregateSpec = str | tuple[str, str] | tuple[str, str, float] | tuple[str, str, str]


def parse_aggregates(
    schema: pa.Schema, keys: Sequence[str], aggregates: Mapping[str, AggregateSpec]
) -> GroupBy:
    """Returns ``GroupBy`` for the arguments of ``Dataset.group_by`` and ``agg``.

    Args:
        schema: The schema of the input.
        keys: Columns to group by; without any, all rows are one group.
        aggregates: By name of the new column: ``"count"``, ``(column, function)`` or ``(column, function, parameter)``.

    Raises:
        OptionsError: No aggregate, an unknown function, a bad parameter, or a name that a key has.
        SchemaError: An unknown column, or a function that is not defined for a column's type.

    Cost: some milliseconds, since the queries are tried on no rows.
    """
    check_keys(schema, keys)
    if not aggregates:
        raise OptionsError('agg needs at least one aggregate, for example n="count"')
    refuse_key_names(keys, aggregates)
    parsed = [_parse(schema, name, spec) for name, spec in aggregates.items()]
    grouping = GroupBy(schema, tuple(keys), tuple(parsed))
    for item in parsed:
        _check_type(schema, item)
    if not all(is_common(schema.field(column).type) for column in grouping.columns):
        _check(grouping)
    return grouping


def refuse_key_names(keys: Iterable[str], aggregates: Iterable[str]) -> None:
    """Raises ``OptionsError`` if an aggregate has the name of a key."""
    for name in set(keys).intersection(aggregates):
        raise OptionsError(f"aggregate {name!r} has the name of a key; give it another")


def _parse(schema: pa.Schema, name: str, spec: AggregateSpec) -> Aggregate:
    if isinstance(spec, str) and spec == "count":
        return Aggregate(name, "count", ROWS)
    parts = list(spec) if isinstance(spec, tuple | list) else []
    if parts and isinstance(parts[0], Expr):
        parts[:1] = names_of(parts[0], f"aggregate {name!r}")
    if len(parts) not in (2, 3) or not all(isinstance(part, str) for part in parts[:2]):
        raise OptionsError(
            f'aggregate {name!r} is {spec!r}; write "count", (column, function), (column, function, parameter), or SQL '
            'such as "sum(x * y)"'
        )
    column, written = str(parts[0]), str(parts[1])
    function = ALIASES.get(written, written)
    if function not in FUNCTIONS:
        raise OptionsError(
            f"aggregate {name!r} asks for {written!r}, which is none of {', '.join(sorted(FUNCTIONS))}"
        )
    check_column(schema, column)
    definition = function_of(function, schema.field(column).type)
    return Aggregate(name, function, definition, column, parameter_sql(function, parts[2:]))


def _check_type(schema: pa.Schema, item: Aggregate) -> None:
    import pyarrow as pa

    takes = item.definition.takes
    if item.column is not None and not accepts(takes, schema.field(item.column).type):
        if item.function in PAIR_FUNCTIONS:
            raise SchemaError(
                f"{item.function} takes two columns, and was asked of {item.column!r} alone; write "
                f"{item.function}(y, x)"
            )
        remedy = "cast the column or choose another function"
        if pa.types.is_duration(schema.field(item.column).type):
            remedy = f"write {item.function}(epoch(...)) for seconds"
        raise SchemaError(f"{_described(schema, item)}, and it takes {takes}; {remedy}")


def _check(grouping: GroupBy) -> None:
    """Raises ``SchemaError`` if DuckDB cannot read a column in the way that a function needs it."""
    import pyarrow as pa

    read = pa.schema([grouping.schema.field(column) for column in grouping.columns])
    try:
        grouping.final(grouping.partial(pa.Table.from_batches([], read)))
    except SchemaError as error:
        if len(grouping.aggregates) == 1:
            about = _described(grouping.schema, grouping.aggregates[0])
            raise SchemaError(f"{about}: {error}") from None
        for item in grouping.aggregates:
            _check(dataclasses.replace(grouping, aggregates=(item,)))
        raise


def _described(schema: pa.Schema, item: Aggregate) -> str:
    kind = schema.field(item.column).type if item.column is not None else "rows"
    return f"{item.function} is asked of column {item.column!r}, which is {kind}"
