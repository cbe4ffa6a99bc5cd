"""SQL expressions over the columns of a table, in DuckDB's dialect: ``"key % 7"``, ``"lower(name)"``.

Guarantee: an expression gives one value per row that depends on this row alone, so results depend neither on how rows
are cut into batches nor on which attempt of a task computed them. What could break that is refused before work starts:
aggregates, windows, subqueries, random numbers, the clock. An expression that is only a column is that column, and is
not copied.

Why DuckDB's own parser: the columns that an expression reads must be known before anything is read, and whatever else a
user may write in one text (a second statement, a FROM of its own) must not get through.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import InputError, OptionsError, SchemaError, shown
from exoshuffle.operators.relational import first_line, query, storable

if TYPE_CHECKING:
    import pyarrow as pa

#: What the table is called in queries; a name that no column is likely to have, since ``name.field`` means it first.
_ROWS = "exoshuffle_rows"

#: Parts of an expression that are about more than one row, or about nothing that is there.
_REFUSED_CLASSES = {
    "WINDOW": "a window function sees other rows",
    "SUBQUERY": "a subquery sees other rows",
    "STAR": "* is several columns; name one",
    "POSITIONAL_REFERENCE": "a column has no number; name it",
    "PARAMETER": "there are no values for parameters; write them out",
}


@dataclass(frozen=True)
class Expression:
    """An expression that fits a schema.

    Attributes:
        text: SQL.
        columns: The columns that it reads, as the schema spells them.
        type: Of its values.
        is_column: It is one column and nothing else.
    """

    text: str
    columns: tuple[str, ...]
    type: pa.DataType
    is_column: bool = False


def column(name: str, schema: pa.Schema) -> Expression:
    """The expression that is a column.

    Raises:
        SchemaError: There is no such column.
    """
    if name not in schema.names:
        raise SchemaError(unknown_column(name, schema))
    return Expression(name, (name,), schema.field(name).type, is_column=True)


def parse_expression(text: str, schema: pa.Schema) -> Expression:
    """Reads an expression and finds its type. Names match as DuckDB's: as written, else whatever their case.

    Columns of types that DuckDB does not have are computed with as what they are made of: durations as integers in
    their unit, dictionaries as their values.

    Raises:
        OptionsError: Something else than text.
        SchemaError: Text that is not one expression, an unknown column or function, types that do not fit, more than
            one row involved, or a result of a type that files cannot hold.

    Cost: two queries, 1.5 ms each, the first time: every task asks again about the same expressions.
    """
    if not isinstance(text, str):
        raise OptionsError(
            f'an expression is {shown(text)}; write SQL as text, such as "price > 3" or "1"'
        )
    if not text.strip():
        raise SchemaError(
            f'cannot read expression {text!r}: it is empty; write SQL, such as "price > 3"'
        )
    return _fitting(text, schema)


@functools.lru_cache(maxsize=256)
def _fitting(text: str, schema: pa.Schema) -> Expression:
    import pyarrow as pa

    node = _parse(text)
    columns = _columns(text, node, schema)
    _refuse_other_rows(text, node)
    if node["class"] == "COLUMN_REF" and len(node["column_names"]) == 1:
        return column(columns[0], schema)
    # Of the others some may be of types that there are no tables of.
    read = pa.schema([schema.field(name) for name in columns])
    rows = _readable(read.empty_table(), columns)
    try:
        # In a WHERE, DuckDB itself refuses what is not a function of one row.
        result = _select(f"({text}\n)", rows, f"WHERE ({text}\n) IS NULL")
    except Exception as error:  # noqa: BLE001  DuckDB's, which only relational.py may import
        raise _does_not_fit(text, first_line(error)) from None
    kind = result.schema.field(0).type
    if not _can_be_stored(kind):
        raise _does_not_fit(text, f"its type is {kind}, which files cannot hold; cast it")
    return Expression(text, columns, kind)


def evaluate(expressions: Sequence[Expression], table: pa.Table) -> list[pa.ChunkedArray]:
    """The values of each expression.

    Raises:
        InputError: A value that cannot be computed with, such as text that is cast to a number.

    Cost: one query (1.5 ms) if anything is computed; memory for the results, and for copies of dictionary columns.
    """
    computed = [expression for expression in expressions if not expression.is_column]
    values = iter(_compute(computed, table)) if computed else iter(())
    return [
        table.column(expression.text) if expression.is_column else next(values)
        for expression in expressions
    ]


def unknown_column(name: str, schema: pa.Schema) -> str:
    """The message about a column that a schema does not have."""
    return f"there is no column {name!r}; the columns are {', '.join(map(repr, schema.names))}"


def _compute(expressions: list[Expression], table: pa.Table) -> list[pa.ChunkedArray]:
    names = sorted({name for expression in expressions for name in expression.columns})
    rows = _readable(table, names)
    texts = [expression.text for expression in expressions]
    selected = ", ".join(f"({text}\n)" for text in texts)
    try:
        result = _select(selected, rows).read_all()
    except Exception as error:  # noqa: BLE001  as in parse_expression; those of single values come through Arrow
        raise InputError(
            f"cannot compute {', '.join(map(repr, texts))}: {first_line(error)}; try_cast() and case when pass over "
            "such rows"
        ) from None
    return list(result.columns)


def _select(expressions: str, rows: pa.Table, clause: str = "") -> pa.RecordBatchReader:
    """A query with texts that were parsed before."""
    return query(f"SELECT {expressions} FROM {_ROWS} {clause}", **{_ROWS: rows})  # noqa: S608  nothing else got in


def _readable(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """These columns for DuckDB; for none, one that has nothing but the rows."""
    import pyarrow as pa

    if not columns:
        return pa.table({"none": pa.nulls(table.num_rows, pa.int8())})
    return storable(table.select(list(columns)))


def _parse(text: str) -> dict[str, Any]:
    """The syntax tree of an expression."""
    tree = _syntax(text)
    if tree["error"]:
        raise SchemaError(f"cannot read expression {text!r}: {tree['error_message']}")
    statements = tree["statements"]
    selected: list[dict[str, Any]] = statements[0]["node"].get("select_list", [])
    # Everything around the expression must be as it is around a number.
    expected = _syntax("0")["statements"]
    if len(selected) != 1 or selected[0]["alias"] or _around(statements) != _around(expected):
        raise SchemaError(
            f"cannot read expression {text!r}: it must be one expression, without name or clauses"
        )
    return selected[0]


def _syntax(text: str) -> dict[str, Any]:
    import pyarrow as pa

    source = pa.table({"text": [f"SELECT {text}"]})
    [row] = (
        query("SELECT json_serialize_sql(text) AS tree FROM source", source=source)
        .read_all()
        .to_pylist()
    )
    tree: dict[str, Any] = json.loads(row["tree"])
    return tree


def _around(statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The statements without what is selected, and without values of parameters, which are refused by name later."""
    return [statement["node"] | {"select_list": []} for statement in statements]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a syntax tree."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _columns(text: str, node: dict[str, Any], schema: pa.Schema) -> tuple[str, ...]:
    """The columns that an expression reads, in the order of the schema."""
    parameters = {
        inner["column_names"][0].lower()
        for outer in _nodes(node)
        if outer.get("class") == "LAMBDA"
        for inner in _nodes(outer["lhs"])
        if inner.get("class") == "COLUMN_REF"
    }
    found = set()
    for part in _nodes(node):
        if part.get("class") == "COLUMN_REF":
            name = part["column_names"][0]
            column = _resolve(name, schema)
            if column is not None:
                found.add(column)
            elif name.lower() not in parameters:
                raise _does_not_fit(text, unknown_column(name, schema))
    if len({name.lower() for name in found}) < len(found):
        raise _does_not_fit(text, "it reads columns whose names differ only in case; rename one")
    return tuple(name for name in schema.names if name in found)


def _resolve(name: str, schema: pa.Schema) -> str | None:
    """The column that a name means."""
    if name in schema.names:
        return name
    alike = [column for column in schema.names if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _refuse_other_rows(text: str, node: dict[str, Any]) -> None:
    for part in _nodes(node):
        if part.get("class") in _REFUSED_CLASSES:
            raise _does_not_fit(text, _REFUSED_CLASSES[part["class"]])
        function = part.get("function_name", "").lower()
        if function in _aggregates():
            raise _does_not_fit(text, f"{function}() sees other rows; use group_by()")
        if function == "unnest":
            raise _does_not_fit(text, "unnest() changes the number of rows; use map_batches()")
        # By the clock, though DuckDB says that it is consistent. Older versions call arguments children.
        if function == "age" and len(part.get("arguments") or part.get("children", ())) == 1:
            raise _does_not_fit(text, "age() of one moment counts to today; give it both moments")
        if function in _unstable():
            raise _does_not_fit(
                text, f"{function}() gives another value each time; write the value"
            )


@functools.cache
def _aggregates() -> frozenset[str]:
    """Functions of many rows."""
    return _functions(
        "NOT bool_or(function_type IN ('scalar', 'macro')) AND bool_or(function_type = 'aggregate')"
    )


@functools.cache
def _unstable() -> frozenset[str]:
    """Functions of the moment, the session or chance; not ``error``, which has no value."""
    return _functions("bool_or(stability <> 'CONSISTENT') AND function_name <> 'error'")


def _functions(condition: str) -> frozenset[str]:
    sql = f"SELECT function_name AS name FROM duckdb_functions() GROUP BY ALL HAVING {condition}"  # noqa: S608  ours
    return frozenset(query(sql).read_all().column("name").to_pylist())


def _can_be_stored(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_union(kind) or isinstance(kind, pa.BaseExtensionType):
        return False
    return all(_can_be_stored(kind.field(i).type) for i in range(kind.num_fields))


def _does_not_fit(text: str, reason: str) -> SchemaError:
    return SchemaError(f"expression {text!r} does not fit: {reason}")
