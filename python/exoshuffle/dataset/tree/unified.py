"""Makes datasets alike, so that their rows can follow each other: with columns in one order and of common types.

The rules for common types are in one place, for files and for datasets (``crates/io/src/source/unify.rs``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.tree.nodes import MapNode, Node
from exoshuffle.errors import SchemaError
from exoshuffle.operators.steps.cast import Cast
from exoshuffle.operators.steps.columns import Nullable, Select
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa


def unified(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the trees with steps that give them one schema, with columns in the order of the first.

    Raises:
        SchemaError: The trees differ in their columns, or types have no common one.

    Cost: a copy of the columns whose types change.
    """
    import pyarrow as pa

    schemas = [node.schema for node in nodes]
    are_equal = all(schema.equals(schemas[0]) for schema in schemas)
    # Dictionaries of one type may together have more values than its keys can number.
    different = schemas[:1] if are_equal else schemas
    names = [f"dataset {number}" for number in range(1, len(different) + 1)]
    serialized = [schema.serialize().to_pybytes() for schema in different]
    try:
        common = _native.union_schema(names, serialized)
    except SchemaError as error:
        raise SchemaError(f"union: {error}; select() and with_columns() do that") from None
    wanted = pa.ipc.read_schema(pa.py_buffer(common))
    return tuple(_made_alike(node, wanted) for node in nodes)


def to_common_type(schema: pa.Schema, names: Sequence[str]) -> dict[str, pa.DataType]:
    """Returns the type that holds the values of columns, for those that have another; none where there is no such type.

    Args:
        schema: The schema of the rows.
        names: The columns, which it has.
    """
    import pyarrow as pa

    kinds = dict.fromkeys(schema.field(name).type for name in names)
    if len(kinds) < 2:
        return {}
    alone = [pa.schema([("values", kind)]).serialize().to_pybytes() for kind in kinds]
    try:
        common = _native.union_schema([str(kind) for kind in kinds], alone)
    except SchemaError:
        return {}
    [field] = pa.ipc.read_schema(pa.py_buffer(common))
    return {name: field.type for name in names if schema.field(name).type != field.type}


def _made_alike(node: Node, wanted: pa.Schema) -> Node:
    schema = node.schema
    steps: list[Step] = []
    if schema.names != wanted.names:
        steps.append(Select(tuple(wanted.names)))
    kinds = {field.name: field.type for field in wanted}
    changed = [
        (field.name, kinds[field.name]) for field in schema if field.type != kinds[field.name]
    ]
    if changed:
        steps.append(Cast(tuple(changed)))
    can_be_null = {field.name for field in wanted if field.nullable}
    strict = [field.name for field in schema if field.name in can_be_null and not field.nullable]
    if strict:
        steps.append(Nullable(tuple(strict)))
    for step in steps:
        node = MapNode(node, step)
    return node
