"""Finds the aggregates in SQL such as ``"sum(price * quantity) / count(*)"``, and plans how its column is made.

Expressions that aggregates read become columns, made by a step before. The aggregates are those of every group-by. And
an expression of several aggregates gets the names of their columns in place of them, for a step behind.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, cast

from exoshuffle.errors import OptionsError, SchemaError, unknown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.group_by.aggregate import GroupBy
from exoshuffle.operators.group_by.functions import ALIASES, FUNCTIONS
from exoshuffle.operators.group_by.pairs import PAIR_FUNCTIONS, pair_of
from exoshuffle.operators.group_by.parsing import (
    AggregateSpec,
    parse_aggregates,
    refuse_key_names,
)
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.expressions import Expr
from exoshuffle.operators.sql.literals import quoted
from exoshuffle.operators.sql.parsing import functions_of_rows, parse_expression
from exoshuffle.operators.sql.syntax import Node
from exoshuffle.operators.sql.types import does_not_fit
from exoshuffle.operators.steps.columns import WithColumns

if TYPE_CHECKING:
    import pyarrow as pa

#: An aggregate of a column, which most are: parsing any other costs some queries, 1.5 ms each.
_SIMPLE = re.compile(
    r'\s*(?P<function>\w+)\s*\(\s*(?P<column>"[^"]+"|[^\s,()="]+)?\s*(?:,\s*(?P<parameter>[^,()]+?)\s*)?\)\s*'
)
#: A column alone, perhaps one that does not exist.
_NAME = re.compile(r"[\w\s.]*")


@dataclass(frozen=True)
class GroupPlan:
    """The steps that make groups and their aggregates.

    Attributes:
        before: Names and SQL of columns to add first: keys, and what aggregates read.
        grouping: The groups and aggregates, of rows with these columns.
        after: Names and SQL of all columns of the result; empty where it is that of ``grouping``.
    """

    before: tuple[tuple[str, str], ...]
    grouping: GroupBy
    after: tuple[tuple[str, str], ...]


def plan_groups(
    schema: pa.Schema,
    keys: Mapping[str, str | None],
    aggregates: Mapping[str, AggregateSpec],
) -> GroupPlan:
    """Returns how aggregates of groups are made.

    Args:
        schema: The schema of the rows.
        keys: The names of the keys, with the SQL of those that are no columns. A name that a column has hides this
            column as a key, but aggregates read the column.
        aggregates: By name of the new column, as for ``parse_aggregates``, or as SQL.

    Raises:
        OptionsError: See ``parse_aggregates``; an argument that its function cannot have.
        SchemaError: See ``parse_aggregates``; an expression that does not fit the schema.

    Cost: that of ``parse_aggregates``, and some queries, 1.5 ms each, for an aggregate of an expression.
    """
    refuse_key_names(keys, aggregates)
    made = {name: sql for name, sql in keys.items() if sql is not None}
    taken = frozenset(name.lower() for name in (*schema.names, *keys, *aggregates))
    found = _Found(schema, frozenset(schema.names), frozenset(made), tuple(keys), taken)
    texts = {name: found.column_of(name, spec) for name, spec in aggregates.items()}
    before = (*made.items(), *((name, sql) for sql, name in found.inputs.items()))
    rows = WithColumns(before).output_schema(schema) if before else schema
    grouping = parse_aggregates(rows, tuple(keys), found.specs)
    if all(name in found.specs for name in aggregates):
        return GroupPlan(before, grouping, ())
    after = ((name, quoted(name)) for name in keys)
    return GroupPlan(before, grouping, (*after, *texts.items()))


@dataclass
class _Found:
    """The parts that have been found in aggregates.

    Attributes:
        schema: The schema of the rows.
        names: Its names, as a set: the list would be made anew for each of many aggregates.
        hidden: Names of keys that hide a column of the rows.
        keys: Names of all keys.
        taken: Names that no other column can have, in small letters: SQL does not tell cases apart.
        inputs: Names of columns to add first, by their SQL.
        specs: Aggregates by the names of their columns.
    """

    schema: pa.Schema
    names: frozenset[str]
    hidden: frozenset[str]
    keys: tuple[str, ...]
    taken: frozenset[str]
    inputs: dict[str, str] = field(default_factory=dict)
    specs: dict[str, AggregateSpec] = field(default_factory=dict)

    def column_of(self, name: str, spec: AggregateSpec) -> str:
        """Adds what an aggregate needs; returns the SQL of its column behind the groups."""
        is_text = isinstance(spec, str) and spec != "count"
        simple = self._simple(cast("str", spec)) if is_text else spec
        if simple is not None:
            self.specs[name] = self._of_rows(simple)
            return quoted(name)
        text = cast("str", spec)
        tree = syntax.parse(text)
        if _is_aggregate(tree):
            self.specs[name] = self._spec(tree, text)
            return quoted(name)
        rest = self._without_aggregates(tree, text)
        if rest == tree:
            raise OptionsError(
                f"aggregate {name!r} is {text!r}, which aggregates nothing; write one of {', '.join(sorted(FUNCTIONS))}"
                ", for example sum(x)"
            )
        for column in syntax.column_names(rest):
            if column in self.names and column not in self.keys:
                raise _unfit(
                    text,
                    f"{column!r} is neither a key nor within an aggregate; write first({column})",
                )
        return syntax.text_of(cast("Node", rest))

    def _simple(self, text: str) -> AggregateSpec | None:
        """Returns an aggregate of a column; None for another expression."""
        found = _SIMPLE.fullmatch(text)
        if found is None:
            return None
        function = found["function"].lower()
        column, parameter = found["column"], found["parameter"]
        if column in (None, "*") and parameter is None:
            return "count" if ALIASES.get(function, function) == "count" else None
        if column is None or column.strip('"') not in self.names:
            return None
        column = column.strip('"')
        if parameter is None:
            return (column, function)
        with contextlib.suppress(ValueError):  # the parser says what is wrong
            return (column, function, json.loads(parameter))
        return None

    def _of_rows(self, spec: AggregateSpec) -> AggregateSpec:
        """Returns an aggregate whose column is one of the rows, also where it was given as an expression."""
        parts: Sequence[object] = spec if isinstance(spec, tuple | list) else ()
        if len(parts) == 3 and ALIASES.get(cast("str", parts[1]), parts[1]) in PAIR_FUNCTIONS:
            both = [part.text if isinstance(part, Expr) else str(part) for part in parts[::2]]
            names = [quoted(text) if text in self.names else text for text in both]
            return (self._paired(names), str(parts[1]))
        if not parts or not isinstance(parts[0], str | Expr):
            return spec  # which is refused if it is not "count"
        given = parts[0]
        text = given.text if isinstance(given, Expr) else given
        is_column = text in self.names or _NAME.fullmatch(text)
        if is_column and text not in self.hidden:
            return spec
        column = self._input(quoted(text)) if is_column else self._column_of(text)
        return cast("AggregateSpec", (column, *parts[1:]))

    def _without_aggregates(self, tree: object, text: str) -> object:
        """Returns a syntax tree with names of columns in place of aggregates."""
        if isinstance(tree, list):
            return [self._without_aggregates(part, text) for part in tree]
        if not isinstance(tree, dict):
            return tree
        if not _is_aggregate(tree):
            return {name: self._without_aggregates(part, text) for name, part in tree.items()}
        spec = self._spec(tree, text)
        for name, other in self.specs.items():
            if other == spec:
                return syntax.column_node(name, tree)
        name = self._free_name("aggregate", len(self.specs))
        self.specs[name] = spec
        return syntax.column_node(name, tree)

    def _spec(self, node: Node, text: str) -> AggregateSpec:
        written = syntax.function_name(node)
        function = ALIASES.get(written, written)
        given = syntax.arguments(node)
        condition = node["filter"]
        if node["order_bys"]["orders"]:
            raise _unfit(text, f"ORDER BY stands within {written}; sort the rows before")
        if function not in FUNCTIONS:
            raise _unfit(text, unknown("aggregate", written, sorted(FUNCTIONS)))
        if node["distinct"]:
            if function != "count":
                raise _unfit(text, f"{written} has no DISTINCT; call distinct() before")
            function = "count_distinct"
        if not given:
            if function != "count":
                raise _unfit(text, f"{written} needs a column")
            return (
                (self._column(syntax.parse("1"), condition, text), "count")
                if condition
                else "count"
            )
        if function in PAIR_FUNCTIONS:
            return (self._pair(function, given, condition, text), function)
        if condition and function == "list":
            raise _unfit(text, "list keeps nulls, so it has no FILTER; filter the rows before")
        column = self._column(given[0], condition, text)
        parameters = [_number(part, text) for part in given[1:]]
        return cast("AggregateSpec", (column, function, *parameters))

    def _column(self, part: Node, condition: Node | None, text: str) -> str:
        """Returns the column that an argument is, or that it will be: null where a condition does not hold."""
        if any(map(_is_aggregate, syntax.nodes(part))):
            raise _unfit(text, "an aggregate is in another; group by the result of the inner one")
        sql = syntax.text_of(part)
        if condition:
            sql = f"CASE WHEN {syntax.text_of(condition)} THEN {sql} END"
        return self._column_of(sql)

    def _pair(self, function: str, given: list[Node], condition: Node | None, text: str) -> str:
        """Returns the column that the two arguments of a function will be."""
        if len(given) != 2:
            raise _unfit(text, f"{function} takes two columns, as in {function}(y, x)")
        if any(_is_aggregate(node) for part in given for node in syntax.nodes(part)):
            raise _unfit(text, "an aggregate is in another; group by the result of the inner one")
        return self._paired(
            list(map(syntax.text_of, given)), syntax.text_of(condition) if condition else ""
        )

    def _paired(self, both: Sequence[str], condition: str = "") -> str:
        for sql in both:
            parse_expression(sql, self.schema)  # so that an error is about what the user wrote
        y, x = both
        return self._column_of(pair_of(y, x, condition))

    def _column_of(self, sql: str) -> str:
        expression = parse_expression(sql, self.schema)
        if expression.is_column and expression.text not in self.hidden:
            return expression.text
        return self._input(sql)

    def _input(self, sql: str) -> str:
        if sql not in self.inputs:
            self.inputs[sql] = self._free_name("input", len(self.inputs))
        return self.inputs[sql]

    def _free_name(self, kind: str, number: int) -> str:
        """Returns a name that no column has."""
        name = f"{kind} {number + 1}"
        while name in self.taken:
            name += "'"
        return name


def _is_aggregate(node: Node) -> bool:
    function = syntax.function_name(node)
    if not function or node.get("is_operator"):
        return False
    return ALIASES.get(function, function) in FUNCTIONS or function in functions_of_rows()


def _number(part: Node, text: str) -> object:
    """Returns a parameter; as SQL, 0.5 is a decimal and so text that JSON reads."""
    sql = syntax.text_of(part)
    try:
        return json.loads(sql.strip("()"))
    except ValueError:
        raise OptionsError(f"parameter {sql!r} in {text!r} is not a number") from None


def _unfit(text: str, reason: str) -> SchemaError:
    return does_not_fit(text, reason)
