"""Sinks: files of an output directory, or an Arrow stream in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypedDict

from exoshuffle import _native
from exoshuffle.futures import allocate_block, waiting
from exoshuffle.futures.engine import BlockBuffer
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.sink import Sink
from exoshuffle.operators.core.streams import as_reader, as_rows
from exoshuffle.operators.steps.place import Place
from exoshuffle.operators.steps.step import Step, apply_steps, copies_behind

if TYPE_CHECKING:
    from typing_extensions import Self


class PartFile(TypedDict):
    """A file that was written."""

    name: str
    rows: int
    bytes: int
    crc32: int


#: Size of a block that holds a part of a partition's result.
PIECE_BYTES = 8_000_000
#: Copies of a large row while it becomes a block: the row, its stream, and the block.
_BLOCK_COPIES = 3
#: A number above the partitions of any shuffle.
_PARTS = 2**20


@dataclass(frozen=True)
class Attempt:
    """The files of a partition that one attempt has written.

    Attributes:
        folder: The folder of the attempt.
        files: The files; names are those within it.
        place: Numbers of the partitions that contain this one, the outermost first.
    """

    folder: str
    files: list[PartFile]
    place: tuple[int, ...]

    def name_of(self, file: PartFile) -> str:
        """Returns the name of a file in the output.

        A part has the numbers of what contains it in front, and so its place in the order of files.
        """
        folder, slash, name = file["name"].rpartition("/")
        numbers = "".join(f"{number:05}-" for number in self.place)
        return f"{folder}{slash}part-{numbers}{name[len('part-') :]}"


@dataclass(frozen=True)
class WriteSink:
    """Writes a partition to one or more files.

    Several attempts, and two at a time, are harmless: each has a folder of its own. The program takes the files of the
    one whose result it got. So files and what is told of them belong together, whatever users' functions make.

    Attributes:
        directory: Has the folders of attempts. An attempt does not make it: once the program has removed it, what still
            runs cannot write any more.
        options: How files are written.
        place: Numbers of the partitions that contain this one, the outermost first.
    """

    directory: str
    options: _native.WriteOptions
    place: tuple[int, ...] = ()

    @property
    def num_returns(self) -> int:
        """See ``Sink``."""
        return 1

    @property
    def keeps_partitions(self) -> bool:
        """See ``Sink``."""
        return True

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """See ``Sink``."""
        return ()

    @property
    def row_copies(self) -> int:
        """See ``Sink``."""
        return self.options.row_copies

    def __call__(self, partition: int, rows: _native.Rows) -> Iterator[Attempt]:
        """Writes the rows; yields an ``Attempt``."""
        folder = os.urandom(16).hex()
        attempt = _native.StoredPath(self.directory) / folder
        attempt.create_directory()
        try:
            pending = rows.write_files(str(attempt), partition, self.options)
            with waiting():
                files: list[PartFile] = pending.wait()
        except BaseException:
            with contextlib.suppress(OSError):  # the commit removes it
                attempt.remove_all()
            raise
        yield Attempt(folder, files, self.place)

    def within(self, partition: int) -> WriteSink:
        """See ``Sink``: files of parts have the partition's number before their own, and so its place in the order."""
        return dataclasses.replace(self, place=(*self.place, partition))


class _WithoutFiles:
    """The answers of a sink whose results have no names, so that nobody minds how many there are of a partition."""

    @property
    def num_returns(self) -> int | Literal["streaming"]:
        """See ``Sink``."""
        return 1

    @property
    def keeps_partitions(self) -> bool:
        """See ``Sink``."""
        return False

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """See ``Sink``."""
        return ()

    def within(self, partition: int) -> Self:
        """See ``Sink``."""
        del partition
        return self


@dataclass(frozen=True)
class BlocksSink(_WithoutFiles):
    """Makes Arrow IPC streams of a partition, as blocks in the store.

    Mostly that is one stream, made in its block. Results of joins and of users' functions may be far larger than the
    partition, or than memory. They become several blocks, which the store spills one by one.

    Attributes:
        piece_bytes: Size of a block, if the size of the rows is not known beforehand.
    """

    piece_bytes: int = PIECE_BYTES

    @property
    def num_returns(self) -> Literal["streaming"]:
        """See ``Sink``."""
        return "streaming"

    @property
    def row_copies(self) -> int:
        """See ``Sink``: the row, its stream, and the block."""
        return _BLOCK_COPIES

    def __call__(self, partition: int, rows: _native.Rows) -> Iterator[object]:
        """Yields the blocks, at least one."""
        del partition
        if not rows.is_stream:
            yield block_of(rows)
            return
        for stream in rows.to_ipc_streams(self.piece_bytes):
            yield _block(stream)


@dataclass(frozen=True)
class TableSink(_WithoutFiles):
    """Makes a table of a partition, for a task that takes the tables of several."""

    @property
    def row_copies(self) -> int:
        """See ``Sink``."""
        return _BLOCK_COPIES

    def __call__(self, partition: int, rows: _native.Rows) -> Iterator[object]:
        """Yields the table."""
        del partition
        yield as_reader(rows).read_all()


@dataclass(frozen=True)
class CountSink(_WithoutFiles):
    """Counts the rows of a partition, and keeps none."""

    @property
    def row_copies(self) -> int:
        """See ``Sink``."""
        return 1

    def __call__(self, partition: int, rows: _native.Rows) -> Iterator[int]:
        """Yields the number."""
        del partition
        yield sum(batch.num_rows for batch in as_reader(rows))


def block_of(rows: _native.Rows) -> BlockBuffer:
    """Returns all rows as one Arrow IPC stream, in a block of the running task."""
    return _block(rows.to_ipc_stream())


def _block(stream: _native.IpcStream) -> BlockBuffer:
    block = allocate_block([0, stream.num_bytes])
    stream.write_into(block)
    return block


@dataclass(frozen=True)
class SteppedSink:
    """Applies steps to a partition on its way to another sink.

    Attributes:
        steps: The steps.
        sink: The sink that takes the rows then.
        first_part: Number of the first part; parts of a divided partition are numbered apart from all others.
    """

    steps: tuple[Step, ...]
    sink: Sink
    first_part: int = 0

    def __call__(self, partition: int, rows: _native.Rows) -> Iterator[object]:
        """Yields the results of the other sink."""
        # Parts of a divided partition have their own numbers, which say nothing to users.
        name = "" if self.first_part else f"partition {partition}"
        place = Place.of_part(self.first_part + partition, name)
        batches = apply_steps(self.steps, as_reader(rows), place)
        return self.sink(partition, as_rows(batches))

    @property
    def num_returns(self) -> int | Literal["streaming"]:
        """See ``Sink``."""
        return self.sink.num_returns

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """See ``Sink``."""
        return (*self.steps, *self.sink.all_steps)

    @property
    def row_copies(self) -> int | None:
        """See ``Sink``."""
        return copies_behind(self.steps, self.sink.row_copies)

    @property
    def keeps_partitions(self) -> bool:
        """See ``Sink``."""
        return self.sink.keeps_partitions

    def within(self, partition: int) -> SteppedSink:
        """See ``Sink``."""
        first = (self.first_part + partition + 1) * _PARTS % 2**63
        return dataclasses.replace(self, sink=self.sink.within(partition), first_part=first)
