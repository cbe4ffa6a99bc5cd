"""The native module: what Python calls, and what each call does. Shims in crates/python wrap the crates, without logic.

Calls that read, write, wait or compute release the GIL. A buffer is anything with the buffer protocol; what is handed
out as a buffer stays valid as long as a view of it does.
"""

import builtins
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypedDict, final

from typing_extensions import Buffer, CapsuleType

class _ArrowStream(Protocol):
    """What has rows to hand out by the Arrow C stream interface, once."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _PartFile(TypedDict):
    """A file that was written."""

    name: str
    rows: int
    bytes: int
    crc32: int

#: Where bytes lie in the arena: offset and length of each piece, in order.
_Pieces: TypeAlias = list[tuple[int, int]]

@final
class Store:
    """Blocks under a byte budget: filled once, read from then on, spilled to disk and brought back; see crates/store.

    Args:
        budget_bytes: What blocks and reservations may take together.
        spill_dirs: Directories for spill files; without any, nothing is spilled.
        disk_full_seconds: How long requests wait for others when no directory takes more.
        helpless: Called ten times a second by each thread that waits for memory that only others can free, with the
            bytes it waits for and the seconds since any were freed. What the function raises ends the wait.

    Raises:
        MemoryLimitError: The budget is too small for a block.
        OptionsError: A directory cannot be used, or a number is none.
    """

    #: A slice is read from disk in whole pages of so many bytes.
    PAGE_BYTES: int
    #: Memory comes in whole units of so many bytes.
    UNIT_BYTES: int
    #: A block ends with so many bytes for the start of each slice, and for the end of the last.
    ENTRY_BYTES: int
    def __new__(
        cls,
        budget_bytes: int,
        spill_dirs: Sequence[str],
        disk_full_seconds: float = 10.0,
        helpless: Callable[[int, float], object] | None = None,
    ) -> Store: ...
    def allocate(self, offsets: Sequence[int]) -> Block:
        """A block to fill, whose slices start at these offsets; the last offset is the end. Waits for room."""

    def fetch(self, wanted: Sequence[tuple[int, int]]) -> list[Slice]:
        """Slices, by block and number, brought back where they were spilled. Waits for room for all of them at once.

        Raises:
            CorruptBlockError: What is on disk is not what was written.
        """

    def slice_bytes(self, block: int) -> list[int]:
        """Bytes of each slice of a block, wherever the block is."""

    def arena_fd(self) -> int:
        """A descriptor of the file that blocks are in, for an ``ArenaView`` elsewhere; the caller closes it."""

    def reserve(self, num_bytes: int) -> Reservation:
        """Working memory out of the budget. Waits for room."""

    def free(self, block: int) -> None:
        """Frees a block; its memory goes with the last slice that views it."""

    def stats(self) -> dict[str, int]:
        """Counters by name, in bytes where the name says so."""

    def close(self) -> None:
        """Wakes who waits, with ``ClosedError``, ends the threads and frees everything."""

@final
class Block:
    """A block that is filled: a writable buffer until it is sealed."""

    @property
    def num_slices(self) -> int: ...
    def seal(self) -> int:
        """Makes the block immutable, which needs all views of it to be gone; returns its number."""

    def pieces(self) -> _Pieces | None:
        """Where the block lies, for ``ArenaView.block``; None if it is in a file instead."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class Slice:
    """A read-only buffer: a slice of a block, which stays in memory as long as the slice does."""

    def pieces(self) -> _Pieces | None:
        """Where the slice lies, for ``ArenaView.slice``; None if it is in a file instead."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Reservation:
    """Working memory of a task, given back when it is released or collected."""

    def release(self) -> None:
        """Gives the memory back; harmless when repeated."""

@final
class ArenaView:
    """The blocks of a store in another process.

    Args:
        fd: A descriptor from ``Store.arena_fd``, which the view takes over.
    """

    def __new__(cls, fd: int) -> ArenaView: ...
    def slice(self, pieces: Sequence[tuple[int, int]]) -> MappedSlice:
        """The slice that lies in these pieces."""

    def block(self, pieces: Sequence[tuple[int, int]]) -> MappedBlock:
        """The block that lies in these pieces, to be filled."""

@final
class MappedSlice:
    """A read-only buffer: a slice of the other process, which has to keep it until this process is done."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class MappedBlock:
    """A block of the other process: a writable buffer until it is released."""

    def release(self) -> None:
        """Unmaps the block, so that the other process may seal it; harmless when repeated."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class MemoryGuard:
    """Measures the program's resident memory every few milliseconds, on a thread, until it is closed.

    Args:
        store: The store of the program.
        release_bytes: Above this, idle memory goes back to the system.
        stop_bytes: Above this, the worker that has most beyond what is set apart for it is stopped.
        code_bytes: What libraries count for when their pages were released: workers have them, or they come back.
    """

    def __new__(
        cls, store: Store, release_bytes: int, stop_bytes: int, code_bytes: int
    ) -> MemoryGuard: ...
    def watch(self, process: int, allowed_bytes: int) -> None:
        """Counts a child of this process from now on; so much is set apart for it."""

    def peak(self) -> tuple[int, int]:
        """The most bytes that were resident: of the program, and of this process beside the store at that time."""

    def restart_peak(self) -> None:
        """Forgets the peak until now."""

    def room(self) -> int:
        """Bytes that the program could take, when it was measured last, before idle memory goes back."""

    def stopped(self, process: int) -> tuple[int, int] | None:
        """Bytes that a worker had when it was stopped, and in how many processes beside its own; None if it was not."""

    def forget(self, process: int) -> None:
        """Counts a child no more; has to be called before its number can be that of another process."""

    def close(self) -> None:
        """Ends measuring, and releases idle memory; harmless when repeated."""

@final
class Source:
    """Files of one format, listed and looked at: what they say of themselves, and the splits they are read in.

    Its pickle has a version, as that of ``Split``, and holds what was found: no file is looked at again. Two sources
    are equal only if they are one object, because comparing thousands of files says less than it costs.
    """

    def __new__(
        cls, paths: Sequence[str], read_options: ReadOptions, located: Sequence[str] | None = None
    ) -> Source:
        """Lists the files and reads what they say about themselves: footers, and the beginning of text.

        Args:
            paths: Files, directories and patterns.
            read_options: How they are read.
            located: The files with the places of their bytes (``located``), where some were decompressed or copied.

        Raises:
            InputError: A path is missing, or a file is not what it should be.
            OptionsError: The options do not fit the files.
            SchemaError: Columns of two files have no common type.
        """

    @classmethod
    def from_bytes(
        cls, paths: Sequence[str], read_options: ReadOptions, state: builtins.bytes
    ) -> Source:
        """The source that pickle made these bytes of.

        Raises:
            InputError: The bytes were made by another version, or are damaged.
        """

    @property
    def read_options(self) -> ReadOptions:
        """How the files are read."""

    @property
    def paths(self) -> list[str]:
        """Files, directories and patterns as they were given."""

    @property
    def files(self) -> list[str]:
        """Paths of the files, as people know them."""

    @property
    def places(self) -> list[str]:
        """Where the bytes of the files are, which is elsewhere if they were decompressed or copied."""

    @property
    def format(self) -> str:
        """Name of the format of all files."""

    @property
    def rows(self) -> int | None:
        """Rows of all files; None where the format does not tell."""

    @property
    def bytes(self) -> int:
        """Bytes on disk."""

    @property
    def memory_bytes(self) -> int:
        """Estimated bytes when decoded."""

    @property
    def num_groups(self) -> int:
        """Row groups of Parquet and batches of Arrow; 0 of other formats."""

    @property
    def record_bytes(self) -> int:
        """Bytes of a fixed-length record; 0 of tables."""

    @property
    def key_bytes(self) -> int:
        """Bytes of a record's key."""

    @property
    def schema_ipc(self) -> builtins.bytes:
        """Schema of all files, as an Arrow IPC schema."""

    def partitions_ipc(self) -> builtins.bytes:
        """The partition columns as an Arrow IPC stream, with a row for each file."""

    def working_bytes(self, columns: set[str]) -> tuple[int, str | None]:
        """The most that reading these columns has in memory at once beside the rows, and the file that asks for it.

        It is 0 where that is no more than the buffers of any task. Names that are no columns count for nothing.
        """

    def with_files(self, kept: Sequence[int]) -> Source:
        """The same input with some of its files, given by their numbers."""

    def dictionary_columns(self) -> list[bool]:
        """For each column, whether it is dictionary encoded in all files."""

    def splits(self, target_bytes: int, first_file: int = 0) -> list[Split]:
        """The files cut into splits of about ``target_bytes`` decoded bytes; files are numbered from ``first_file`` on.

        The same files and target give the same splits.
        """

    def splits_together(
        self, target_bytes: int, together_bytes: int, first_file: int
    ) -> list[list[Split]]:
        """The same; neighbours are together that have about ``together_bytes``, 256 at most."""

    def __reduce__(
        self,
    ) -> tuple[Callable[..., Source], tuple[list[str], ReadOptions, builtins.bytes]]: ...

@final
class ReadOptions:
    """How files are read. Equal options are equal; their pickle has a version, as that of ``Split``.

    Args:
        format: Name of the format of all files; None if their names tell.
        csv_delimiter: A character; None for a comma, and a tab in files whose names end in ``.tsv``.
        csv_quote: A character around values; empty if nothing is one, None for ``"``.
        csv_escape: A character that, within quotes, stands before one that means itself.
        csv_comment: A character that lines begin with that are no rows.
        csv_names: Names of columns where no line of a file says them, or an empty list for ``column_0`` and so on; None
            if the first line does.
        csv_skip_rows: Lines to leave out at the start of each file.
        csv_null_values: Texts that are null beside an empty field; None for no others.
        csv_encoding: Name of an encoding; None for UTF-8.
        skip_bad_rows: Rows of text that cannot be read are left out; else the first one is an error.
        hive: Folders ``key=value`` are columns.
        schema: Types of columns, as an Arrow IPC schema.
        record_bytes: Size of a fixed-length record; None for that of gensort.
        key_bytes: Size of its key; None for that of gensort.
        max_row_bytes: The longest row of text that there is memory for.
        max_page_bytes: The largest page of Parquet that there is memory for.

    Raises:
        OptionsError: An option has a value that cannot work.
    """

    def __new__(
        cls,
        *,
        format: str | None = None,
        csv_delimiter: str | None = None,
        csv_quote: str | None = None,
        csv_escape: str | None = None,
        csv_comment: str | None = None,
        csv_names: Sequence[str] | None = None,
        csv_skip_rows: int = 0,
        csv_null_values: Sequence[str] | None = None,
        csv_encoding: str | None = None,
        skip_bad_rows: bool = False,
        hive: bool = True,
        schema: bytes | None = None,
        record_bytes: int | None = None,
        key_bytes: int | None = None,
        max_row_bytes: int | None = None,
        max_page_bytes: int | None = None,
    ) -> ReadOptions: ...
    @classmethod
    def from_bytes(cls, state: bytes) -> ReadOptions:
        """The options that pickle made these bytes of.

        Raises:
            InputError: The bytes were made by another version, or are damaged.
        """

    def with_limits(
        self, max_row_bytes: int | None, max_page_bytes: int | None, shared_bytes: int | None
    ) -> ReadOptions:
        """The same options with other limits; one task at a time reads rows and pages beyond ``shared_bytes``."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class WriteOptions:
    """How files are written. Equal options are equal; their pickle has a version, as that of ``Split``.

    Args:
        format: Name of the format.
        compression: Name of the compression of pages or buffers, as ``formats`` lists them.
        target_file_bytes: A file that has reached this size is followed by another; None for one file a partition.
        row_group_bytes: Encoded size of a row group of Parquet; None for 32 MiB.
        dictionary_columns: For each column, whether Parquet tries a dictionary; None for those of dictionary type.
        ipc_stream: Arrow data is written as a stream, without a footer.
        csv_tabs: Values of CSV are separated by tabs.
        partition_by: Names of the columns that become folders; None for no folders.
        max_folders: Folders at most.

    Raises:
        OptionsError: The format or the compression is not known.
    """

    def __new__(
        cls,
        format: str,
        *,
        compression: str = "none",
        target_file_bytes: int | None = None,
        row_group_bytes: int | None = None,
        dictionary_columns: Sequence[bool] | None = None,
        ipc_stream: bool = False,
        csv_tabs: bool = False,
        partition_by: Sequence[str] | None = None,
        max_folders: int = ...,
    ) -> WriteOptions: ...
    @classmethod
    def from_bytes(cls, state: bytes) -> WriteOptions:
        """The options that pickle made these bytes of.

        Raises:
            InputError: The bytes were made by another version, or are damaged.
        """

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Split:
    """A part of one file, which one task reads.

    A split travels with tasks: any process that has the file can read it, without the ``Source``. Its pickle has a
    version, and a process of another version raises ``InputError``. ``str`` says which rows or bytes of which file it
    is: ``rows 0 to 500 of in.parquet``.
    """

    def __new__(cls, state: builtins.bytes) -> Split:
        """The split that ``__reduce__`` made these bytes of; a ``Source`` makes the others.

        Raises:
            InputError: The bytes were made by another version, or are damaged.
        """

    @property
    def file(self) -> str:
        """Path of the file, as people know it: not where its bytes are, if it was decompressed or copied."""

    @property
    def file_index(self) -> int:
        """Number of the file in its input."""

    @property
    def first_row(self) -> int:
        """Number of the first row within its file, the same however the file is cut.

        CSV and JSON lines do not tell it: there it is the byte where the split begins, which is larger than any number
        of a row before.
        """

    @property
    def end(self) -> int:
        """Where the split ends, exclusive: a row of Parquet and Arrow files, else a byte of the file."""

    @property
    def rows(self) -> int | None:
        """Number of rows; None where the format does not tell."""

    @property
    def bytes(self) -> int:
        """Estimated size when decoded."""

    @property
    def size(self) -> int:
        """Rows where the format tells their number, else bytes of the file."""

    def beginning(self, num_bytes: int) -> Split:
        """The first rows, of about ``num_bytes`` decoded bytes; one row at least.

        A split whose rows are not known stays as it is, because no one knows where a row of it ends.
        """

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[type[Split], tuple[builtins.bytes]]: ...

@final
class Sorter:
    """Moves rows of one schema between partitions, and knows their order.

    A sorter is made again where it is needed, and never pickled. Splits are read as its options say. Assignments and
    samples are bytes, which any sorter made alike takes. ``tag`` says which input of a join rows are of, as slices do.
    """

    @staticmethod
    def table(
        read_options: ReadOptions, schema: bytes, keys: Sequence[tuple[str, bool, bool]]
    ) -> Sorter:
        """For a table.

        Args:
            read_options: How splits are read.
            schema: Of the rows, as an Arrow IPC schema.
            keys: Column, whether it descends, and whether nulls come first. Sorting by range and hashing need keys.

        Raises:
            SchemaError: A key is unknown or of a type that has no order.
        """

    @staticmethod
    def records(read_options: ReadOptions, record_bytes: int, key_bytes: int) -> Sorter:
        """For fixed-length records, which begin with their key. They can only be sorted."""

    @staticmethod
    def permutation(
        read_options: ReadOptions, schema: bytes, seed: int, window: int | None = None
    ) -> Sorter:
        """For a table in the random order that a seed stands for.

        Rows are told apart by their file and their number in it, so the order does not depend on the splits, except for
        CSV and JSON lines, which do not number their rows. Batches in memory are told apart by the number that they are
        scattered with. Windows of so many rows stay together.
        """

    @property
    def streams_in_place(self) -> bool:
        """Whether Arrow streams of what this sorts and gathers are made in their block; see ``Rows.to_ipc_stream``."""

    def measure(self, splits: Sequence[Split], num_rows: int, seed: int) -> tuple[int, int, int]:
        """Looks at about ``num_rows`` rows of each split; returns rows seen, their bytes in blocks, and the largest."""

    def sample(self, splits: Sequence[Split], index: int, num_rows: int, seed: int) -> bytes:
        """Keys of about ``num_rows`` rows of map number ``index``, which reads these splits."""

    def sample_batches(self, batches: _ArrowStream, index: int, num_rows: int, seed: int) -> bytes:
        """Keys of up to ``num_rows`` rows in memory, which take the place of split number ``index``."""

    def choose_boundaries(self, samples: Sequence[bytes], num_partitions: int) -> bytes:
        """The assignment by range whose boundaries divide the samples evenly."""

    def sample_sections(self, sections: Sections, index: int, num_rows: int, seed: int) -> bytes:
        """Keys of up to ``num_rows`` rows of sections, which take the place of split number ``index``."""

    def hash_assignment(self, num_partitions: int, level: int = 0) -> bytes:
        """The assignment by a hash of the keys; levels above 0 divide what those below bring together."""

    def even_assignment(self, num_partitions: int) -> bytes:
        """The assignment by equal ranges of the only key, a number of 64 bits."""

    def round_robin_assignment(self, num_partitions: int) -> bytes:
        """The assignment of rows in turn."""

    def scatter(
        self, splits: Sequence[Split], index: int, assignment: bytes, tag: int = 0
    ) -> Scattered:
        """Reads splits, one after the other, as map number ``index``, and finds where each row goes."""

    def scatter_batches(
        self, batches: _ArrowStream, index: int, assignment: bytes, tag: int = 0
    ) -> Scattered:
        """Finds where each row in memory goes; the rows take the place of split number ``index``."""

    def scatter_sections(
        self, sections: Sections, index: int, assignment: bytes, tag: int = 0
    ) -> Scattered:
        """Finds where each row of sections with this tag goes, which another scatter made, to divide a partition."""

    def sort(self, sections: Sections, tag: int = 0) -> Rows:
        """Sorts the rows of the sections with this tag; the result keeps the slices alive."""

    def gather(self, sections: Sections, tag: int = 0) -> Rows:
        """The rows of the sections with this tag, in the order of these; the result keeps the slices alive."""

@final
class Scattered:
    """Rows in the order of their partitions, waiting for the block that they go to."""

    @property
    def offsets(self) -> list[int]:
        """Where each partition starts in the block, and where the last ends."""

    @property
    def row_bytes(self) -> int:
        """Bytes of the largest row."""

    def write_into(self, block: Buffer) -> None:
        """Fills the block; works once."""

@final
class Rows:
    """Rows, waiting for where they go. They can be taken out once."""

    @staticmethod
    def scan(
        read_options: ReadOptions,
        schema: bytes,
        splits: Sequence[Split],
        columns: Sequence[str] | None = None,
    ) -> Rows:
        """The rows of splits, in their order; all columns, or only these in this order."""

    @staticmethod
    def from_batches(batches: _ArrowStream) -> Rows:
        """The rows of an Arrow stream."""

    @staticmethod
    def from_ipc(buffer: Buffer) -> Rows:
        """The rows of an Arrow IPC stream in a buffer, which is kept, not copied."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType:
        """A stream of all rows with the declared types, made batch after batch as they are asked for."""

    def raise_failure(self) -> None:
        """Raises the error that has ended a stream of the rows, if one has; once. Streams carry its text alone."""

    def write_files(self, directory: str, partition: int, options: WriteOptions) -> PendingFiles:
        """Writes part files; the last may not be on disk yet."""

    def write_stream(self, descriptor: int, options: WriteOptions) -> PendingFiles:
        """Writes to an open file, as the only one there; the file is not closed."""

    @property
    def is_stream(self) -> bool:
        """Whether rows are read as they are asked for, so that only their end tells how many there are."""

    def to_ipc_stream(self) -> IpcStream:
        """One Arrow IPC stream of all rows, made in its block where its size is known before."""

    def to_ipc_streams(self, piece_bytes: int) -> IpcStreams:
        """Arrow IPC streams that end once they have so many bytes; one at least."""

@final
class PendingFiles:
    """Part files of a partition."""

    def wait(self) -> list[_PartFile]:
        """Waits until all files are on disk; works once."""

@final
class Sections:
    """The slices of a partition, which has to have a section of every map.

    Args:
        slices: Buffers, kept as long as this is.
        partition: Its number, for errors.
        first: The number of the first map; None: of any.
        end: The number behind the last map; None: there are as many as there are.

    Raises:
        ShuffleCheckError: A section is missing, double, or of another map.
    """

    def __new__(
        cls,
        slices: Sequence[Buffer],
        partition: int = 0,
        first: int | None = ...,
        end: int | None = None,
    ) -> Sections: ...
    def __len__(self) -> int:
        """The number of maps."""

    @property
    def num_rows(self) -> int:
        """How many rows the maps say that there are."""

    @property
    def first_map(self) -> int:
        """The number of the first map; 0 if there is none."""

    @property
    def failure(self) -> str | None:
        """What was found wrong with the rows that were handed on; None if nothing was. Streams carry text alone."""

    def check(self, tag: int | None = None) -> None:
        """Raises unless all rows, or those of one tag, were handed on, and are those that the maps sent.

        Raises:
            ShuffleCheckError: They are not.
        """

@final
class IpcStreams:
    """An iterator of Arrow IPC streams."""

    def __iter__(self) -> IpcStreams: ...
    def __next__(self) -> IpcStream: ...

@final
class IpcStream:
    """An Arrow IPC stream, waiting for the block that it goes to."""

    @property
    def num_bytes(self) -> int:
        """The most bytes that the stream takes; zeros follow its end."""

    def write_into(self, block: Buffer) -> None:
        """Fills the block; works once."""

@final
class Stop:
    """Ends calls on other threads: an interrupt reaches only the main thread, and a file may take minutes."""

    def set(self) -> None:
        """Has each call that was given this raise ``InterruptedError`` within a few MB."""

@final
class ValsortSummary:
    """What valsort found in one file, or in several."""

    @property
    def records(self) -> int: ...
    @property
    def checksum(self) -> int:
        """Sum of the CRC-32 of all records, as valsort computes it."""

    @property
    def duplicates(self) -> int: ...
    @property
    def unordered(self) -> int:
        """Records that come before the one in front of them."""

    @property
    def first_unordered(self) -> int | None:
        """Number of the first of these."""

#: Rows that a file gets at least before another is begun.
ROLL_ROWS: int

def release_idle_memory() -> None:
    """Gives back to the system what lies idle in the allocators of this process."""

def release_idle_above(most: int) -> None:
    """Gives idle memory back from now on while this process has more than so many bytes resident."""

def release_libraries() -> int:
    """Lets go of pages of libraries that nobody has changed; returns the most bytes that they had at any call."""

def merged_offsets(blocks: Sequence[Sequence[Buffer]]) -> list[int]:
    """Offsets of the block whose slices are those of several blocks, one behind the other."""

def merge_into(blocks: Sequence[Sequence[Buffer]], out: Buffer) -> None:
    """Fills that block."""

def merge_ranks(left: _ArrowStream, right: _ArrowStream, counts_ties: bool, out: Buffer) -> None:
    """For each row of a sorted left side, how many rows of a sorted right one come before, ties counted or not.

    Args:
        left: Key columns.
        right: The same, of the other side.
        counts_ties: Whether equal rows count.
        out: Takes an unsigned 64-bit number for each left row.
    """

def check_writable(schema: bytes, format: str) -> None:
    """Raises ``OptionsError`` if a format cannot hold a schema, given as an Arrow IPC stream without rows."""

def format_of_name(name: str) -> str | None:
    """The format that a file's ending says; None if it says none."""

def format_of_start(start: bytes) -> str:
    """The format of a file that begins so: CSV, if no other format claims it."""

def formats() -> list[tuple[str, str, list[str], list[bool]]]:
    """The registry: name, ending and compressions of each format; whether it is text, tells types, holds any table."""

def list_compressed(
    paths: Sequence[str],
    format: str | None,
) -> list[tuple[str, str | None, str | None]]:
    """The files that paths and patterns stand for, each with its format and codec where it is compressed."""

def codec_of(start: bytes) -> str | None:
    """The codec that the first bytes of a file say; None if it is not compressed."""

def located(shown: str, place: str) -> str:
    """One text for a file that is shown by one path and lies at another."""

def shown_path(path: str) -> str:
    """The path by which such a file is shown."""

def decompress(
    path: str, codec: str, to: tuple[int, str], bounds: tuple[int, int], stop: Stop
) -> int:
    """Decompresses a file into an open one; returns its bytes.

    Args:
        path: The compressed file.
        codec: Of ``codec_of``.
        to: Descriptor of the open file, and what errors call it.
        bounds: The most bytes that the decoder may take, and that a line may have.
        stop: Ends the call.
    """

def gensort_file(
    path: str,
    start: int,
    count: int,
    ascii: bool,
    skew: bool,
    stop: Stop,
) -> tuple[int, int]:
    """Writes ``count`` records from number ``start`` to a new file; returns its bytes and CRC-32."""

def valsort_file(path: str, record_bytes: int, key_bytes: int, stop: Stop) -> ValsortSummary:
    """Looks whether the records of a file are in order."""

def combine_summaries(summaries: Sequence[ValsortSummary]) -> ValsortSummary:
    """The summary of files in a row."""

def union_schema(names: list[str], schemas: list[bytes], /) -> bytes:
    """The schema that rows of all these have, by name; schemas as Arrow IPC streams, names for errors."""

def pattern_finds(pattern: str, path: str) -> bool:
    """Whether a pattern of paths would find a path, which need not exist.

    Args:
        pattern: As ``Source`` takes it, absolute or not. Links before its first pattern characters are followed.
        path: Absolute, without links.
    """

def bad_rows(
    read_options: ReadOptions, schema: bytes, split: Split, from_: int, /
) -> tuple[bytes, int]:
    """Rows of a split that cannot be read, as an Arrow IPC stream, and how many there are."""
