"""Reads what methods are given as expressions: their SQL, by the names of the columns that they make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.sql.expressions import Aggregation, Expr
from exoshuffle.operators.sql.namespaces import Lists, Moments, Texts


def text_of_expression(given: Any) -> Any:
    """Returns the SQL of an expression; anything else as it is.

    Raises:
        OptionsError: A function of an expression that was not called.
    """
    if isinstance(getattr(given, "__self__", None), Expr | Texts | Moments | Lists):
        raise OptionsError(
            f"an expression is the function {given.__name__}; write {given.__name__}()"
        )
    _refuse_aggregate(given)
    return given.text if isinstance(given, Expr) else given


def _refuse_aggregate(given: object) -> None:
    """Raises ``OptionsError`` for an aggregate where a value for each row is needed."""
    if isinstance(given, Aggregation):
        raise OptionsError(
            f"{given.text} has no value for each row; write over(keys) behind it, over() for all rows as one key, or "
            "give it to agg()"
        )


def named_expressions(call: str, given: Iterable[object]) -> dict[str, str]:
    """Returns the SQL of expressions by their names.

    Raises:
        OptionsError: Something else, an expression without a name, or a name twice.
    """
    found: dict[str, str] = {}
    for each in given:
        _refuse_aggregate(each)
        if not isinstance(each, Expr):
            raise OptionsError(
                f'{call} got {shown(each)}; give xs.col(...).alias("name"), or name="SQL"'
            )
        if each.name is None:
            raise OptionsError(
                f'{call} got the expression {shown(each)} without a name; add .alias("name"), or write name=...'
            )
        if each.name in found:
            raise OptionsError(
                f"{call} would give two columns the name {each.name!r}; add .alias()"
            )
        found[each.name] = each.text
    return found


def function_texts(named: Iterable[object], functions: Mapping[str, object]) -> dict[str, str]:
    """Returns functions of several rows, without OVER, as SQL by the names of their columns.

    Raises:
        OptionsError: None, something else, or a name twice.
    """
    found: dict[str, str] = {}
    for name, each in [
        *((getattr(each, "name", None), each) for each in named),
        *functions.items(),
    ]:
        text = each.text if isinstance(each, Expr) else each
        if not isinstance(text, str) or not name:
            raise OptionsError(
                f'window got {shown(each)}; write name="sum(x)", or xs.col("x").sum().alias("name")'
            )
        if "(" not in text or re.search(r"\bover\b", text, re.IGNORECASE):
            raise OptionsError(
                f'window has {name}={text!r}; write a function with its arguments, such as "row_number()" or "sum(x)", '
                "and for expressions with OVER with_columns()"
            )
        if name in found:
            raise OptionsError(f"window would give two columns the name {name!r}; add .alias()")
        found[name] = text
    if not found:
        raise OptionsError('window needs at least one function, for example n="row_number()"')
    return found
