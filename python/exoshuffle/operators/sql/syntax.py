"""Parses SQL expressions into syntax trees, by DuckDB's own parser, and turns trees back into text.

Guarantee: a text is one expression, or refused: no second statement, no clause and no name gets through.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from exoshuffle.errors import SchemaError
from exoshuffle.operators.sql.databases import expression_cursor, is_out_of_memory

#: The most texts whose trees are kept: each step asks again for the expressions of those before it.
MAX_KEPT = 16_384
#: A node of a syntax tree, a JSON document: DuckDB decides which fields it has, and that differs between versions.
Node: TypeAlias = dict[str, Any]
#: An expression that is alone.
_NUMBER = "0"
#: Trees by the text of their expressions. They are text, too, because trees are changed.
_trees: dict[str, str] = {}


def parse(text: str) -> Node:
    """Returns the syntax tree of an expression.

    Raises:
        SchemaError: Text that is not one expression.

    Cost: a query, 0.5 ms, the first time.
    """
    # The number tells what stands around an expression that is alone; a second query would take 3 ms of a start.
    tree, number = map(json.loads, _read([text, _NUMBER]))
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


def read_ahead(texts: Sequence[str]) -> None:
    """Reads expressions by one query, so that ``parse`` needs none for each of them."""
    _read([*texts, _NUMBER])


def text_of(node: Node) -> str:
    """Returns the SQL of a syntax tree. Cost: two queries, 0.5 ms each."""
    [text] = texts_of([node])
    return text


def texts_of(nodes: Sequence[Node]) -> list[str]:
    """Returns the SQL of several syntax trees, in their order. Cost: as ``text_of`` of one."""
    statement = json.loads(_read([_NUMBER])[0])
    trees = []
    for node in nodes:
        statement["statements"][0]["node"]["select_list"] = [node]
        trees.append(json.dumps(statement))
    texts = _answers("json_deserialize_sql(text)", trees)
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
    """Yields all nodes of a syntax tree, each before those within it."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            part = list(part.values())
        if isinstance(part, list):
            waiting.extend(each for each in reversed(part) if isinstance(each, dict | list))


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


def _read(texts: Sequence[str]) -> list[str]:
    """Returns the syntax trees of expressions, as text.

    They come from the database that expressions have anyhow: another one takes 15 ms.
    """
    known = {text: _trees.get(text) for text in texts}
    missing = [text for text, tree in known.items() if tree is None]
    if missing:
        trees = _answers("json_serialize_sql(text)", [f"SELECT {text}" for text in missing])
        made = dict(zip(missing, trees, strict=True))
        if len(_trees) + len(made) > MAX_KEPT:
            _trees.clear()
        _trees.update(made)
        known |= made
    return [tree for text in texts if (tree := known[text]) is not None]


def _answers(sql: str, texts: Sequence[str]) -> list[str]:
    """Returns the answer for each text, a query's worth at a time: the trees of many expressions may find no memory.

    500 expressions of three functions each did not, in the 8 MB that a task has within 300 MB.
    """
    found: list[str] = []
    size = len(texts)
    while len(found) < len(texts):
        some = texts[len(found) : len(found) + size]
        try:
            found += _answered(sql, some)
        except Exception as error:
            if len(some) == 1 or not is_out_of_memory(error):
                raise
            size = len(some) // 2
    return found


def _answered(sql: str, texts: Sequence[str]) -> list[str]:
    """Returns what DuckDB makes of each text. They are a parameter: a relation took 1.4 ms, this 0.5."""
    query = f"SELECT {sql}::VARCHAR FROM (SELECT unnest($1::VARCHAR[]) AS text)"  # noqa: S608  ours
    return [str(row[0]) for row in expression_cursor().execute(query, [list(texts)]).fetchall()]


def _around(statements: list[Node]) -> list[Node]:
    """Returns the statements without the selection and without values of parameters, refused later by name."""
    return [statement["node"] | {"select_list": []} for statement in statements]
