"""Keys that are expressions: they become columns first, for groups under their names, for sorts under hidden ones.

A text is a column if the rows have one of this name, whatever it looks like. Other text of more than words is SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.core.keys import NO_LISTS, names_of
from exoshuffle.operators.sql.expressions import Aggregation, Expr, col
from exoshuffle.operators.sql.parsing import column, parse_expression

if TYPE_CHECKING:
    import pyarrow as pa

#: Words alone are the name of a column, perhaps a wrong one, or a name with a direction behind.
_WORDS = re.compile(r"[\w\s.]*")


def named_keys(operation: str, given: Iterable[object], schema: pa.Schema) -> dict[str, str | None]:
    """Returns the names of keys, with the SQL of those that are expressions.

    Args:
        operation: The method that got them, for messages.
        given: Names, SQL, expressions, and lists of these.
        schema: The schema of the rows.

    Raises:
        OptionsError: Something else, an expression without a name, or two keys of one name.
        SchemaError: An unknown column, or SQL that does not fit the schema.
    """
    found: dict[str, str | None] = {}
    for name, sql in _parsed(operation, given, schema):
        if name is None:
            raise OptionsError(
                f"{operation} got the expression {shown(sql)} without a name; add .alias(name)"
            )
        if found.setdefault(name, sql) != sql:
            raise OptionsError(
                f"{operation} would give two keys the name {name!r}; add .alias(name)"
            )
    return found


def aliased(named: Mapping[str, Any]) -> list[Expr]:
    """Returns keys given by name, SQL or expressions, as expressions of these names."""
    return [
        Expr(each.text if isinstance(each, Expr) else each, name) for name, each in named.items()
    ]


def key_expressions(argument: str, given: object, schema: pa.Schema) -> list[Expr]:
    """Returns keys as expressions; see ``named_keys``, but for names. Columns may be unknown."""
    parsed = _parsed(argument, [given], schema)
    return [col(str(name)) if sql is None else Expr(sql) for name, sql in parsed]


def sort_columns(given: object, schema: pa.Schema) -> tuple[tuple[str, ...], dict[str, str]]:
    """Returns the columns to sort by, and the SQL of those of them that have to be made first, by their names."""
    names: list[str] = []
    made: dict[str, str] = {}
    for name, sql in _parsed("by", [given], schema):
        if sql is None:
            names.append(str(name))
            continue
        hidden = next((known for known, other in made.items() if other == sql), None)
        if hidden is None:
            hidden = f"order {len(made) + 1}"
            while any(hidden == other.lower() for other in schema.names):
                hidden += "'"
            made[hidden] = sql
        names.append(hidden)
    return tuple(names), made


def _parsed(
    argument: str, given: Iterable[object], schema: pa.Schema
) -> Iterable[tuple[str | None, str | None]]:
    """Yields names and SQL of keys, each one or a list; no SQL for those that are columns."""
    for each in given:
        listed: Iterable[object] = (each,)
        if isinstance(each, Iterable) and not isinstance(each, NO_LISTS):
            listed = each
        for key in listed:
            if isinstance(key, Expr) and not key.is_column:
                yield _expression(argument, key, schema)
            else:
                for name in names_of([key], argument):
                    yield _named(name, schema, is_order=argument != "group_by")


def _expression(argument: str, given: Expr, schema: pa.Schema) -> tuple[str | None, str | None]:
    if isinstance(given, Aggregation):
        raise OptionsError(
            f"{argument} got the aggregate {given.text}; a key has a value for each row, so write over(keys) behind it"
        )
    parsed = parse_expression(given.text, schema)
    is_own = parsed.is_column and given.name in (None, parsed.text)
    return (parsed.text, None) if is_own else (given.name, given.text)


def _named(name: str, schema: pa.Schema, *, is_order: bool) -> tuple[str, str | None]:
    if name in schema.names or _WORDS.fullmatch(name):
        if not is_order:  # a sort says how directions are written
            column(name, schema)
        return name, None
    parsed = parse_expression(name, schema)
    return (parsed.text, None) if parsed.is_column else (name, name)
