"""SQL expressions over the columns of a table, in DuckDB's dialect: ``"key % 7"``, ``"lower(name)"``.

Guarantee: an expression gives one value per row that depends on this row alone. So results depend neither on how rows
are cut into batches nor on which attempt of a task computed them. Anything that could break that is refused before work
starts: aggregates, windows, subqueries, random numbers, the clock. An expression that is only a column is that column,
and is not copied.

Why DuckDB's own parser: the columns that an expression reads must be known before anything is read. And other SQL that
a user may write in the text (a second statement, a FROM of its own) must not get through.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from exoshuffle.arguments import repeated
from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.by_schema import BySchema
from exoshuffle.operators.sql.comparisons import read_comparisons
from exoshuffle.operators.sql.relational import query
from exoshuffle.operators.sql.types import (
    Expression,
    columns_of,
    does_not_fit,
    of_comparisons,
    typed,
    typed_together,
    unknown_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Most expressions of a schema whose types are kept, of 1 kB each. Steps ask for all of theirs again and again.
#: With 256, none of 502 was kept, and shuffling 20 such rows took more than 120 s on a busy machine.
MAX_KEPT = 16_384
MAX_SCHEMAS = 64
_Key = TypeVar("_Key")
#: Expressions that one query types.
_MOST_TOGETHER = 256
#: Parts of an expression that refer to more than one row, or to something that does not exist.
_REFUSED_CLASSES = {
    "WINDOW": "a window function sees other rows; compute it by with_columns() before",
    "SUBQUERY": "a subquery sees other rows",
    "STAR": "* is several columns; name one",
    "POSITIONAL_REFERENCE": "a column has no number; name it",
    "PARAMETER": "there are no values for parameters; write them out",
}
#: Functions of one row that many programs use, so that these need not ask DuckDB for all of its functions (25 ms).
PLAIN_FUNCTIONS = frozenset(
    {
        "abs",
        "ceil",
        "concat",
        "contains",
        "date_part",
        "date_trunc",
        "day",
        "ends_with",
        "floor",
        "greatest",
        "if",
        "least",
        "left",
        "length",
        "list_value",
        "lower",
        "ltrim",
        "month",
        "nullif",
        "prefix",
        "regexp_matches",
        "replace",
        "right",
        "round",
        "rtrim",
        "starts_with",
        "strftime",
        "struct_pack",
        "substr",
        "substring",
        "suffix",
        "to_days",
        "to_hours",
        "to_minutes",
        "to_months",
        "to_seconds",
        "to_years",
        "trim",
        "trunc",
        "upper",
        "year",
    }
)
#: Functions that exist only with OVER; DuckDB 1.5 calls them aggregates.
_WINDOW_FUNCTIONS = (
    *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"),
    *("lag", "lead", "first_value", "last_value", "nth_value"),
)


def column(name: str, schema: pa.Schema) -> Expression:
    """Returns the expression that is a column.

    Raises:
        SchemaError: There is no such column.
    """
    # Not by the list of names, which is made anew each time: for all of 3,000 columns that took most of a group-by.
    index = schema.get_field_index(name)
    if index < 0:
        raise SchemaError(unknown_column(name, schema))
    return Expression(name, (name,), schema.field(index).type, is_column=True)


def all_columns(schema: pa.Schema) -> Mapping[str, Expression]:
    """Returns the expressions that are the columns, by name.

    Raises:
        SchemaError: Two columns have one name.
    """
    known = _columns_of(schema)
    if len(known) < len(schema):
        for name in schema.names:
            column(name, schema)
    return known


def columns_named(names: Iterable[str], schema: pa.Schema) -> dict[str, Expression]:
    """Returns the expressions that are these columns, by name.

    Raises:
        SchemaError: There is no such column.
    """
    known = _columns_of(schema)
    return {name: known.get(name) or column(name, schema) for name in names}


def _made_columns(schema: pa.Schema) -> Mapping[str, Expression]:
    """Returns the expressions that are the columns whose names no other column has.

    Why they are kept: a group-by behind a step asked 30 times, which made 90,000 expressions of 3,000 columns.
    """
    twice = set(repeated(schema.names))
    return MappingProxyType(
        {
            field.name: Expression(field.name, (field.name,), field.type, is_column=True)
            for field in schema
            if field.name not in twice
        }
    )


_columns_of = BySchema(_made_columns, MAX_SCHEMAS)


def parse_expression(text: str, schema: pa.Schema) -> Expression:
    """Reads an expression and finds its type. Names match as in DuckDB: as written, else whatever their case.

    Columns of types that DuckDB lacks are computed as their plain form: durations as integers in their unit,
    dictionaries as their values. Durations that are compared with intervals, or with each other, are spans of time.

    Raises:
        OptionsError: Something other than text.
        SchemaError: Text that is not one expression, an unknown column or function, types that do not fit, or more than
            one row involved. Or several time zones where only one can be, or a result of a type that files cannot hold.
        InputError: A part without columns makes more than a task has memory for.

    Cost: some queries, 1.5 ms each, the first time; later tasks ask for the same expressions again.
    """
    _check(text)
    return _fitting(text, schema, _known(schema))


def parse_expressions(texts: Iterable[str], schema: pa.Schema) -> list[Expression]:
    """Reads several expressions, as ``parse_expression`` does each.

    Raises:
        See ``parse_expression``.

    Cost: some queries for all of them together, unless one does not fit.
    """
    texts = list(texts)
    if not texts:
        return []
    known = _known(schema)
    for text in texts:
        _check(text)
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    for start in range(0, len(missing), _MOST_TOGETHER):
        _read_together(missing[start : start + _MOST_TOGETHER], schema, known)
    return [_fitting(text, schema, known) for text in texts]


def _check(text: str) -> None:
    if not isinstance(text, str):
        raise OptionsError(
            f'an expression is {shown(text)}; write SQL as text, such as "price > 3" or "1"'
        )
    if not text.strip():
        raise SchemaError(
            f'cannot read expression {text!r}: it is empty; write SQL, such as "price > 3"'
        )


def _nothing_known(schema: pa.Schema) -> dict[str, Expression]:
    del schema
    return {}


#: The expressions that are known to fit a schema, by text.
_known = BySchema(_nothing_known, MAX_SCHEMAS)


def _read_together(texts: Sequence[str], schema: pa.Schema, known: dict[str, Expression]) -> None:
    """Notes expressions that can be read together; the others are left, and so are those that do not fit."""
    if len(texts) < 2:
        return
    syntax.read_ahead(texts)
    found = []
    for text in texts:
        with contextlib.suppress(SchemaError):
            node = syntax.parse(text)
            _refuse_other_rows(text, node)
            if node["class"] != "COLUMN_REF" and not read_comparisons(text, schema):
                found.append((text, node))
    made = typed_together(found, schema)
    _note(known, made)
    _note(_typed, {(text, _of_columns(schema, one.columns)): one for text, one in made.items()})


#: Expressions by text and the columns that they read: each step has another schema, and many pass these on. The four of
#: Q22 of TPC-H were typed 15 times.
_typed: dict[tuple[str, tuple[pa.Field, ...]], Expression] = {}


def _note(known: dict[_Key, Expression], more: Mapping[_Key, Expression]) -> None:
    if len(known) + len(more) > MAX_KEPT:
        known.clear()
    known.update(more)


def _fitting(text: str, schema: pa.Schema, known: dict[str, Expression]) -> Expression:
    found = known.get(text)
    if found is None:
        found = _read(text, schema)
        _note(known, {text: found})
    return found


def _read(text: str, schema: pa.Schema) -> Expression:
    if comparisons := read_comparisons(text, schema):
        return of_comparisons(text, comparisons, schema)
    node = syntax.parse(text)
    columns = columns_of(text, node, schema)
    if node["class"] == "COLUMN_REF" and len(node["column_names"]) == 1:
        return column(columns[0], schema)
    own = _of_columns(schema, columns)
    if (found := _typed.get((text, own))) is not None:
        return found
    _refuse_other_rows(text, node)
    found = typed(text, node, schema)
    _note(_typed, {(text, own): found})
    return found


def _of_columns(schema: pa.Schema, columns: Iterable[str]) -> tuple[pa.Field, ...]:
    """Returns what an expression goes by that reads these columns, in whatever schema they are."""
    return tuple(map(schema.field, columns))


def _refuse_other_rows(text: str, node: syntax.Node) -> None:
    for part in syntax.nodes(node):
        if part.get("class") in _REFUSED_CLASSES:
            raise does_not_fit(text, _REFUSED_CLASSES[part["class"]])
        function = syntax.function_name(part)
        if not function or part.get("is_operator") or function in PLAIN_FUNCTIONS:
            continue
        known = _known_functions()
        if function in known.of_rows:
            raise does_not_fit(
                text, f"{function}() sees other rows; use group_by(), or write OVER (...) behind it"
            )
        if function in _WINDOW_FUNCTIONS:
            raise does_not_fit(text, f"{function}() sees other rows; write OVER (...) behind it")
        if function == "unnest":
            raise does_not_fit(text, "unnest() changes the number of rows; use map_batches()")
        # It depends on the clock, though DuckDB says that it is consistent.
        if function == "age" and len(syntax.arguments(part)) == 1:
            raise does_not_fit(text, "age() of one moment counts to today; give it both moments")
        if function in known.unstable:
            raise does_not_fit(text, f"{function}() gives another value each time; write the value")


def functions_of_rows() -> frozenset[str]:
    """Returns the names of DuckDB's functions of many rows. Cost: 25 ms once."""
    return _known_functions().of_rows


class _Functions(NamedTuple):
    """Names of functions that an expression cannot have.

    Attributes:
        of_rows: The functions of many rows.
        unstable: Those of the moment, the session or chance; not ``error``, which has no value.
    """

    of_rows: frozenset[str]
    unstable: frozenset[str]


@functools.cache
def _known_functions() -> _Functions:
    """Returns the names. Cost: 25 ms once; operators and ``PLAIN_FUNCTIONS`` need none.

    From 2.0.1 on DuckDB says that functions of moments with a zone depend on the session. Its zone is set here, so that
    what they make of their arguments is always the same.
    """
    zoned = "len(parameters) > 0 AND regexp_matches(concat(parameter_types::VARCHAR, return_type), 'TIME ZONE|TZ')"
    sql = f"""
        SELECT
            function_name AS name,
            bool_or(function_type = 'aggregate') AND NOT bool_or(function_type IN ('scalar', 'macro')) AS is_of_rows,
            bool_or(stability <> 'CONSISTENT' AND NOT ({zoned})) AND function_name <> 'error' AS is_unstable
        FROM duckdb_functions() GROUP BY function_name
    """  # noqa: S608  ours
    rows = query(sql).read_all().to_pylist()
    return _Functions(
        frozenset(row["name"] for row in rows if row["is_of_rows"]),
        frozenset(row["name"] for row in rows if row["is_unstable"]),
    )
