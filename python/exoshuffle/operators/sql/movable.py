"""Parts of a filter that may be asked of rows earlier, before others would have dropped these rows.

Guarantee: a movable condition fails for no row, whatever its values. It compares columns with literals or with columns
of their type, or asks for null or for the beginning or end of text. It may join such parts by AND, OR and NOT. Casts,
other functions and arithmetic may fail, so they stay where they are. A movable condition cannot tell values apart that
are equal as keys, such as 0.0 and -0.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.kinds import (
    column_kind,
    column_named,
    constant,
    literal_kind,
    literal_text,
)
from exoshuffle.operators.sql.parsing import parse_expression

if TYPE_CHECKING:
    import pyarrow as pa

_COMPARISONS = (
    *("COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM"),
    *("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO"),
    *("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO"),
)
#: Functions of a text and a literal: LIKE, ILIKE, their negations, and questions for a part.
_OF_TEXT = (
    *("~~", "!~~", "~~*", "!~~*"),
    *("starts_with", "prefix", "^@", "ends_with", "suffix", "contains"),
)
#: Kinds of literals that take the type of a column of a kind, or that the column is compared with as it is.
_FITTING = {
    "number": ("number", "text"),
    "text": ("text",),
    "bytes": ("bytes", "text"),
    "bool": ("bool", "text"),
    "date": ("date", "text"),
    "time": ("time", "text"),
    "clock": ("clock", "date", "text"),
    "moment": ("moment", "clock", "date", "text"),
}
#: DuckDB compares decimals, integers and literals with a point as decimals of at most 38 digits in all.
_MOST_DIGITS, _MOST_LITERAL = 20, 17
_INTEGERS = ("INTEGER", "BIGINT", "HUGEINT")


@dataclass(frozen=True)
class Condition:
    """A condition that may move.

    Attributes:
        node: Its syntax tree, with the names of columns as they are.
        columns: The columns that it reads, at least one.
        text: Its SQL, if it is as the user wrote it; else empty.
    """

    node: syntax.Node
    columns: frozenset[str]
    text: str = ""

    def renamed(self, names: Mapping[str, str]) -> Condition:
        """Returns it with other names of its columns."""
        if all(names[name] == name for name in self.columns):
            return self
        return Condition(
            _renamed(self.node, names), frozenset(names[name] for name in self.columns)
        )

    def drops_nulls(self, schema: pa.Schema) -> bool:
        """Whether it drops a row in which all of its columns are null."""
        import pyarrow as pa

        fields = [schema.field(name) for name in schema.names if name in self.columns]
        nulls = pa.table(
            [pa.nulls(1, field.type) for field in fields],
            schema=pa.schema([field.with_nullable(True) for field in fields]),
        )
        try:
            expression = parse_expression(sql_of([self]), nulls.schema)
            [(_, [found])] = evaluated((expression,), nulls)
        except (SchemaError, InputError):
            return False
        return bool(found.to_pylist() != [True])


def parted(text: str, schema: pa.Schema) -> tuple[list[Condition], str]:
    """Returns the movable conditions that a filter joins by AND, and the SQL of the others; empty for none.

    Cost: a query, 1.5 ms; two more if some move and some stay.
    """
    moving: list[Condition] = []
    staying: list[syntax.Node] = []
    nodes = syntax.conjuncts(syntax.parse(text))
    for node in nodes:
        columns = {column_named(part, schema) for part in syntax.nodes(node)} - {None}
        if columns and _never_fails(node, schema):
            names = frozenset(name for name in columns if name is not None)
            exact = {given: _exact(given, names) for given in syntax.column_names(node)}
            is_all = len(nodes) == 1 and all(given == own for given, own in exact.items())
            moving.append(Condition(_renamed(node, exact), names, text if is_all else ""))
        else:
            staying.append(node)
    return moving, _joined(staying) if staying and moving else text if staying else ""


def sql_of(conditions: Sequence[Condition]) -> str:
    """Returns the SQL of conditions, joined by AND. Cost: two queries, 1.5 ms each, unless it is as it was written."""
    if len(conditions) == 1 and conditions[0].text:
        return conditions[0].text
    return _joined([condition.node for condition in conditions])


def _joined(nodes: Sequence[syntax.Node]) -> str:
    texts = syntax.texts_of(nodes)
    return texts[0] if len(texts) == 1 else " AND ".join(f"({text})" for text in texts)


def _exact(given: str, names: frozenset[str]) -> str:
    return given if given in names else next(n for n in names if n.lower() == given.lower())


def _renamed(tree: Any, names: Mapping[str, str]) -> Any:
    """Returns a syntax tree, or a part of one, with other names of columns."""
    if isinstance(tree, list):
        return [_renamed(part, names) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") == "COLUMN_REF":
        return tree | {"column_names": [names[tree["column_names"][0]]]}
    return {key: _renamed(part, names) for key, part in tree.items()}


def _never_fails(node: syntax.Node, schema: pa.Schema) -> bool:
    kind = node.get("type")
    if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR", "OPERATOR_NOT"):
        return all(_never_fails(child, schema) for child in node["children"])
    if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        return column_named(node["children"][0], schema) is not None
    if kind in _COMPARISONS:
        return _compare([node["left"], node["right"]], schema)
    if kind == "COMPARE_BETWEEN":
        return _compare([node["input"], node["lower"], node["upper"]], schema)
    if kind == "COMPARE_IN":
        return _compare(node["children"], schema)
    name = column_named(node, schema)
    if name is not None:
        return column_kind(schema.field(name).type) == "bool"
    return _is_of_text(node, schema)


def _is_of_text(node: syntax.Node, schema: pa.Schema) -> bool:
    given = syntax.arguments(node) if syntax.function_name(node) in _OF_TEXT else []
    if len(given) != 2:
        return False
    name = column_named(given[0], schema)
    is_text = name is not None and column_kind(schema.field(name).type) == "text"
    return is_text and literal_text(given[1]) is not None


def _compare(operands: Sequence[syntax.Node], schema: pa.Schema) -> bool:
    """Whether operands, of which a column decides the type, are compared without a cast that could fail."""
    names = [column_named(node, schema) for node in operands]
    types = {schema.field(name).type for name in names if name is not None}
    if len(types) != 1:
        return False
    [kind] = types
    literals = [node for node, name in zip(operands, names, strict=True) if name is None]
    kinds = {literal_kind(node) for node in literals}
    own = column_kind(kind)
    if own is None or len(kinds) > 1 or not kinds <= {*_FITTING[own]}:
        return False
    if own == "number" and kinds == {"number"}:
        return all(_fits_number(node, kind) for node in literals)
    # Seconds and milliseconds have moments that a literal's microseconds have not.
    return own != "clock" or kinds <= {"text"} or kind.unit in ("us", "ns")


def _fits_number(node: syntax.Node, kind: pa.DataType) -> bool:
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_floating(kind):
        return True
    name, text = constant(node)
    if pa.types.is_integer(kind) and name in _INTEGERS:
        return True
    digits = kind.precision if pa.types.is_decimal(kind) else _MOST_DIGITS
    return bool(digits <= _MOST_DIGITS and 0 < len(text) <= _MOST_LITERAL)
