"""The lines of a bill about the input of a tree: its files, and what is left out of them."""

from __future__ import annotations

from exoshuffle.dataset.explain.bill import InputLines
from exoshuffle.dataset.tree.facts import num_pruned
from exoshuffle.dataset.tree.nodes import Node, given, sources
from exoshuffle.dataset.tree.reads import narrowings


def input_lines(node: Node) -> InputLines:
    """Returns the lines of a bill about the input of a tree."""
    read = narrowings(node)
    return {
        "skipped_groups": sum(files.num_groups - left.num_groups for files, left in read),
        "skipped_rows": sum((files.rows or 0) - (left.rows or 0) for files, left in read),
        "input_files": sum(len(source.files) for source in sources(node)),
        "input_bytes": sum(source.bytes for source in sources(node)),
        "pruned_files": num_pruned(node),
        "given_rows": sum(found.num_rows for found in given(node)),
        "given_bytes": sum(found.num_bytes for found in given(node)),
        "tells_rows": all(source.rows is not None for source in sources(node)),
    }
