"""Finds window functions in expressions, and plans how their columns are made.

An expression such as ``"x - avg(x + 1) OVER (PARTITION BY k)"`` becomes three things. Expressions that the function
reads become columns, made by a step before. One shuffle for each set of keys adds a column for each function. And the
expression gets the names of these columns in place of the functions, for a step behind.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.errors import SchemaError, unknown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.over.calls import WindowCall
from exoshuffle.operators.over.functions import (
    ALIASES,
    FUNCTIONS,
    ROWS,
    WORDS,
    Kind,
    WindowFunction,
)
from exoshuffle.operators.over.windows import Windows
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.over import may_have_windows
from exoshuffle.operators.sql.parsing import parse_expression
from exoshuffle.operators.sql.queries import select
from exoshuffle.operators.sql.syntax import Node
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

#: Bounds of frames as the parser names them, and their SQL; the unit follows each but the first two.
_BOUNDS = {
    "UNBOUNDED_PRECEDING": "UNBOUNDED PRECEDING",
    "UNBOUNDED_FOLLOWING": "UNBOUNDED FOLLOWING",
    "CURRENT_ROW": "CURRENT ROW",
    "EXPR_PRECEDING": "{} PRECEDING",
    "EXPR_FOLLOWING": "{} FOLLOWING",
}
_UNITS = ("ROWS", "RANGE", "GROUPS")
_EXCLUDED = {"CURRENT_ROW": "CURRENT ROW", "GROUP": "GROUP", "TIES": "TIES"}


@dataclass(frozen=True)
class WindowPlan:
    """The steps that make the window functions of some expressions.

    Attributes:
        before: Names and SQL of columns to add first.
        windows: The functions, by keys; each adds its columns.
        texts: The expressions, with the names of these columns.
    """

    before: tuple[tuple[str, str], ...]
    windows: tuple[Windows, ...]
    texts: tuple[str, ...]

    @property
    def added(self) -> tuple[str, ...]:
        """The names of all columns that are added, to be left out behind."""
        calls = (call.name for windows in self.windows for call in windows.calls)
        return (*(name for name, _ in self.before), *calls)


def parse_windows(texts: Sequence[str], schema: pa.Schema) -> WindowPlan | None:
    """Returns how the window functions of expressions are made; None if they have none.

    Raises:
        SchemaError: A function that is none, or an argument, key, order or frame that does not fit; text that is no
            expression.

    Cost: some queries, 1.5 ms each, for expressions with the word OVER; nothing for others.
    """
    found = _Found(schema)
    rewritten = tuple(found.without_windows(text) for text in texts)
    if not found.calls:
        return None
    groups: dict[tuple[str, ...], list[WindowCall]] = {}
    for keys, call in found.calls.values():
        groups.setdefault(keys, []).append(call)
    windows = tuple(Windows(keys, tuple(calls)) for keys, calls in groups.items())
    return WindowPlan(tuple((name, sql) for sql, name in found.inputs.items()), windows, rewritten)


@dataclass
class _Found:
    """The parts that have been found in expressions.

    Attributes:
        schema: The schema of the rows.
        inputs: Names of columns to add first, by their SQL.
        calls: Keys and calls, by the SQL of the functions.
    """

    schema: pa.Schema
    inputs: dict[str, str] = field(default_factory=dict)
    calls: dict[str, tuple[tuple[str, ...], WindowCall]] = field(default_factory=dict)

    def without_windows(self, text: Any) -> str:
        """Returns an expression with names of columns in place of window functions."""
        if not may_have_windows(text):
            return cast("str", text)  # another step refuses what is no text
        tree = syntax.parse(text)
        if not any(node.get("class") == "WINDOW" for node in syntax.nodes(tree)):
            return cast("str", text)
        return syntax.text_of(cast("Node", self._replaced(tree)))

    def _replaced(self, tree: object) -> object:
        if isinstance(tree, list):
            return [self._replaced(part) for part in tree]
        if not isinstance(tree, dict):
            return tree
        if tree.get("class") == "WINDOW":
            return syntax.column_node(self._call(tree), tree)
        return {name: self._replaced(part) for name, part in tree.items()}

    def _call(self, node: Node) -> str:
        """Returns the name of the column of a window function."""
        text = syntax.text_of(node)
        if text not in self.calls:
            name = self._free_name("window")
            keys = tuple(self._column(part, text) for part in node["partitions"])
            self.calls[text] = (tuple(dict.fromkeys(keys)), self._parsed(node, text, name))
        return self.calls[text][1].name

    def _parsed(self, node: Node, text: str, name: str) -> WindowCall:
        given = _arguments(node)
        function = _function(node, text, given)
        optional = function.optional
        wanted = len(function.arguments)
        if not wanted - optional <= len(given) <= wanted:
            takes = ", ".join(WORDS[kind] for kind in function.arguments) or "nothing"
            raise _unfit(text, f"it takes {takes}, and was given {counted(len(given), 'argument')}")
        columns, parameter = [], ""
        for kind, part in zip(function.arguments, given, strict=False):
            if kind == "column":
                columns.append(self._column(_filtered(part, node), text))
            else:
                parameter = _constant(part, kind, text)
        if "number" in function.arguments and not parameter:
            parameter = "1"
        return WindowCall(
            name,
            text,
            function,
            columns[0] if columns else None,
            parameter,
            columns[1] if columns[1:] else None,
            tuple(self._key(part, text) for part in node["orders"]),
            _frame(node, text),
            node["ignore_nulls"],
        )

    def _key(self, part: Node, text: str) -> SortKey:
        column = self._column(part["expression"], text)
        descending = "DESC" in part["type"]
        # SQL's default is DuckDB's: nulls last, whatever the direction.
        return SortKey(column, descending, "FIRST" in part["null_order"])

    def _column(self, part: Node, text: str) -> str:
        """Returns the column that an expression is, or that it will be."""
        if any(inner.get("class") == "WINDOW" for inner in syntax.nodes(part)):
            raise _unfit(
                text,
                "a window function is in another; compute the inner one by with_columns() before",
            )
        sql = syntax.text_of(part)
        expression = parse_expression(sql, self.schema)
        if expression.is_column:
            return expression.text
        if sql not in self.inputs:
            self.inputs[sql] = self._free_name("input")
        return self.inputs[sql]

    def _free_name(self, kind: str) -> str:
        """Returns a name that no column has, whatever its case: SQL does not tell cases apart."""
        name = f"{kind} {len(self.inputs) + len(self.calls) + 1}"
        while any(name == column.lower() for column in self.schema.names):
            name += "'"
        return name


def _function(node: Node, text: str, given: Sequence[Node]) -> WindowFunction:
    written = node["function_name"].lower()
    name = ALIASES.get(written, written)
    if node["distinct"] and name == "count":
        name = "count_distinct"
    elif node["distinct"]:
        raise _unfit(text, "DISTINCT is for count(); leave it out")
    if node.get("arg_orders"):
        raise _unfit(text, "ORDER BY stands within OVER (...), not within the function")
    if name == "count" and not given:
        if node["filter_expr"]:
            raise _unfit(
                text, "count(*) has no FILTER; write count(CASE WHEN condition THEN 1 END)"
            )
        return ROWS
    if name not in FUNCTIONS:
        raise _unfit(text, unknown("window function", written, sorted(FUNCTIONS)))
    function = FUNCTIONS[name]
    if node["ignore_nulls"] and not (function.is_choice and "{nulls}" in function.sql):
        raise _unfit(text, f"{written} has no IGNORE NULLS; leave it out")
    if node["filter_expr"] and (function.order != "frame" or "{row}" in function.sql):
        raise _unfit(text, f"{written} has no FILTER; filter the rows, or write CASE WHEN")
    return function


def _arguments(node: Node) -> list[Node]:
    """Returns the arguments. DuckDB 1.5 keeps those of lag and lead apart."""
    apart = (node.get("offset_expr"), node.get("default_expr"))
    return [*syntax.arguments(node), *(part for part in apart if part)]


def _filtered(part: Node, node: Node) -> Node:
    """Returns an argument that is null in rows that the filter of the function leaves out."""
    condition = node["filter_expr"]
    if not condition:
        return part
    return syntax.parse(f"CASE WHEN {syntax.text_of(condition)} THEN {syntax.text_of(part)} END")


def _constant(part: Node, kind: Kind, text: str) -> str:
    """Returns a number that is the same for all rows, as SQL."""
    import pyarrow as pa

    sql = syntax.text_of(part)
    if not any(True for _ in syntax.column_names(part)):
        rows = pa.table({"none": pa.nulls(1, pa.int8())})
        value = select([parse_expression(sql, pa.schema([])).sql], rows).read_all()[0][0].as_py()
        if is_whole(value) and (kind == "number" or (kind == "count" and value > 0)):
            return f"{value}::BIGINT"
        if kind == "fraction" and _is_fraction(value):
            return f"{float(value)!r}::DOUBLE"
    raise _unfit(text, f"{sql} must be {WORDS[kind]}, the same for all rows")


def _is_fraction(value: object) -> bool:
    is_decimal = isinstance(value, decimal.Decimal)
    return (is_decimal or is_number(value)) and 0 <= cast("float", value) <= 1


def _frame(node: Node, text: str) -> str:
    """Returns the frame as SQL; empty for the frame of SQL."""
    bounds, units = [], set[str]()
    for end in ("start", "end"):
        kind, _, unit = node[end].rpartition("_")
        if unit not in _UNITS:
            kind = node[end]
        else:
            units.add(unit)
        size = node[f"{end}_expr"]
        if size and any(True for _ in syntax.column_names(size)):
            raise _unfit(text, "the bounds of its frame must be the same for all rows")
        bounds.append(_BOUNDS[kind].format(syntax.text_of(size) if size else ""))
    excluded = _EXCLUDED.get(node["exclude_clause"])
    unit = units.pop() if units else "RANGE"
    made = f"{unit} BETWEEN {bounds[0]} AND {bounds[1]}"
    if excluded:
        return f"{made} EXCLUDE {excluded}"
    return "" if made == "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW" else made


def _unfit(text: str, reason: str) -> SchemaError:
    return SchemaError(f"window function {text!r} does not fit: {reason}")
