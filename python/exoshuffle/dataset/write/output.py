"""Estimates the size of a result's files before they are written, and checks whether they have room.

An estimate goes by the rows as they travel, or by the input files where their rows come out unchanged. The least size
of files is counted from the schema, and from footers that tell sizes. Only that least size refuses a result, so no
result is refused that would have fitted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.tree.facts import dictionary_columns, input_bytes
from exoshuffle.dataset.tree.nodes import (
    Files,
    Node,
    ShuffleNode,
    UnionNode,
    WindowNode,
    given,
    sources,
)
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.errors import DiskFullError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.observe.disks import free_bytes, is_same_disk
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.units import format_bytes

#: Share of the least size that counts: other programs may have added more to values, such as page headers.
LEAST_PERCENT = 95
#: Share of the bytes spilled to the same disk that counts, because these are an estimate.
SPILLED_PERCENT = 80


@dataclass(frozen=True)
class Result:
    """The size of the last operation's result.

    Attributes:
        num_rows: Number of rows.
        num_bytes: Their size as they travel.
        num_parts: Number of parts.
    """

    num_rows: int
    num_bytes: int
    num_parts: int

    def first(self, num_rows: int) -> Result:
        """Returns the size of its first rows."""
        if num_rows >= self.num_rows:
            return self
        parts = -(-self.num_parts * num_rows // self.num_rows)
        return Result(num_rows, self.num_bytes * num_rows // self.num_rows, max(1, parts))


@dataclass(frozen=True)
class OutputSize:
    """The size of the files of an output.

    Attributes:
        num_files: Number of files.
        num_bytes: Their size.
        is_most: Whether the size may well be smaller, by compression or by dictionaries of values that repeat.
    """

    num_files: int
    num_bytes: int
    is_most: bool


def estimated_size(node: Node, result: Result, options: WriteOptions) -> OutputSize:
    """Estimates the size of the files of a tree's result.

    Cost: reads a few footers, if the format of the result packs values.
    """
    num_bytes = _plain_bytes(node, result, options.format)
    repeats = FORMATS[options.format].packs_values and any(dictionary_columns(node))
    # Rows of several files in one share the values of its dictionaries.
    is_as_read = _is_as_read(node, options.format) and result.num_parts >= _num_files(node)
    is_most = options.compression != "none" or (repeats and not is_as_read)
    per_file = result.num_rows
    if options.target_bytes is not None:
        rows = options.target_bytes * result.num_rows // max(num_bytes, 1)
        # A file gets a multiple of so many rows before the next one begins.
        per_file = -(-max(1, rows) // _native.ROLL_ROWS) * _native.ROLL_ROWS
    parts = max(result.num_parts, 1)
    files = parts * max(1, -(-result.num_rows // (parts * max(per_file, 1))))
    return OutputSize(files, num_bytes, is_most)


def check_room(
    node: Node,
    options: WriteOptions,
    folder: str,
    spill_dirs: Sequence[str],
    plan: ShufflePlan | None = None,
) -> None:
    """Refuses a result that surely has no room on a disk.

    Args:
        node: The tree.
        options: How its result is written.
        folder: An existing folder on the disk that files go to.
        spill_dirs: Where blocks are spilled: files and blocks on one disk count together.
        plan: The plan of the last shuffle, if that is known.

    Raises:
        DiskFullError: There is less room than files take at least.

    Cost: reads the footers of all files, where not even the input would have room.
    """
    free = free_bytes([folder])
    spilled = 0
    if plan is not None and is_same_disk(folder, spill_dirs):
        # The other copies of rows may be gone when files are written.
        spilled = plan.spilled_bytes * SPILLED_PERCENT // (100 * plan.num_copies)
    if free is None or input_bytes(node) + spilled <= free:
        return
    least = least_bytes(node, options) * LEAST_PERCENT // 100
    if least == 0 or least + spilled <= free:
        return
    beside = (
        f" beside about {format_bytes(spilled)} that are spilled to the same disk"
        if spilled
        else ""
    )
    raise DiskFullError(
        f"the output takes at least {format_bytes(least)}{beside}, and {os.path.dirname(folder)} has "
        f"{format_bytes(free)} free; write to a disk with more room"
        + (", or name a compression" if len(FORMATS[options.format].compressions) > 1 else "")
    )


def least_bytes(node: Node, options: WriteOptions) -> int:
    """Returns the least size of the files of a tree's result; 0 if that cannot be told.

    It can be told where all rows of the input come out and values are not compressed. Only columns without dictionaries
    count.
    """
    import pyarrow as pa

    read = sources(node)
    rows = node.num_rows
    num_given = sum(found.num_rows for found in given(node))
    is_whole = rows is not None and rows == num_given + sum(source.rows or 0 for source in read)
    if rows is None or not is_whole or options.compression != "none":
        return 0
    written = [
        (field, has_dictionary)
        for field, has_dictionary in zip(node.schema, dictionary_columns(node), strict=True)
        if field.name not in options.folders
    ]
    if not num_given and all(source.format == options.format for source in read):
        plain = {field.name for field, has_dictionary in written if not has_dictionary}
        told = [source.least_bytes(plain) for source in read]
        if any(num_bytes is not None for num_bytes in told):
            return sum(num_bytes or 0 for num_bytes in told)
    schema = pa.schema([field for field, _ in written]).serialize().to_pybytes()
    dictionaries = [has_dictionary for _, has_dictionary in written]
    return FORMATS[options.format].least_bytes(schema, dictionaries, rows)


def _plain_bytes(node: Node, result: Result, file_format: str) -> int:
    """Estimates the size of the files without compression."""
    read = sources(node)
    if _is_as_read(node, file_format):
        return sum(source.plain_bytes() for source in read)
    known = FORMATS[file_format]
    if known.packs_values and read:
        on_disk = sum(source.plain_bytes() for source in read)
        in_memory: int = sum(source.memory_bytes for source in read)
        return result.num_bytes * min(on_disk, in_memory) // max(in_memory, 1)
    if known.names_values:
        # The names are in quotes, with a colon and a comma.
        return result.num_bytes + result.num_rows * sum(len(n) + 4 for n in node.schema.names)
    return result.num_bytes


def _is_as_read(node: Node, file_format: str) -> bool:
    """Whether the rows of files come out unchanged, in the same format."""
    if isinstance(node, Files):
        return bool(node.source.format == file_format)
    keeps = isinstance(node, UnionNode | WindowNode) or (
        isinstance(node, ShuffleNode) and node.shuffle.keeps_rows
    )
    return keeps and all(_is_as_read(child, file_format) for child in node.children)


def _num_files(node: Node) -> int:
    return sum(len(source.files) for source in sources(node))
