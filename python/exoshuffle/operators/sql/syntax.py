"""Syntax trees of SQL expressions, as DuckDB's own parser makes them, and back to text.

Guarantee: a text is one expression, or refused: no second statement, no clause and no name gets through.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from exoshuffle.errors import SchemaError
from exoshuffle.operators.sql.relational import query

Node = dict[str, Any]


def parse(text: str) -> Node:
    """The syntax tree of an expression.

    Raises:
        SchemaError: Text that is not one expression.

    Cost: two queries, 1.5 ms each.
    """
    tree = _syntax(text)
    if tree["error"]:
        raise SchemaError(f"cannot read expression {text!r}: {tree['error_message']}")
    statements = tree["statements"]
    selected: list[Node] = statements[0]["node"].get("select_list", [])
    # Everything around the expression must be as it is around a number.
    expected = _syntax("0")["statements"]
    if len(selected) != 1 or selected[0]["alias"] or _around(statements) != _around(expected):
        raise SchemaError(
            f"cannot read expression {text!r}: it must be one expression, without name or clauses"
        )
    return selected[0]


def text_of(node: Node) -> str:
    """The SQL of a syntax tree. Cost: two queries, 1.5 ms each."""
    import pyarrow as pa

    tree = _syntax("0")
    tree["statements"][0]["node"]["select_list"] = [node]
    source = pa.table({"tree": [json.dumps(tree)]})
    [row] = (
        query("SELECT json_deserialize_sql(tree) AS text FROM source", source=source)
        .read_all()
        .to_pylist()
    )
    return str(row["text"]).removeprefix("SELECT ")


def conjuncts(node: Node) -> list[Node]:
    """The conditions that a condition joins by AND; itself, if it joins none."""
    if node["type"] != "CONJUNCTION_AND":
        return [node]
    return [found for child in node["children"] for found in conjuncts(child)]


def nodes(tree: Any) -> Iterator[Node]:
    """All nodes of a syntax tree."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)


def function_name(node: Node) -> str:
    """The name of a function in small letters; empty for other nodes."""
    return str(node.get("function_name", "")).lower() if node.get("class") == "FUNCTION" else ""


def arguments(node: Node) -> list[Node]:
    """The arguments of a function. DuckDB 1.5 called them children."""
    if "arguments" in node:
        return [argument["expression"] for argument in node["arguments"]]
    return list(node.get("children", ()))


def lambda_parameters(node: Node) -> list[str]:
    """The names that a lambda gives to its parameters, in small letters."""
    return [
        part["column_names"][0].lower()
        for part in nodes(node["lhs"])
        if part.get("class") == "COLUMN_REF"
    ]


def column_names(tree: Any) -> Iterator[str]:
    """The names that a syntax tree mentions as columns, those of lambdas' parameters too."""
    return (part["column_names"][0] for part in nodes(tree) if part.get("class") == "COLUMN_REF")


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


def _around(statements: list[Node]) -> list[Node]:
    """The statements without what is selected, and without values of parameters, which are refused by name later."""
    return [statement["node"] | {"select_list": []} for statement in statements]
