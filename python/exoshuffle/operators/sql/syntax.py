"""Parses SQL expressions into syntax trees, by DuckDB's own parser, and turns trees back into text.

Guarantee: a text is one expression, or refused: no second statement, no clause and no name gets through.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from exoshuffle.errors import SchemaError
from exoshuffle.operators.arrow_values import array_of
from exoshuffle.operators.sql.databases import expression_cursor

if TYPE_CHECKING:
    import pyarrow as pa

#: The most texts whose trees are kept: each step asks again for the expressions of those before it.
MAX_KEPT = 1024
#: A node of a syntax tree, a JSON document: DuckDB decides which fields it has, and that differs between versions.
Node: TypeAlias = dict[str, Any]


def parse(text: str) -> Node:
    """Returns the syntax tree of an expression.

    Raises:
        SchemaError: Text that is not one expression.

    Cost: a query, 1.5 ms, the first time.
    """
    # The number tells what stands around an expression that is alone; a second query would take 3 ms of a start.
    tree, number = map(json.loads, _parsed(text))
    if tree["error"] and tree["error_type"] == "parser":
        raise SchemaError(f"cannot read expression {text!r}: {tree['error_message']}")
    # The only error of another type is a statement that is no SELECT.
    statements = tree.get("statements") or [{"node": {}}]
    selected: list[Node] = statements[0]["node"].get("select_list", [])
    # Everything around the expression must be as it is around a number.
    if (
        len(selected) != 1
        or selected[0]["alias"]
        or _around(statements) != _around(number["statements"])
    ):
        raise SchemaError(
            f"cannot read expression {text!r}: it must be one expression, without name or clauses"
        )
    return selected[0]


def text_of(node: Node) -> str:
    """Returns the SQL of a syntax tree. Cost: two queries, 1.5 ms each."""
    [text] = texts_of([node])
    return text


def texts_of(nodes: Sequence[Node]) -> list[str]:
    """Returns the SQL of several syntax trees, in their order. Cost: as ``text_of`` of one."""
    import pyarrow as pa

    statement = json.loads(_parsed("0")[1])
    trees = []
    for node in nodes:
        statement["statements"][0]["node"]["select_list"] = [node]
        trees.append(json.dumps(statement))
    source = pa.table([array_of(trees, pa.string())], names=["tree"])
    texts = _answers("json_deserialize_sql(tree)", source)
    return [text.removeprefix("SELECT ") for text in texts]


def column_node(name: str, before: Node) -> Node:
    """Returns the syntax tree of a column that takes the place of another part."""
    kept = ("alias", "query_location", "query_location_length")
    made: Node = {"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": [name]}
    return made | {key: before[key] for key in kept if key in before}


def conjuncts(node: Node) -> list[Node]:
    """Returns the conditions that a condition joins by AND; itself, if it joins none."""
    if node["type"] != "CONJUNCTION_AND":
        return [node]
    return [found for child in node["children"] for found in conjuncts(child)]


def nodes(tree: object) -> Iterator[Node]:
    """Yields all nodes of a syntax tree."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)


def function_name(node: Node) -> str:
    """Returns the name of a function in small letters; empty for other nodes."""
    return str(node.get("function_name", "")).lower() if node.get("class") == "FUNCTION" else ""


def arguments(node: Node) -> list[Node]:
    """Returns the arguments of a function. DuckDB 1.5 called them children."""
    if "arguments" in node:
        return [argument["expression"] for argument in node["arguments"]]
    return list(node.get("children", ()))


def lambda_parameters(node: Node) -> list[str]:
    """Returns the names that a lambda gives to its parameters, in small letters."""
    return [
        part["column_names"][0].lower()
        for part in nodes(node["lhs"])
        if part.get("class") == "COLUMN_REF"
    ]


def column_names(tree: object) -> Iterator[str]:
    """Yields the names that a syntax tree mentions as columns, also those of lambdas' parameters."""
    return (part["column_names"][0] for part in nodes(tree) if part.get("class") == "COLUMN_REF")


@functools.lru_cache(maxsize=MAX_KEPT)
def _parsed(text: str) -> tuple[str, str]:
    """Returns the syntax trees of an expression and of a number, as text, because trees are changed.

    They come from the database that expressions have anyhow: another one takes 15 ms.
    """
    import pyarrow as pa

    source = pa.table([array_of([f"SELECT {text}", "SELECT 0"], pa.string())], names=["text"])
    tree, number = _answers("json_serialize_sql(text)", source)
    return tree, number


def _answers(sql: str, source: pa.Table) -> list[str]:
    cursor = expression_cursor()
    cursor.register("source", source)
    rows = cursor.sql(f"SELECT {sql}::VARCHAR FROM source")  # noqa: S608  ours
    return [str(row[0]) for row in rows.fetchall()]


def _around(statements: list[Node]) -> list[Node]:
    """Returns the statements without the selection and without values of parameters, refused later by name."""
    return [statement["node"] | {"select_list": []} for statement in statements]
