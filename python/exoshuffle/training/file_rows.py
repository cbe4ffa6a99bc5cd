"""The rows of files that a loader hands out: how many each file has, and what tells these files from others.

Guarantee: no row is read; files tell their numbers of rows.
"""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

from exoshuffle.dataset.inputs.file_input import FileInput, told_apart
from exoshuffle.dataset.tree.nodes import MapNode, Node, StageNode, UnionNode, is_read, sources
from exoshuffle.operators.steps.images import DecodeImages
from exoshuffle.operators.steps.step import Step

#: More bytes than a file has, so that splits are as long as the format allows.
_ANY_BYTES = 2**62


class FileRows(NamedTuple):
    """Rows of one file that follow each other.

    Attributes:
        file: Path of the file.
        file_index: Number of the file, as random orders know it.
        first_row: Number of the first row in the file.
        num_rows: How many rows these are.
    """

    file: str
    file_index: int
    first_row: int
    num_rows: int


def file_rows_of(node: Node) -> list[FileRows] | None:
    """Returns the rows below a tree, in order; None where files do not tell their number, or a step may drop some."""
    if not _keeps_rows(node) or any(source.rows is None for source in sources(node)):
        return None
    return [
        FileRows(split.file, split.file_index, split.first_row, int(split.rows or 0))
        for source in _inputs(node)
        for split in source.pieces(_ANY_BYTES)
    ]


def is_empty(node: Node) -> bool:
    """Whether files tell that there is no row below a tree, or have no bytes; False where rows come from elsewhere."""
    rows = file_rows_of(node) if is_read(node) else None
    none_told = rows is not None and not any(each.num_rows for each in rows)
    return none_told or (is_read(node) and not any(source.bytes for source in sources(node)))


def fingerprint(node: Node) -> str:
    """Returns 64 bits, as text, of what decides which rows come: names and sizes of the files, and conditions.

    The folder of the files and the time when they were written do not count, because files are copied elsewhere.
    """
    facts: list[object] = [_conditions(node)]
    for source in _inputs(node):
        facts.append((source.source.format, source.source.bytes))
        facts += [
            (os.path.basename(split.file), split.first_row, split.size)
            for split in source.pieces(_ANY_BYTES)
        ]
    return hashlib.blake2b(repr(facts).encode(), digest_size=8).hexdigest()


def _inputs(node: Node) -> list[FileInput]:
    """Returns the files below a tree, numbered as they are when the tree runs."""
    inputs = [FileInput(source) for source in sources(node)]
    return told_apart(inputs) if _has_union(node) else inputs


def decoded_last(node: Node) -> tuple[Node, tuple[Step, ...]]:
    """Returns the rows before images are decoded, and the steps from there on; all rows and no steps if none are.

    Files are smaller than their pixels, so they are put in order, and decoded behind that.
    """
    found, steps = node, list[Step]()
    while isinstance(node, MapNode) and node.step.keeps_each:
        steps.insert(0, node.step)
        node = node.child
        if isinstance(steps[0], DecodeImages):
            return node, tuple(steps)
    return found, ()


def may_skip_images(node: Node) -> bool:
    """Whether files that are no images are left out below a tree."""
    here = isinstance(node, StageNode) and isinstance(node.step, DecodeImages)
    return here or any(map(may_skip_images, node.children))


def _has_union(node: Node) -> bool:
    return isinstance(node, UnionNode) or any(map(_has_union, node.children))


def _keeps_rows(node: Node) -> bool:
    if isinstance(node, MapNode) and not node.step.keeps_each:
        return False
    return all(map(_keeps_rows, node.children))


def _conditions(node: Node) -> list[str]:
    """Returns the steps below a tree that may drop rows, or make others, as text."""
    found = [each for child in node.children for each in _conditions(child)]
    if isinstance(node, MapNode) and not node.step.keeps_each:
        # The text of a function has its address.
        found.append(node.label if node.step.is_function else repr(node.step))
    return found
