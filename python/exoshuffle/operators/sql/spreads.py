"""Translates conditions on rows into conditions on the spread of columns: the least and greatest value of many rows.

Guarantee: rows are left out only if the condition is surely true of none of them. Comparisons of a column with a
literal are translated, and what AND and OR make of them; all other parts may be true. DuckDB compares the bounds with
the literal as it compares the values, so types, time zones, NaN and text follow its rules. Arrow compares them where
it compares the values, too (``comparisons``): DuckDB would take 0.1 s of a start.

Why only some pairs of types: a column that DuckDB casts to compare it must keep its order. Text that becomes a number
does not, nor does a timestamp that gets a time zone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.kernels import call
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.comparisons import Comparison, read_comparisons, with_literal
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.kinds import column_kind, column_named, literal_kind, literal_text
from exoshuffle.operators.sql.literals import literal
from exoshuffle.operators.sql.parsing import parse_expression
from exoshuffle.operators.sql.queries import readable, select
from exoshuffle.operators.sql.zones import zones_within

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
#: The same by Arrow's functions, and how they are joined, beside DuckDB's names in syntax trees.
_BY_ARROW = {
    "equal": ("COMPARE_EQUAL", "and_kleene", {LOW: "less_equal", HIGH: "greater_equal"}),
    "not_equal": ("COMPARE_NOTEQUAL", "or_kleene", {LOW: "not_equal", HIGH: "not_equal"}),
    "less": ("COMPARE_LESSTHAN", "and_kleene", {LOW: "less"}),
    "less_equal": ("COMPARE_LESSTHANOREQUALTO", "and_kleene", {LOW: "less_equal"}),
    "greater": ("COMPARE_GREATERTHAN", "and_kleene", {HIGH: "greater"}),
    "greater_equal": ("COMPARE_GREATERTHANOREQUALTO", "and_kleene", {HIGH: "greater_equal"}),
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


@dataclass(frozen=True)
class OfColumn:
    """A condition on the spread of one column, as SQL.

    Attributes:
        column: The column.
        sql: The condition.
        equals: Literals, as SQL, of which the column must equal one; none if the condition asks for something else.
        comparison: The comparison of values whose condition it is, if Arrow can compare them.
    """

    column: str
    sql: str
    equals: tuple[str, ...] = ()
    comparison: Comparison | None = None


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
    """A condition on one column whose literals are not yet text: ``{0}``, ``{1}`` … stand for them.

    ``is_equality`` says whether the column must equal one of them.
    """

    column: str
    sql: str
    literals: tuple[syntax.Node, ...] = ()
    is_equality: bool = False


def on_spreads(text: str, schema: pa.Schema) -> OnSpreads | None:
    """Returns the condition on spreads that is possible wherever a condition may be true; None if none is known.

    Args:
        text: The condition, as SQL that fits the schema.
        schema: The schema of the rows.

    Cost: two queries for the literals, 0.5 ms each, beside parsing; none for comparisons that Arrow computes.
    """
    known = read_comparisons(text, schema)
    comparisons = [one for one in known if isinstance(one, Comparison)]
    if known and len(comparisons) == len(known):
        parts = tuple(map(_of_comparison, comparisons))
        return AllOf(parts) if len(parts) > 1 else parts[0]
    drafted = _drafted(syntax.parse(text), schema)
    if drafted is None:
        return None
    nodes = [node for draft in _leaves(drafted) for node in draft.literals]
    texts = iter(syntax.texts_of(nodes) if nodes else ())
    return _written(drafted, texts)


def columns_in(condition: OnSpreads) -> set[str]:
    """Returns the columns whose spread a condition needs."""
    return {leaf.column for leaf in leaves(condition)}


def leaves(condition: OnSpreads) -> Iterator[OfColumn]:
    """Yields the conditions on single columns that a condition is made of."""
    if isinstance(condition, OfColumn):
        yield condition
    else:
        for part in condition.parts:
            yield from leaves(part)


def possible(conditions: Sequence[OfColumn], spread: pa.Table) -> list[list[bool]]:
    """Says for each condition, and for each line of a spread, whether the condition may be true of its rows.

    Cost: a query for all of them, 2 ms. The four of Q6 of TPC-H took 40, when each was parsed, typed and computed.
    Comparisons that Arrow computes need none.
    """
    if not spread.num_rows:
        return [[] for _ in conditions]
    try:
        columns = _compared_bounds(conditions, spread) or _masks(conditions, spread)
    except Exception:  # noqa: BLE001  DuckDB's: a literal that does not become a value of the column's type, for one
        if len(conditions) > 1:
            return [possible([one], spread)[0] for one in conditions]
        return [[True] * spread.num_rows]
    return [[value is not False for value in column.to_pylist()] for column in columns]


def _compared_bounds(
    conditions: Sequence[OfColumn], spread: pa.Table
) -> Sequence[pa.ChunkedArray] | None:
    """Returns what ``_masks`` does, by Arrow; None if there is another condition than comparisons of this type."""
    kind = spread.schema.field(LOW).type
    comparisons = [one.comparison for one in conditions if one.comparison is not None]
    if len(comparisons) < len(conditions) or any(one.literal.type != kind for one in comparisons):
        return None
    has_values = call("less", spread.column(NULLS), spread.column(ROWS))
    masks = []
    for one in comparisons:
        _, joint, bounds = _BY_ARROW[one.kernel]
        beside = [
            with_literal(kernel, spread.column(bound), one.literal)
            for bound, kernel in bounds.items()
        ]
        found = functools.reduce(functools.partial(call, joint), beside)
        masks.append(call("and_kleene", found, has_values))
    return masks


def _masks(conditions: Sequence[OfColumn], spread: pa.Table) -> Sequence[pa.ChunkedArray]:
    import pyarrow as pa

    texts = [one.sql for one in conditions]
    if zones_within(spread.schema.field(LOW).type):
        # The meaning of its zone for the query is found where expressions are read.
        expressions = [parse_expression(text, spread.schema) for text in texts]
        parts = [values for _, values in evaluated(expressions, spread)]
        columns = zip(*parts, strict=True)
        return [
            pa.chunked_array([chunk for part in column for chunk in part.chunks])
            for column in columns
        ]
    rows = readable(spread, spread.schema.names, microseconds=False)
    found: list[pa.ChunkedArray] = select(texts, rows).read_all().columns
    return found


def _of_comparison(comparison: Comparison) -> OfColumn:
    """Returns the condition of a comparison; its SQL is there for queries that compute it with others."""
    name, _, _ = _BY_ARROW[comparison.kernel]
    text = str(literal(comparison.literal.as_py()))
    draft = _of_values(comparison.column, _comparison(name), ())
    equals = (text,) if name == "COMPARE_EQUAL" else ()
    return OfColumn(draft.column, draft.sql.format(text), equals, comparison)


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
        column = column_named(node["children"][0], schema)
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
        column, literals = column_named(node["input"], schema), [node["lower"], node["upper"]]
    else:
        column, literals = column_named(node["left"], schema), [node["right"]]
        if column is None:
            column, literals = column_named(node["right"], schema), [node["left"]]
            kind = _MIRRORED.get(kind, kind)
    if column is None or not _all_fit(schema, column, literals):
        return None
    return _of_values(column, _comparison(kind), literals, kind == "COMPARE_EQUAL")


def _comparison(kind: str, first: int = 0) -> str:
    """Returns the SQL of a comparison with literal number ``first``, and the next one."""
    places = [f"{{{first}}}", f"{{{first + 1}}}"]
    return "(" + _COMPARISONS[kind].format(*places, low=LOW, high=HIGH) + ")"


def _listed(children: Sequence[syntax.Node], schema: pa.Schema) -> _Draft | None:
    column, literals = column_named(children[0], schema), children[1:]
    if column is None or not 0 < len(literals) <= MOST_LISTED:
        return None
    if not _all_fit(schema, column, literals):
        return None
    equal = (_comparison("COMPARE_EQUAL", number) for number in range(len(literals)))
    return _of_values(column, f"({' OR '.join(equal)})", literals, is_equality=True)


def _prefixed(node: syntax.Node, schema: pa.Schema) -> _Draft | None:
    """Returns the condition for text that begins in one way: LIKE, and functions that ask for that."""
    name, given = syntax.function_name(node), syntax.arguments(node)
    if name not in ("~~", *_PREFIXES) or len(given) != 2:
        return None
    column, prefix = column_named(given[0], schema), literal_text(given[1])
    if column is None or column_kind(schema.field(column).type) != "text" or prefix is None:
        return None
    if name == "~~":
        prefix = prefix.replace("_", "%").partition("%")[0]
    start = (literal(prefix) or "").replace("{", "{{").replace("}", "}}")
    sql = f"({HIGH} >= {start} AND ({LOW} <= {start} OR starts_with({LOW}, {start})))"
    return _of_values(column, sql, ()) if prefix else None


def _of_flag(node: syntax.Node, sql: str, schema: pa.Schema) -> _Draft | None:
    """Returns the condition for a column of booleans by itself."""
    column = column_named(node, schema)
    if column is None or column_kind(schema.field(column).type) != "bool":
        return None
    return _of_values(column, sql, ())


def _of_values(
    column: str, sql: str, literals: Sequence[syntax.Node], is_equality: bool = False
) -> _Draft:
    """Returns a condition that is true of no null."""
    return _Draft(column, f"{sql} AND {NULLS} < {ROWS}", tuple(literals), is_equality)


def _all_fit(schema: pa.Schema, column: str, literals: Sequence[syntax.Node]) -> bool:
    """Whether a column keeps its order where it is compared with the literals.

    Literals of two kinds become one type first, which may be another than the column's, so they must be of one kind.
    """
    kind = column_kind(schema.field(column).type)
    kinds = {literal_kind(each) for each in literals}
    return kind is not None and len(kinds) == 1 and kinds <= {*_COMPARABLE[kind]}


def _leaves(drafts: _Drafts) -> Iterator[_Draft]:
    if isinstance(drafts, _Draft):
        yield drafts
    else:
        for part in drafts[1]:
            yield from _leaves(part)


def _written(drafts: _Drafts, texts: Iterator[str]) -> OnSpreads:
    if isinstance(drafts, _Draft):
        found = [next(texts) for _ in drafts.literals]
        equals = tuple(found) if drafts.is_equality else ()
        return OfColumn(drafts.column, drafts.sql.format(*found), equals)
    joined, parts = drafts
    written = tuple(_written(part, texts) for part in parts)
    return AllOf(written) if joined == "and" else AnyOf(written)
