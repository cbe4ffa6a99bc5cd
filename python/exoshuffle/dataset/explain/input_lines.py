"""The lines of a bill about the input of a tree: its files, and what is left out of them."""

from __future__ import annotations

from exoshuffle import _native
from exoshuffle.dataset.explain.bill import InputLines
from exoshuffle.dataset.inputs.narrowing import narrowed
from exoshuffle.dataset.tree.nodes import (
    Files,
    Node,
    Stepped,
    United,
    given,
    num_pruned,
    sources,
)
from exoshuffle.operators.steps.step import Step


def input_lines(node: Node) -> InputLines:
    """Returns the lines of a bill about the input of a tree."""
    read = _narrowings(node)
    return {
        "skipped_groups": sum(files.num_groups - left.num_groups for files, left in read),
        "skipped_rows": sum((files.rows or 0) - (left.rows or 0) for files, left in read),
        "input_files": sum(len(source.files) for source in sources(node)),
        "input_bytes": sum(source.bytes for source in sources(node)),
        "pruned_files": num_pruned(node),
        "given_rows": sum(found.num_rows for found in given(node)),
        "given_bytes": sum(found.num_bytes for found in given(node)),
    }


def _narrowings(
    node: Node, later: tuple[Step, ...] = ()
) -> list[tuple[_native.Source, _native.Source]]:
    """Returns the files below a node, whole and with the rows that filters may keep; ``later`` steps come behind it."""
    if isinstance(node, Files):
        return [(node.source, narrowed(node.source, later))]
    if isinstance(node, Stepped):
        later = (node.step, *later)
    elif not isinstance(node, United):
        later = ()
    return [found for child in node.children for found in _narrowings(child, later)]
