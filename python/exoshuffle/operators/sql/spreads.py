"""Translates conditions on rows into conditions on the spread of columns: the least and greatest value of many rows.

Guarantee: rows are left out only if the condition is surely true of none of them. Comparisons of a column with a
literal are translated, and what AND and OR make of them; all other parts may be true. DuckDB compares the bounds with
the literal as it compares the values, so types, time zones, NaN and text follow its rules.

Why only some pairs of types: a column that DuckDB casts to compare it must keep its order. Text that becomes a number
does not, nor does a timestamp that gets a time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.literals import literal
from exoshuffle.operators.sql.parsing import parse_expression

if TYPE_CHECKING:
    import pyarrow as pa

#: Names of the columns of a spread: bounds of the values, the number of nulls, and of all rows.
LOW, HIGH, NULLS, ROWS = "low", "high", "nulls", "rows"
#: Longer lists of IN are left to the filter: each value is two comparisons of bounds, in one expression.
MOST_LISTED = 100
#: Whether bounds are beside a literal, for each comparison. A filter takes no row where the result is null.
_COMPARISONS = {
    "COMPARE_EQUAL": "{low} <= {0} AND {high} >= {0}",
    "COMPARE_NOTEQUAL": "NOT ({low} = {0} AND {high} = {0})",
    "COMPARE_LESSTHAN": "{low} < {0}",
    "COMPARE_LESSTHANOREQUALTO": "{low} <= {0}",
    "COMPARE_GREATERTHAN": "{high} > {0}",
    "COMPARE_GREATERTHANOREQUALTO": "{high} >= {0}",
    "COMPARE_BETWEEN": "{high} >= {0} AND {low} <= {1}",
}
_MIRRORED = {
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}
_PREFIXES = ("starts_with", "prefix", "^@")
#: Kinds of literals that columns of a kind can be compared with, without losing their order.
_COMPARABLE = {
    "number": ("number", "text"),
    "text": ("text",),
    "bytes": ("bytes", "text"),
    "bool": ("bool", "text"),
    "date": ("date", "clock", "text"),
    "time": ("time", "text"),
    "clock": ("clock", "date", "text"),
    "moment": ("moment", "clock", "date", "text"),
}
#: Kinds of literals by the names of constants and of types, in DuckDB 1.5 and 2.0.
_LITERALS = {
    "number": "INTEGER NUMERIC BIGINT HUGEINT UHUGEINT TINYINT SMALLINT UTINYINT USMALLINT UINTEGER UBIGINT DECIMAL "
    "FLOAT REAL DOUBLE INT INT4 INT8",
    "bytes": "BLOB BYTEA",
    "bool": "BOOLEAN BOOL",
    "date": "DATE",
    "time": "TIME",
    "clock": "TIMESTAMP DATETIME TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS",
    "moment": "TIMESTAMPTZ TIMESTAMP_WITH_TIME_ZONE",
}
_KIND_OF_NAME = {name: kind for kind, names in _LITERALS.items() for name in names.split()}


@dataclass(frozen=True)
class OfColumn:
    """A condition on the spread of one column, as SQL."""

    column: str
    sql: str


@dataclass(frozen=True)
class AllOf:
    """Conditions of which all must be possible."""

    parts: tuple[OnSpreads, ...]


@dataclass(frozen=True)
class AnyOf:
    """Conditions of which one must be possible."""

    parts: tuple[OnSpreads, ...]


OnSpreads = OfColumn | AllOf | AnyOf


@dataclass(frozen=True)
class _Draft:
    """A condition on one column whose literals are not yet text: ``{0}``, ``{1}`` … stand for them."""

    column: str
    sql: str
    literals: tuple[syntax.Node, ...] = ()


def on_spreads(text: str, schema: pa.Schema) -> OnSpreads | None:
    """Returns the condition on spreads that is possible wherever a condition may be true; None if none is known.

    Args:
        text: The condition, as SQL that fits the schema.
        schema: The schema of the rows.

    Cost: two queries for the literals, 1.5 ms each, beside parsing.
    """
    drafted = _drafted(syntax.parse(text), schema)
    if drafted is None:
        return None
    nodes = [node for draft in _leaves(drafted) for node in draft.literals]
    texts = iter(syntax.texts_of(nodes) if nodes else ())
    return _written(drafted, texts)


def columns_in(condition: OnSpreads) -> set[str]:
    """Returns the columns whose spread a condition needs."""
    if isinstance(condition, OfColumn):
        return {condition.column}
    return set().union(*map(columns_in, condition.parts))


def possible(condition: OfColumn, spread: pa.Table) -> list[bool]:
    """Says for each line of a spread whether the condition may be true of its rows."""
    try:
        expression = parse_expression(condition.sql, spread.schema)
        found = [mask.to_pylist() for _, [mask] in evaluated((expression,), spread)]
    except (
        SchemaError,
        InputError,
    ):  # a literal that does not become a value of the column's type, for one
        return [True] * spread.num_rows
    return [value is not False for part in found for value in part]


_Drafts = _Draft | tuple[str, tuple["_Drafts", ...]]


def _drafted(node: syntax.Node, schema: pa.Schema) -> _Drafts | None:
    kind = node.get("type")
    if kind == "CONJUNCTION_AND":
        parts = [_drafted(child, schema) for child in node["children"]]
        known = tuple(part for part in parts if part is not None)
        return ("and", known) if known else None
    if kind == "CONJUNCTION_OR":
        parts = [_drafted(child, schema) for child in node["children"]]
        known = tuple(part for part in parts if part is not None)
        return ("or", known) if len(known) == len(parts) else None
    return _leaf(node, schema)


def _leaf(node: syntax.Node, schema: pa.Schema) -> _Draft | None:
    kind = node.get("type")
    if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        column = _column(node["children"][0], schema)
        sql = f"{NULLS} > 0" if kind == "OPERATOR_IS_NULL" else f"{NULLS} < {ROWS}"
        return None if column is None else _Draft(column, sql)
    if kind == "COMPARE_IN":
        return _listed(node["children"], schema)
    if kind == "OPERATOR_NOT":
        return _of_flag(node["children"][0], f"NOT {LOW}", schema)
    return _compared(node, schema) or _prefixed(node, schema) or _of_flag(node, HIGH, schema)


def _compared(node: syntax.Node, schema: pa.Schema) -> _Draft | None:
    kind = str(node.get("type"))
    if kind not in _COMPARISONS:
        return None
    if kind == "COMPARE_BETWEEN":
        column, literals = _column(node["input"], schema), [node["lower"], node["upper"]]
    else:
        column, literals = _column(node["left"], schema), [node["right"]]
        if column is None:
            column, literals = _column(node["right"], schema), [node["left"]]
            kind = _MIRRORED.get(kind, kind)
    if column is None or not _all_fit(schema, column, literals):
        return None
    return _of_values(column, _comparison(kind), literals)


def _comparison(kind: str, first: int = 0) -> str:
    """Returns the SQL of a comparison with literal number ``first``, and the next one."""
    places = [f"{{{first}}}", f"{{{first + 1}}}"]
    return "(" + _COMPARISONS[kind].format(*places, low=LOW, high=HIGH) + ")"


def _listed(children: Sequence[syntax.Node], schema: pa.Schema) -> _Draft | None:
    column, literals = _column(children[0], schema), children[1:]
    if column is None or not 0 < len(literals) <= MOST_LISTED:
        return None
    if not _all_fit(schema, column, literals):
        return None
    equal = (_comparison("COMPARE_EQUAL", number) for number in range(len(literals)))
    return _of_values(column, f"({' OR '.join(equal)})", literals)


def _prefixed(node: syntax.Node, schema: pa.Schema) -> _Draft | None:
    """Returns the condition for text that begins in one way: LIKE, and functions that ask for that."""
    name, given = syntax.function_name(node), syntax.arguments(node)
    if name not in ("~~", *_PREFIXES) or len(given) != 2:
        return None
    column, prefix = _column(given[0], schema), _text_of(given[1])
    if column is None or _column_kind(schema.field(column).type) != "text" or prefix is None:
        return None
    if name == "~~":
        prefix = prefix.replace("_", "%").partition("%")[0]
    start = (literal(prefix) or "").replace("{", "{{").replace("}", "}}")
    sql = f"({HIGH} >= {start} AND ({LOW} <= {start} OR starts_with({LOW}, {start})))"
    return _of_values(column, sql, ()) if prefix else None


def _of_flag(node: syntax.Node, sql: str, schema: pa.Schema) -> _Draft | None:
    """Returns the condition for a column of booleans by itself."""
    column = _column(node, schema)
    if column is None or _column_kind(schema.field(column).type) != "bool":
        return None
    return _of_values(column, sql, ())


def _of_values(column: str, sql: str, literals: Sequence[syntax.Node]) -> _Draft:
    """Returns a condition that is true of no null."""
    return _Draft(column, f"{sql} AND {NULLS} < {ROWS}", tuple(literals))


def _column(node: syntax.Node, schema: pa.Schema) -> str | None:
    if node.get("class") != "COLUMN_REF" or len(node["column_names"]) != 1:
        return None
    [name] = node["column_names"]
    alike = [column for column in schema.names if column.lower() == name.lower()]
    return name if name in alike else alike[0] if len(alike) == 1 else None


def _all_fit(schema: pa.Schema, column: str, literals: Sequence[syntax.Node]) -> bool:
    """Whether a column keeps its order where it is compared with the literals.

    Literals of two kinds become one type first, which may be another than the column's, so they must be of one kind.
    """
    kind = _column_kind(schema.field(column).type)
    kinds = {_literal_kind(each) for each in literals}
    return kind is not None and len(kinds) == 1 and kinds <= {*_COMPARABLE[kind]}


def _column_kind(kind: pa.DataType) -> str | None:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _column_kind(kind.value_type)
    tests: list[tuple[str, Callable[[pa.DataType], bool]]] = [
        ("bool", types.is_boolean),
        ("number", types.is_integer),
        ("number", types.is_decimal),
        ("number", lambda kind: kind in (pa.float32(), pa.float64())),
        ("text", lambda kind: kind in (pa.string(), pa.large_string(), pa.string_view())),
        ("bytes", lambda kind: kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
        ("date", types.is_date32),
        ("time", types.is_time),
    ]
    if types.is_timestamp(kind):
        return "clock" if kind.tz is None else "moment"
    return next((name for name, is_one in tests if is_one(kind)), None)


def _literal_kind(node: syntax.Node) -> str | None:
    """Returns the kind of a literal; None for NULL and for anything else than a literal."""
    if node.get("class") == "CONSTANT":
        return "text" if _text_of(node) is not None else _KIND_OF_NAME.get(_constant_name(node))
    if node.get("class") == "CAST" and node["child"].get("class") == "CONSTANT":
        return _KIND_OF_NAME.get(_type_name(node))
    if syntax.function_name(node) in ("from_hex", "unhex"):
        return (
            "bytes" if all(_text_of(each) is not None for each in syntax.arguments(node)) else None
        )
    return None


def _constant_name(node: syntax.Node) -> str:
    if "literal" in node:
        return str(node["literal"].get("kind", ""))
    value = node.get("value", {})
    return "" if value.get("is_null") else str(value.get("type", {}).get("id", ""))


def _text_of(node: syntax.Node) -> str | None:
    """Returns a constant that is text."""
    if node.get("class") != "CONSTANT":
        return None
    if "literal" in node:
        found = node["literal"]
        return found.get("text") if found.get("kind") == "STRING" else None
    return node["value"].get("value") if _constant_name(node) == "VARCHAR" else None


def _type_name(node: syntax.Node) -> str:
    """Returns the name of the type of a cast, in capitals. DuckDB 1.5 has its own name, and 2.0 that of the text."""
    given = node.get("type_expr", {}).get("type_name") or node.get("cast_type", {}).get("id", "")
    return str(given).upper().replace(" ", "_")


def _leaves(drafts: _Drafts) -> Iterator[_Draft]:
    if isinstance(drafts, _Draft):
        yield drafts
    else:
        for part in drafts[1]:
            yield from _leaves(part)


def _written(drafts: _Drafts, texts: Iterator[str]) -> OnSpreads:
    if isinstance(drafts, _Draft):
        found = [next(texts) for _ in drafts.literals]
        return OfColumn(drafts.column, drafts.sql.format(*found))
    joined, parts = drafts
    written = tuple(_written(part, texts) for part in parts)
    return AllOf(written) if joined == "and" else AnyOf(written)
