"""The native module: its calls for Python, with their documentation. Shims in crates/python wrap the crates; no logic.

Calls that read, write, wait or compute release the GIL. A buffer is any object with the buffer protocol. The memory of
a buffer stays valid as long as a view of it exists.
"""

import builtins
import os
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, TypedDict, final

from typing_extensions import Buffer, CapsuleType, Self

class _ArrowStream(Protocol):
    """An object that hands out its rows once, by the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _PartFile(TypedDict):
    """A file that was written."""

    name: str
    rows: int
    bytes: int
    crc32: int

#: Places of bytes in the arena: offset and length of each piece, in order.
_Pieces: TypeAlias = list[tuple[int, int]]

#: The thing that a path leads to.
_StoredKind: TypeAlias = Literal["file", "directory", "other"]

@final
class Store:
    """Blocks under a byte budget: filled once, read from then on, spilled to disk and brought back; see crates/store.

    Args:
        budget_bytes: Most bytes of blocks and reservations together.
        spill_dirs: Directories for spill files; without any, nothing is spilled.
        disk_full_seconds: Longest wait of a request for other requests when no directory has room.
        helpless: Called ten times a second by each thread that waits for memory that only others can free. It gets the
            bytes that the thread waits for, and the seconds since any were freed. An exception of it ends the wait.
        codec: How spilled bytes are compressed, ``"lz4"`` or ``"zstd"``; None: not at all.

    Raises:
        MemoryLimitError: The budget is too small for a block.
        OptionsError: A directory cannot be used, or a number is none.
    """

    #: Size of a page: a slice is read from disk in whole pages.
    PAGE_BYTES: int
    #: Size of a unit: memory comes in whole units.
    UNIT_BYTES: int
    #: Size of an entry: a block ends with one for the start of each slice, and one for the end of the last.
    ENTRY_BYTES: int
    def __new__(
        cls,
        budget_bytes: int,
        spill_dirs: Sequence[str],
        disk_full_seconds: float = 10.0,
        helpless: Callable[[int, float], object] | None = None,
        codec: str | None = None,
    ) -> Store: ...
    @staticmethod
    def packing_bytes(codec: str | None, num_dirs: int) -> int:
        """Returns the memory that compression of spilled bytes takes beside the budget, with so many directories."""

    def allocate(self, offsets: Sequence[int]) -> Block:
        """Returns a block to fill; its slices start at these offsets, the last of which is the end. Waits for room."""

    def fetch(self, wanted: Sequence[tuple[int, int]]) -> list[Slice]:
        """Returns slices, by block and number; restores spilled ones. Waits for room for all of them at once.

        Raises:
            CorruptBlockError: The bytes on disk differ from those that were written.
        """

    def slice_bytes(self, block: int) -> list[int]:
        """Returns the bytes of each slice of a block, in memory or on disk."""

    def arena_fd(self) -> int:
        """Returns a descriptor of the file of the blocks, for an ``ArenaView`` elsewhere; the caller closes it."""

    def reserve(self, num_bytes: int) -> Reservation:
        """Reserves working memory out of the budget. Waits for room."""

    def free(self, block: int) -> None:
        """Frees a block; its memory goes with the last slice that views it."""

    def stats(self) -> dict[str, int]:
        """Returns counters by name, in bytes where the name says so."""

    def close(self) -> None:
        """Ends all waits with ``ClosedError``, ends the threads and frees everything."""

@final
class Block:
    """A block that is filled: a writable buffer until it is sealed."""

    @property
    def num_slices(self) -> int: ...
    def seal(self) -> int:
        """Makes the block immutable, and returns its number. All views of it must be gone."""

    def pieces(self) -> _Pieces | None:
        """Returns the place of the block, for ``ArenaView.block``; None if it is in a file instead."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class Slice:
    """A read-only buffer: a slice of a block, which stays in memory as long as the slice does."""

    def pieces(self) -> _Pieces | None:
        """Returns the place of the slice, for ``ArenaView.slice``; None if it is in a file instead."""

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
        """Returns the slice that lies in these pieces."""

    def block(self, pieces: Sequence[tuple[int, int]]) -> MappedBlock:
        """Returns the block that lies in these pieces, to be filled."""

@final
class MappedSlice:
    """A read-only buffer: a slice of another process, which has to keep it until this process is done."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class MappedBlock:
    """A block of another process: a writable buffer until it is released."""

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
        stop_bytes: Above this, the guard stops the worker that most exceeds the memory set apart for it.
        code_bytes: Bytes that count for libraries after their pages were released: workers have them, or they come
            back.
    """

    def __new__(
        cls, store: Store, release_bytes: int, stop_bytes: int, code_bytes: int
    ) -> MemoryGuard: ...
    def watch(self, process: int, allowed_bytes: int) -> None:
        """Counts a worker process from now on; ``allowed_bytes`` are set apart for it."""

    def count(self, process: int) -> None:
        """Counts a process that workers are forked from; it is never stopped."""

    def peak(self) -> tuple[int, int]:
        """Returns the most resident bytes: of the program, and of this process beside the store at that time."""

    def restart_peak(self) -> None:
        """Forgets the peak until now."""

    def room(self) -> int:
        """Returns the bytes that the program could take, at the last measurement, before idle memory goes back."""

    def stopped(self, process: int) -> tuple[int, int] | None:
        """Returns the bytes of a worker when it was stopped, and the number of processes beside its own that had them.

        None if it was not stopped.
        """

    def forget(self, process: int) -> None:
        """Stops counting a child. Has to be called before another process can get its number."""

    def close(self) -> None:
        """Ends measuring, and releases idle memory; harmless when repeated."""

@final
class Format:
    """A format of files: the facts in which formats differ, as programs need them. ``formats`` lists all."""

    @property
    def name(self) -> str:
        """Its name in programs."""

    @property
    def ending(self) -> str:
        """The ending of written files, without the dot."""

    @property
    def compressions(self) -> list[str]:
        """The compressions that it can be written with."""

    @property
    def usual_compression(self) -> str:
        """The compression where neither a program nor its input names one."""

    @property
    def is_text(self) -> bool:
        """Files are characters, which may be compressed as a whole; a file does not tell how many rows it has."""

    @property
    def tells_types(self) -> bool:
        """Files tell the types of their columns. If they do not, types can be given, or are inferred."""

    @property
    def holds_tables(self) -> bool:
        """Tables can be written, if each of their types can; else rows are of one kind."""

    @property
    def holds_records(self) -> bool:
        """Rows are fixed-length records, and nothing else."""

    @property
    def names_values(self) -> bool:
        """Every value stands with the name of its column. If so, a file lacks the names of columns without values."""

    @property
    def packs_values(self) -> bool:
        """Values are packed, by dictionaries or runs, so that files may be smaller than their rows in memory."""

    @property
    def skips_rows(self) -> bool:
        """Files tell spreads, and readers decode little of the rows that are left out."""

    @property
    def indivisible(self) -> tuple[str, str, int] | None:
        """The parts of files that are decoded whole, however large they are; None if they are small.

        They are the words for decoding one, before a path, and the remedy where memory has no room for one. The last is
        a number. A task sets memory apart for so many copies of the largest one, as far as half of the budget goes.
        """

    def least_bytes(self, schema: bytes, has_dictionary: Sequence[bool], num_rows: int) -> int:
        """Returns the least bytes of so many rows in files without compression; 0 where none are sure.

        Args:
            schema: The columns, as an Arrow IPC schema.
            has_dictionary: For each column, whether it may get a dictionary.
            num_rows: Number of rows.
        """

@final
class Source:
    """Files of one format, listed and inspected: their schema and sizes, and their splits.

    The pickle of a source has a version, as that of ``Split``, and holds all results: no file is inspected again. Two
    sources are equal only if they are one object, because comparing thousands of files costs more than it tells.
    """

    def __new__(
        cls,
        paths: Sequence[str],
        read_options: ReadOptions,
        located: Sequence[str] | None = None,
        memory: tuple[int, int] | None = None,
    ) -> Source:
        """Lists the files and reads their footers, and the beginning of text files.

        Args:
            paths: Files, directories and patterns.
            read_options: How they are read.
            located: The files with the places of their bytes (``located``), where some were decompressed or copied.
            memory: The memory limit, and the memory for the footer of a file; None if there is no engine yet.

        Raises:
            MemoryLimitError: The footer of a file is too large for the memory limit.
            InputError: A path is missing, or a file is not of its format.
            OptionsError: The options do not fit the files.
            SchemaError: Columns of two files have no common type.
        """

    @classmethod
    def from_bytes(
        cls, paths: Sequence[str], read_options: ReadOptions, state: builtins.bytes
    ) -> Source:
        """Returns the source that pickle made these bytes of.

        Raises:
            InputError: The bytes were made by another version, or are damaged.
        """

    @property
    def read_options(self) -> ReadOptions:
        """The options by which the files are read."""

    @property
    def paths(self) -> list[str]:
        """The files, directories and patterns that were given."""

    @property
    def files(self) -> list[str]:
        """Paths of the files, as people know them."""

    @property
    def places(self) -> list[str]:
        """Paths of the bytes of the files, which differ from ``files`` if they were decompressed or copied."""

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
        """Number of row groups of Parquet or batches of Arrow that have rows to read; 0 for other formats."""

    @property
    def record_bytes(self) -> int:
        """Bytes of a fixed-length record; 0 for tables."""

    @property
    def key_bytes(self) -> int:
        """Bytes of a record's key."""

    @property
    def schema_ipc(self) -> builtins.bytes:
        """Schema of all files, as an Arrow IPC schema."""

    def partitions_ipc(self) -> builtins.bytes:
        """Returns the partition columns as an Arrow IPC stream, with a row for each file."""

    def working_bytes(self, columns: set[str]) -> tuple[int, str | None]:
        """Returns the most memory that reading these columns takes beside the rows, and the file that needs it.

        The number is 0 if it is no more than the buffers of any task. Unknown names of columns are ignored.
        """

    def longest_row_bytes(self, columns: set[str]) -> int:
        """Returns the most bytes that a row can have in these columns, if a page or batch is mostly that row.

        Columns of small pages and batches are left out: the number is 0 where all are small.
        """

    def read_options_within(
        self, limit_bytes: int, budget_bytes: int, num_tasks: int, row_copies: int | None = None
    ) -> ReadOptions:
        """Returns ``read_options`` with the longest row and the largest page that a budget has room for.

        Args:
            limit_bytes: The memory limit of the program, which errors name a larger one for.
            budget_bytes: The budget for blocks and the working memory of tasks.
            num_tasks: Tasks that run at once; at least 1.
            row_copies: The most copies of a large row at once in what takes it, with the row itself; None if unknown.
        """

    def compression(self) -> str:
        """Returns the compression of most bytes in the first row group of the first file; ``"none"`` if it is unknown.

        Raises:
            InputError: The file cannot be read, has changed or is damaged.

        Cost: reads the footer of a file again.
        """

    def are_open(self, columns: set[str], group_bytes: int) -> bool:
        """Returns whether a reader of others, such as that of DuckDB, makes the same of these columns of all files.

        It does where all rows of the files are wanted, and columns have the same types in all of them. Pages must be
        as their headers, checksums and the footer tell, which such a reader would not look at.

        Args:
            columns: The names of the columns.
            group_bytes: The most bytes that these columns of a row group may have in the file.

        Raises:
            InputError: A file cannot be read, has changed or is damaged.

        Cost: reads the footers again, the headers of pages, and whole pages that have checksums. 4 GB at the most.
        """

    def check_unchanged(self) -> None:
        """Checks that the files are still those that were listed.

        Raises:
            InputError: A file is gone, or has changed.
        """

    def plain_bytes(self) -> int:
        """Returns about the bytes of the files without compression.

        Raises:
            InputError: A file cannot be read, has changed or is damaged.

        Cost: reads the footers of up to 8 files, where the format packs values.
        """

    def least_bytes(self, columns: set[str]) -> int | None:
        """Returns the least bytes of columns in files of the same format without compression; None if it does not tell.

        Raises:
            InputError: A file cannot be read, has changed or is damaged.

        Cost: reads the footers of all files, where the format packs values.
        """

    def with_files(self, kept: Sequence[int]) -> Source:
        """Returns the same input with some of its files, given by their numbers."""

    def first_rows(self, count: int) -> Source:
        """Returns the same input with its first rows; with all, where files have no row groups or batches."""

    def with_rows(self, kept: Sequence[Sequence[tuple[int, int]]]) -> Source:
        """Returns the same Parquet input with some rows of each file: ranges of rows, each without its end.

        Files without rows are left out; the others keep their numbers.
        """

    def spreads_ipc(
        self, columns: Sequence[str], detail: str, small_bytes: int
    ) -> list[builtins.bytes]:
        """Returns what Parquet files say about the values of columns, an Arrow IPC stream for each column.

        Its columns are ``file`` (its number in this source), ``start`` and ``end`` (rows of the file). The others are
        ``filters`` (whether a row group has a Bloom filter), ``nulls``, ``low`` and ``high``. No value is less than
        ``low`` or greater than ``high``; null is unknown.

        Args:
            columns: Their names.
            detail: ``"groups"`` for row groups, or ``"pages"`` for pages where files have an index of them.
            small_bytes: Files of no more bytes have no lines.

        Raises:
            InputError: A file cannot be read, has changed or is damaged.

        Cost: reads the footers again, and for pages the indexes of these columns.
        """

    def may_hold(self, column: str, values: builtins.bytes, small_bytes: int) -> list[bool]:
        """Says for each row group whether it may have one of some values in a column, as Bloom filters tell.

        The row groups are those of ``spreads_ipc``, in the same order. Filters that cannot be right are ignored.

        Args:
            column: The name of a column.
            values: The values without nulls, an Arrow IPC stream of one batch with one column.
            small_bytes: Files of no more bytes have no lines.

        Raises:
            InputError: A file cannot be read, has changed or is damaged.

        Cost: reads the footers again, and 4 kB of each filter for each value.
        """

    def dictionary_columns(self) -> list[bool]:
        """Says for each column whether it is dictionary encoded in all files."""

    def splits(self, target_bytes: int, first_file: int = 0) -> list[Split]:
        """Cuts the files into splits of about ``target_bytes`` decoded bytes; numbers files from ``first_file`` on.

        The same files and target give the same splits.
        """

    def larger_parts(self, row_bytes: int) -> list[Split]:
        """Returns the row groups, batches or parts of them whose rows must be larger than ``row_bytes``.

        Their rows have over twice as many bytes together, and over 4 MB more: a sample that found ``row_bytes`` has
        missed some. Empty for formats that tell no sizes.
        """

    def splits_together(
        self, target_bytes: int, together_bytes: int, first_file: int
    ) -> list[list[Split]]:
        """Cuts as ``splits``, and groups neighbours of about ``together_bytes`` together, 256 at most."""

    def __reduce__(
        self,
    ) -> tuple[Callable[..., Source], tuple[list[str], ReadOptions, builtins.bytes]]: ...

@final
class ReadOptions:
    """The options of files that are read. Equal options are equal; their pickle has a version, as that of ``Split``.

    Args:
        format: Name of the format of all files; None if their names tell.
        csv_delimiter: A character; None for a comma, and a tab in files whose names end in ``.tsv``.
        csv_quote: A character around values; empty for no such character, None for ``"``.
        csv_escape: A character that, within quotes, stands before a character that means itself.
        csv_comment: A character at the start of lines that are no rows.
        csv_names: Names of columns if files have no header, or an empty list for ``column_0`` and so on; None if the
            first line names them.
        csv_skip_rows: Number of lines to leave out at the start of each file.
        csv_null_values: Texts that are null beside an empty field; None for no others.
        csv_encoding: Name of an encoding; None for UTF-8.
        skip_bad_rows: Rows of text that cannot be read are left out; else the first one is an error.
        hive: Folders ``key=value`` are columns.
        schema: Types of columns, as an Arrow IPC schema.
        record_bytes: Size of a fixed-length record; None for that of gensort.
        key_bytes: Size of its key; None for that of gensort.

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
    ) -> ReadOptions: ...
    @classmethod
    def from_bytes(cls, state: bytes) -> ReadOptions:
        """Returns the options that pickle made these bytes of.

        Raises:
            InputError: The bytes were made by another version, or are damaged.
        """

    def enough_bytes(self, row_bytes: int) -> int | None:
        """Returns a memory limit with room for a row of so many bytes; None where rows have no limit."""

    @property
    def max_row_bytes(self) -> int | None:
        """The longest row of text that memory has room for; None if nothing limits it."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class WriteOptions:
    """The options of files that are written. Equal options are equal; their pickle has a version, as that of ``Split``.

    Args:
        format: Name of the format.
        compression: Name of the compression of pages or buffers, as ``formats`` lists them.
        target_file_bytes: Size at which a new file begins; None for one file per partition.
        row_group_bytes: Encoded size of a row group of Parquet; None for 32 MiB.
        dictionary_columns: For each column, whether Parquet tries a dictionary; None for columns of dictionary type.
        ipc_stream: Arrow data is written as a stream, without a footer.
        csv_tabs: Values of CSV are separated by tabs.
        partition_by: Names of the columns that become folders; None for no folders.
        max_folders: Most folders.

    Raises:
        OptionsError: The format or the compression is unknown.
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
        """Returns the options that pickle made these bytes of.

        Raises:
            InputError: The bytes were made by another version, or are damaged.
        """

    @property
    def row_copies(self) -> int:
        """The most copies of a large row at once while it is written, with the row itself."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Split:
    """A part of one file, which one task reads.

    A split travels with tasks: any process that has the file can read it, without the ``Source``. Its pickle has a
    version, and a process of another version raises ``InputError``. ``str`` names its rows or bytes and its file:
    ``rows 0 to 500 of in.parquet``.
    """

    @classmethod
    def from_bytes(cls, state: builtins.bytes) -> Split:
        """Returns the split that pickle made these bytes of; a ``Source`` makes new splits.

        Raises:
            InputError: The bytes were made by another version, or are damaged.
        """

    @property
    def file(self) -> str:
        """Path of the file, as people know it, also if its bytes were decompressed or copied elsewhere."""

    @property
    def file_index(self) -> int:
        """Number of the file in its input."""

    @property
    def first_row(self) -> int:
        """Number of the first row within its file, the same however the file is cut.

        CSV and JSON lines do not tell it. There it is the byte where the split begins, which is larger than the number
        of any row before.
        """

    @property
    def end(self) -> int:
        """The exclusive end of the split: a row of Parquet and Arrow files, else a byte of the file."""

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
        """Returns the first rows, of about ``num_bytes`` decoded bytes; at least one row.

        A split with an unknown number of rows stays as it is, because the ends of its rows are unknown too.
        """

    def picked(self, masks: _ArrowStream) -> Split:
        """Returns the split with those of its rows for which a column of booleans is true.

        Only for formats that tell their rows.
        """

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Callable[..., Split], tuple[builtins.bytes]]: ...

@final
class Sorter:
    """Moves rows of one schema between partitions, and knows their order.

    A sorter is never pickled, but made again where it is needed. It reads splits as its options say. Assignments and
    samples are bytes, which any sorter that was made alike takes. ``tag`` is the number of the join's input that rows
    belong to, as in slices.
    """

    @staticmethod
    def table(
        read_options: ReadOptions,
        schema: bytes,
        keys: Sequence[tuple[str, bool, bool]],
        file_schema: bytes | None = None,
    ) -> Sorter:
        """Makes a sorter for a table.

        Args:
            read_options: How splits are read.
            schema: Schema of the rows, as an Arrow IPC schema.
            keys: Column, whether it descends, and whether nulls come first. Sorting by range and hashing need keys.
            file_schema: Schema of the files; their columns that ``schema`` names are read. Default: all of ``schema``.

        Raises:
            SchemaError: A key is unknown or of a type that has no order.
        """

    @staticmethod
    def records(read_options: ReadOptions, record_bytes: int, key_bytes: int) -> Sorter:
        """Makes a sorter for fixed-length records, which begin with their key. They can only be sorted."""

    @staticmethod
    def permutation(
        read_options: ReadOptions,
        schema: bytes,
        seed: int,
        window: int | None = None,
        file_schema: bytes | None = None,
    ) -> Sorter:
        """Makes a sorter for a table in the random order of a seed; ``file_schema`` is that of ``table``.

        Rows are told apart by their file and their number in it, so the order does not depend on the splits. CSV and
        JSON lines are an exception, because they do not number their rows. Batches in memory are told apart by the
        number that they are scattered with. Windows of ``window`` rows stay together.
        """

    @property
    def streams_in_place(self) -> bool:
        """Whether Arrow streams of sorted and gathered rows are made in their block; see ``Rows.to_ipc_stream``."""

    def measure(
        self, splits: Sequence[Split], num_rows: int, seed: int
    ) -> tuple[int, int, int, int]:
        """Measures about ``num_rows`` rows of each split; reads none where all rows have one size.

        Returns:
            Their number, their bytes in blocks, the bytes of the largest, and how many rows the splits have. The last
            is an estimate for text.
        """

    def sample(self, splits: Sequence[Split], index: int, num_rows: int, seed: int) -> bytes:
        """Returns keys of about ``num_rows`` rows of map number ``index``, which reads these splits."""

    def sample_batches(self, batches: _ArrowStream, index: int, num_rows: int, seed: int) -> bytes:
        """Returns keys of up to ``num_rows`` rows in memory, which take the place of split number ``index``."""

    def choose_boundaries(self, samples: Sequence[bytes], num_partitions: int) -> bytes:
        """Returns the assignment by range whose boundaries divide the samples evenly."""

    def sample_sections(self, sections: Sections, index: int, num_rows: int, seed: int) -> bytes:
        """Returns keys of up to ``num_rows`` rows of sections, which take the place of split number ``index``."""

    def hash_assignment(self, num_partitions: int, level: int = 0) -> bytes:
        """Returns the assignment by a hash of the keys; each level divides rows that the levels below keep together."""

    def even_assignment(self, num_partitions: int) -> bytes:
        """Returns the assignment by equal ranges of the only key, a number of 64 bits."""

    def round_robin_assignment(self, num_partitions: int) -> bytes:
        """Returns the assignment of rows in turn."""

    def scatter(
        self, splits: Sequence[Split], index: int, assignment: bytes, tag: int = 0
    ) -> Scattered:
        """Reads splits, one after the other, as map number ``index``, and finds the partition of each row."""

    def scatter_batches(
        self, batches: _ArrowStream, index: int, assignment: bytes, tag: int = 0
    ) -> Scattered:
        """Finds the partition of each row in memory; the rows take the place of split number ``index``."""

    def scatter_rows_of(
        self,
        batches: _ArrowStream,
        splits: Sequence[Split],
        index: int,
        assignment: bytes,
    ) -> Scattered:
        """Finds the partition of each row in memory, which is made of a row of these splits, one after the other.

        Rows are told apart as those of the splits are.

        Raises:
            OptionsError: The splits are of text, which does not number its rows.
            ShuffleCheckError: These are more or fewer rows than the splits have; ``write_into`` raises it if only that
                reads them.
        """

    def scatter_sections(
        self, sections: Sections, index: int, assignment: bytes, tag: int = 0
    ) -> Scattered:
        """Finds the partition of each row of sections with this tag, made by another scatter, to divide a partition."""

    def sort(self, sections: Sections, tag: int = 0) -> Rows:
        """Sorts the rows of the sections with this tag; the result keeps the slices alive."""

    def gather(self, sections: Sections, tag: int = 0) -> Rows:
        """Returns the rows of the sections with this tag, in the order of the sections; keeps the slices alive."""

@final
class Scattered:
    """Rows in the order of their partitions, to be written into a block."""

    @property
    def offsets(self) -> list[int]:
        """The start of each partition in the block, and the end of the last."""

    @property
    def row_bytes(self) -> int:
        """Bytes of the rows: those of the block without the headers of slices."""

    def longest_row(self) -> int | None:
        """Bytes of the longest row; None if columns lie beside rows, such as lists."""

    def write_into(self, block: Buffer) -> None:
        """Fills the block; works once. Rows in random order that have one width are read only now."""

@final
class Rows:
    """Rows, to be written to files or handed out as Arrow streams. They can be taken out once."""

    @staticmethod
    def scan(
        read_options: ReadOptions,
        schema: bytes,
        splits: Sequence[Split],
        columns: Sequence[str] | None = None,
    ) -> Rows:
        """Returns the rows of splits, in their order; all columns, or only ``columns`` in this order."""

    @staticmethod
    def from_batches(batches: _ArrowStream) -> Rows:
        """Returns the rows of an Arrow stream."""

    @staticmethod
    def from_ipc(buffer: Buffer) -> Rows:
        """Returns the rows of an Arrow IPC stream in a buffer, which is kept, not copied."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType:
        """Returns a stream of all rows with the declared types; makes each batch when it is asked for."""

    def raise_failure(self) -> None:
        """Raises the error that ended a stream of the rows, if one did; once. Streams carry only the error's text."""

    def write_files(self, directory: str, partition: int, options: WriteOptions) -> PendingFiles:
        """Writes part files; the last may not be on disk yet."""

    def write_stream(self, descriptor: int, options: WriteOptions) -> PendingFiles:
        """Writes all rows to an open file; does not close the file."""

    @property
    def is_stream(self) -> bool:
        """Whether rows are read when they are asked for, so that only their end tells their number."""

    def to_ipc_stream(self) -> IpcStream:
        """Returns one Arrow IPC stream of all rows, which is made in its block if its size is known before."""

    def to_ipc_streams(self, piece_bytes: int) -> IpcStreams:
        """Returns Arrow IPC streams that each end once they have ``piece_bytes``; at least one."""

@final
class PendingFiles:
    """Part files of a partition."""

    def wait(self) -> list[_PartFile]:
        """Waits until all files are on disk; works once."""

@final
class Sections:
    """The slices of a partition, which must have a section of every map.

    Args:
        slices: Buffers, kept as long as this object.
        partition: Number of the partition, for errors.
        first: The number of the first map; None for any number.
        end: The number behind the last map; None for any number of maps.

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
        """The number of rows, as the maps declare it."""

    @property
    def first_map(self) -> int:
        """The number of the first map; 0 if there is none."""

    @property
    def failure(self) -> str | None:
        """The fault that was found in rows that were handed on; None for no fault. Streams carry only text."""

    def check(self, tag: int | None = None) -> None:
        """Checks that all rows, or those of one tag, were handed on, and equal the rows that the maps sent.

        Raises:
            ShuffleCheckError: They do not.
        """

@final
class IpcStreams:
    """An iterator of Arrow IPC streams."""

    def __iter__(self) -> IpcStreams: ...
    def __next__(self) -> IpcStream: ...

@final
class IpcStream:
    """An Arrow IPC stream, to be written into a block."""

    @property
    def num_bytes(self) -> int:
        """The most bytes that the stream takes; zeros follow its end."""

    def write_into(self, block: Buffer) -> None:
        """Fills the block; works once."""

@final
class Stop:
    """Ends calls on other threads: an interrupt reaches only the main thread, and a file may take minutes."""

    def set(self) -> None:
        """Makes each call that got this object raise ``InterruptedError`` within a few MB."""

@final
class ValsortSummary:
    """The findings of valsort in one file, or in several."""

    @property
    def records(self) -> int: ...
    @property
    def checksum(self) -> int:
        """Sum of the CRC-32 of all records, as valsort computes it."""

    @property
    def duplicates(self) -> int: ...
    @property
    def unordered(self) -> int:
        """Number of records whose key is smaller than that of the record before."""

    @property
    def first_unordered(self) -> int | None:
        """Number of the first such record."""

#: The fewest rows of a file before the next one begins.
ROLL_ROWS: int

def release_idle_memory() -> None:
    """Returns idle memory of this process's allocators to the system."""

def release_idle_above(most: int | None) -> None:
    """Returns idle memory to the system from now on, while this process has more than ``most`` bytes; None ends it."""

def release_libraries() -> int:
    """Releases unchanged pages of libraries; returns the most bytes that they had at any call."""

def merged_offsets(blocks: Sequence[Sequence[Buffer]]) -> list[int]:
    """Returns the offsets of the block that has the slices of several blocks, one behind the other."""

def merge_into(blocks: Sequence[Sequence[Buffer]], out: Buffer) -> None:
    """Fills the block of ``merged_offsets``."""

def merge_ranks(left: _ArrowStream, right: _ArrowStream, counts_ties: bool, out: Buffer) -> None:
    """Counts, for each row of a sorted left side, the rows of a sorted right side that come before.

    Args:
        left: Key columns of the left side.
        right: Key columns of the right side.
        counts_ties: Whether equal rows count.
        out: Takes an unsigned 64-bit number for each left row.
    """

def key_filter(keys: _ArrowStream, num_bytes: int) -> bytes:
    """Returns a filter of keys: bits that deny most other keys, and none of these.

    Args:
        keys: Key columns.
        num_bytes: Bytes of the filter; with 2 for each key, 0.4 % of other keys pass.

    Raises:
        SchemaError: A column of a type that is no key.
    """

def key_marks(keys: _ArrowStream, filter: bytes) -> bytes:
    """Says of each row whether a filter may have its key: a bit for each row, as in Arrow's arrays of booleans.

    Args:
        keys: Key columns whose types hash like those of the filter.
        filter: The bits that ``key_filter`` made.

    Cost: 10 ns for each row.
    """

def check_writable(schema: bytes, format: str) -> None:
    """Raises ``OptionsError`` if a format cannot hold a schema, given as an Arrow IPC stream without rows."""

def format_of_name(name: str) -> str | None:
    """Returns the format that a file's ending names; None if it names none."""

def format_of_start(start: bytes) -> str:
    """Returns the format of a file with these first bytes: CSV, if no other format claims it."""

def formats() -> list[Format]:
    """Returns the registry of formats, in the order of messages."""

def list_compressed(
    paths: Sequence[str],
    format: str | None,
) -> list[tuple[str, str | None, str | None]]:
    """Lists the files of paths and patterns, each with its codec if it is compressed, and its format."""

def codec_of(start: bytes) -> str | None:
    """Returns the codec that the first bytes of a file tell; None if it is not compressed."""

def located(shown: str, place: str) -> str:
    """Returns one text for a file that is shown by one path and lies at another."""

def shown_path(path: str) -> str:
    """Returns the path by which such a file is shown."""

def decompress(
    path: str, codec: str, to: tuple[int, str], bounds: tuple[int, int], stop: Stop
) -> int:
    """Decompresses a file into an open one; returns its bytes.

    Args:
        path: The compressed file.
        codec: Codec of ``codec_of``.
        to: Descriptor of the open file, and its name in errors.
        bounds: The most bytes of the decoder, and of a line.
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
    """Checks whether the records of a file are in order."""

def combine_summaries(summaries: Sequence[ValsortSummary]) -> ValsortSummary:
    """Returns the summary of files that follow each other."""

def union_schema(names: list[str], schemas: list[bytes], /) -> bytes:
    """Returns the schema of the union of these datasets, by name; takes Arrow IPC streams, and names for errors."""

@final
class StoredPath:
    """A path together with the storage that has it, such as the file systems of the machine.

    Outputs are made, put in place and removed by these calls alone, so a storage has to implement no more for them
    (``crates/io/src/storage``). Other operations are the readers' and writers' own. Two are equal if their paths are.

    All calls raise ``OSError`` as those of ``os`` do, with ``errno``, ``strerror`` and ``filename``.
    """

    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    def __fspath__(self) -> str: ...
    def __truediv__(self, name: str | os.PathLike[str], /) -> StoredPath: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def parents(self) -> list[StoredPath]:
        """The directory that it is in, and those above, up to the root of the storage."""

    def resolved(self) -> StoredPath:
        """Returns where the path leads, which need not exist: absolute and without links."""

    def kind(self) -> _StoredKind | None:
        """Returns what the path leads to, behind links; None if there is nothing."""

    def stamp(self) -> tuple[int, int]:
        """Returns the size in bytes, and the time of the last change in nanoseconds since the epoch."""

    def names(self) -> list[str]:
        """Returns the names in a directory, in any order."""

    def below(self) -> list[tuple[str, _StoredKind, int]]:
        """Returns the path within this directory, the kind and the size of all below it, in any order.

        Links are not followed: they are ``"other"``. The size is 0 for anything but a file.
        """

    def start(self, most_bytes: int) -> bytes:
        """Returns the first bytes of a file, at most so many."""

    def create(self) -> NewFile:
        """Creates a file, which must not exist."""

    def create_directory(self) -> None:
        """Creates a directory, which must not exist, in one that does."""

    def create_directories(self) -> None:
        """Creates a directory, and those above it, where they do not exist."""

    def rename(self, to: StoredPath) -> None:
        """Gives a file or directory another name in one step; replaces a file, or a directory that is empty."""

    def exchange(self, other: StoredPath) -> bool:
        """Exchanges two directories in one step; returns False, and has changed nothing, if the storage cannot."""

    def link(self, to: StoredPath) -> None:
        """Gives a file a second name, which must be new, without a copy."""

    def remove(self) -> None:
        """Removes a file."""

    def remove_directory(self) -> None:
        """Removes a directory, which must be empty."""

    def remove_all(self) -> None:
        """Removes a directory and everything below it."""

    def sync(self) -> None:
        """Waits until a file's bytes, or a directory's names, would survive a loss of power."""

    def lock(self) -> StoredLock:
        """Locks a directory, also when it is renamed; ``BlockingIOError`` if another process has the lock."""

    def disk(self) -> tuple[int, int] | None:
        """Returns the disk that new files of this directory are on; None if it has no bounds, or they are not known.

        It is a number that tells it from other disks, and its free bytes.
        """

    def mark(self) -> bytes:
        """Returns the mark of a file."""

    def set_mark(self, mark: bytes) -> None:
        """Keeps a mark of up to 256 bytes with a file."""

@final
class StoredLock:
    """A lock of a directory. It ends with its release, with this object or with the process."""

    def release(self) -> None:
        """Ends the lock; more than once changes nothing."""

@final
class NewFile:
    """A file that is being written from its start to its end. Without ``finish`` it may lack its last bytes.

    Cost: a buffer of 4 MiB, five for more bytes than that.
    """

    def write(self, data: builtins.bytes) -> None:
        """Appends bytes."""

    def finish(self) -> None:
        """Writes the rest and closes the file."""

def pattern_finds(pattern: str, path: str) -> bool:
    """Whether a pattern of paths would find a path, which need not exist.

    Args:
        pattern: A pattern of ``Source``, absolute or not. Links before its first pattern characters are followed.
        path: An absolute path without links.
    """

def bad_rows(
    read_options: ReadOptions, schema: bytes, split: Split, from_: int, /
) -> tuple[bytes, int]:
    """Returns the rows of a split that cannot be read, as an Arrow IPC stream, and the number of lines up to its end.

    Lines are counted from the byte ``from_`` of the file on.
    """
