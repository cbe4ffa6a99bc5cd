"""Facts about a tree that are known before it runs: sizes of its inputs, rows that are left out, and a line of text."""

from __future__ import annotations

from exoshuffle.dataset.inputs.left_out import LeftOut
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.dataset.tree.nodes import (
    Files,
    Given,
    LimitNode,
    MapNode,
    Node,
    StageNode,
    UnionNode,
    given,
    sources,
)
from exoshuffle.futures.options import CPU


def input_bytes(node: Node) -> int:
    """Returns the size in memory of all rows below a node, as far as files and the store tell it."""
    stored = sum(found.num_bytes for found in given(node))
    return stored + sum(int(source.memory_bytes) for source in sources(node))


def left_out(node: Node) -> list[LeftOut]:
    """Returns the rows that are left out of files below a node, once for each time that the files are read."""
    if isinstance(node, Files):
        return [node.left_out] if node.left_out is not None else []
    return [found for child in node.children for found in left_out(child)]


def num_pruned(node: Node) -> int:
    """Returns the number of files below a node that are not read because a filter lets no row of them through."""
    here = node.num_pruned if isinstance(node, Files) else 0
    return here + sum(map(num_pruned, node.children))


def is_at_hand(node: Node) -> bool:
    """Whether the first rows are known without a shuffle, a class of a user, and resources other than CPUs."""
    if isinstance(node, StageNode):
        is_plain = not node.step.is_class and all(name == CPU for name, _ in node.needs.amounts)
        return is_plain and is_at_hand(node.child)
    if isinstance(node, MapNode | UnionNode | LimitNode):
        return all(map(is_at_hand, node.children))
    return isinstance(node, Files | Given)


def is_records(node: Node) -> bool:
    """Whether the rows are fixed-length records, unchanged since they were read."""
    read = sources(node)
    if not read or given(node) or not all(source.record_bytes for source in read):
        return False
    return bool(node.schema.equals(schema_of(read[0])))


def dictionary_columns(node: Node) -> list[bool]:
    """Says for each column whether a dictionary is worth trying: not where an input file has the column without one."""
    plain = {
        name
        for source in sources(node)
        for name, has_dictionary in zip(
            schema_of(source).names, source.dictionary_columns(), strict=True
        )
        if not has_dictionary
    }
    return [name not in plain for name in node.schema.names]


def describe(node: Node) -> str:
    """Returns a line about the tree, for people."""
    below = ", ".join(map(describe, node.children))
    return f"{below} | {node.label}" if below else node.label
