"""Readers open an item of an input where a task runs, and say which rows of the input it has.

Guarantee: readers are small and travel with every task; the task that reads opens files and native objects.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from exoshuffle import _native
from exoshuffle.futures import Value
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.streams import as_reader, as_rows
from exoshuffle.operators.steps.place import Place

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: The input of a map that reads files: a split, or several, one after the other.
FileItem: TypeAlias = _native.Split | tuple[_native.Split, ...]
#: The input of a map that reads an earlier shuffle: a block, or several.
Blocks: TypeAlias = "Buffer | list[Buffer]"
_Split = TypeVar("_Split")


class Reader(Protocol):
    """Opens one item of an input, or one of several splits in it; an item is a split of files or a block."""

    def open(self, item: Value) -> _native.Rows:
        """Returns the rows, to be consumed within ``own_errors``."""

    def place(self, index: int, item: Value) -> Place:
        """Returns which rows of the input item number ``index`` has."""


@dataclass(frozen=True)
class FileReader:
    """Reads splits of files.

    Attributes:
        read_options: How files are read.
        schema: Arrow schema of the files as IPC bytes.
        columns: The columns to read, in this order.
    """

    read_options: _native.ReadOptions
    schema: bytes
    columns: tuple[str, ...]

    def open(self, item: FileItem) -> _native.Rows:
        """See ``Reader``."""
        return _native.Rows.scan(self.read_options, self.schema, splits_of(item), self.columns)

    def place(self, index: int, item: FileItem) -> Place:
        """See ``Reader``; rows of several splits have no number."""
        first, *others = splits_of(item)
        if others:
            return Place.of_part(index, f"{first.file} and {len(others)} splits behind it")
        return Place(index, first.file_index, first.first_row, str(first))


def splits_of(item: _Split | tuple[_Split, ...]) -> tuple[_Split, ...]:
    """Returns what to open for an item of an input: the item itself, or several splits, one after the other."""
    return item if isinstance(item, tuple) else (item,)


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks in the store: Arrow IPC streams, one or a list of them, one after the other."""

    def open(self, item: Blocks) -> _native.Rows:
        """See ``Reader``."""
        import pyarrow as pa

        if not isinstance(item, list):
            return _rows(item)
        streams = [as_reader(_rows(each)) for each in item]
        batches = itertools.chain.from_iterable(streams)
        return as_rows(pa.RecordBatchReader.from_batches(streams[0].schema, batches))

    def place(self, index: int, item: Blocks) -> Place:
        """See ``Reader``."""
        del item
        return Place.of_part(index, f"part {index} of the input")


def _rows(block: Buffer) -> _native.Rows:
    """Returns the rows of a block; Ray hands out blocks that the program put as signed bytes."""
    return _native.Rows.from_ipc(memoryview(block).cast("B"))
