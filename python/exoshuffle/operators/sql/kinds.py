"""Kinds of columns and of literals in syntax trees: which of them compare without a cast that could fail or disorder.

Why not DuckDB's types: its binder casts silently, and tells neither which side nor whether values keep their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from exoshuffle.operators.sql import syntax

if TYPE_CHECKING:
    import pyarrow as pa

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


def column_named(node: syntax.Node, schema: pa.Schema) -> str | None:
    """Returns the column of a schema that a part of an expression is; None if it is something else."""
    if node.get("class") != "COLUMN_REF" or len(node["column_names"]) != 1:
        return None
    [name] = node["column_names"]
    # Not by the list of names, which is made anew each time.
    if schema.get_field_index(name) >= 0:
        return str(name)
    alike = [column for column in schema.names if column.lower() == name.lower()]
    return name if name in alike else alike[0] if len(alike) == 1 else None


def column_kind(kind: pa.DataType) -> str | None:
    """Returns the kind of the values of a column; None for types that are compared with no literal."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return column_kind(kind.value_type)
    tests: list[tuple[str, Callable[[pa.DataType], bool]]] = [
        ("bool", types.is_boolean),
        ("number", types.is_integer),
        ("number", types.is_decimal),
        ("number", lambda kind: kind in (pa.float32(), pa.float64())),
        ("text", lambda kind: kind in (pa.string(), pa.large_string(), pa.string_view())),
        ("bytes", lambda kind: kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
        ("bytes", types.is_fixed_size_binary),
        ("date", types.is_date32),
        ("time", types.is_time),
    ]
    if types.is_timestamp(kind):
        return "clock" if kind.tz is None else "moment"
    return next((name for name, is_one in tests if is_one(kind)), None)


def literal_kind(node: syntax.Node) -> str | None:
    """Returns the kind of a literal; None for NULL and for anything else than a literal."""
    if node.get("class") == "CONSTANT":
        return "text" if literal_text(node) is not None else _KIND_OF_NAME.get(constant(node)[0])
    if node.get("class") == "CAST" and node["child"].get("class") == "CONSTANT":
        return _KIND_OF_NAME.get(_type_name(node))
    if syntax.function_name(node) in ("from_hex", "unhex"):
        return (
            "bytes"
            if all(literal_text(each) is not None for each in syntax.arguments(node))
            else None
        )
    return None


def constant(node: syntax.Node) -> tuple[str, str]:
    """Returns the name of a constant's type and its text; both are empty for NULL and for anything else."""
    if "literal" in node:
        return str(node["literal"].get("kind", "")), str(node["literal"].get("text", ""))
    value = node.get("value", {})
    if not value or value.get("is_null"):
        return "", ""
    return str(value.get("type", {}).get("id", "")), str(value.get("value", ""))


def literal_text(node: syntax.Node) -> str | None:
    """Returns a constant that is text."""
    if node.get("class") != "CONSTANT":
        return None
    if "literal" in node:
        found = node["literal"]
        return found.get("text") if found.get("kind") == "STRING" else None
    return node["value"].get("value") if constant(node)[0] == "VARCHAR" else None


def _type_name(node: syntax.Node) -> str:
    """Returns the name of the type of a cast, in capitals. DuckDB 1.5 has its own name, and 2.0 that of the text."""
    given = node.get("type_expr", {}).get("type_name") or node.get("cast_type", {}).get("id", "")
    return str(given).upper().replace(" ", "_")
