"""``Results``: writes a dataset to files, and makes its bill beforehand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.files.paths import local_path
from exoshuffle.dataset.files.place import STANDARD
from exoshuffle.dataset.tree.nodes import Node, sources
from exoshuffle.dataset.tree.seeds import seeds_of
from exoshuffle.dataset.tree.strategies import with_strategy
from exoshuffle.dataset.write.codec import default_compression
from exoshuffle.dataset.write.existing import Overwrite, existing_of
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.errors import OptionsError, OutputError, shown
from exoshuffle.futures import current_engine
from exoshuffle.observe.asked import progress_of_program
from exoshuffle.observe.progress import Progress
from exoshuffle.plan.workload import ResultPlace
from exoshuffle.strategies.strategy import Strategy

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.dataset.explain.bill import Bill
    from exoshuffle.dataset.write.write import WriteResult

PathLike = str | os.PathLike[str]

#: The format of rows that come from no files.
MEMORY = "memory"


class Results:
    """The results of a tree of operations; each runs the whole tree.

    Attributes:
        node: The tree.
    """

    def __init__(self, node: Node) -> None:
        if not isinstance(node, Node):
            raise OptionsError(
                f"a dataset is made by read_parquet and its siblings, or by from_arrow, not of {shown(node)}"
            )
        self.node = node

    @property
    def schema(self) -> pa.Schema:
        """The schema as a ``pyarrow.Schema``."""
        return self.node.schema

    @property
    def files(self) -> list[str]:
        """The input files in reading order."""
        return [file for source in sources(self.node) for file in source.files]

    @property
    def format(self) -> str:
        """The name of the input format, such as ``parquet``.

        It is ``memory`` where no rows come from files.
        """
        read = sources(self.node)
        return read[0].format if read else MEMORY

    @property
    def output_format(self) -> str:
        """The format of files where none is named: the input's, or ``parquet`` if that cannot hold the rows or is none.

        A format that holds tables stays: writing a type that it cannot hold is an error.
        """
        from exoshuffle.dataset.write.write import is_held

        name = self.format
        if name == MEMORY:
            return "parquet"
        if not FORMATS[name].holds_tables and not is_held(self.node, name):
            return "parquet"
        return name

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of its random operations, given or fresh, each once; operations in a row give theirs in their order."""
        return seeds_of(self.node)

    def write_parquet(
        self,
        path: PathLike,
        *,
        compression: str | None = None,
        target_file_size: int | str | None = None,
        partition_by: str | Sequence[str] | None = None,
        overwrite: Overwrite = False,
        mode: str | None = None,
        **others: object,
    ) -> WriteResult:
        """Writes a directory of Parquet files, in order of their names, or one file; appears complete or not at all.

        Args:
            path: The directory to make; or the file, if the path has an ending and no ``/`` behind it, and no directory
                is there. ``-`` is standard output. A directory is faster: its files are written side by side.
            compression: ``none``, ``snappy``, ``zstd``, ``lz4`` or ``gzip``. Default: that of the first Parquet file of
                the input, ``zstd`` where there is none or it is not compressed.
            target_file_size: Begin a new file at about this size; default: one file per partition. Only in directories.
            partition_by: Column or columns that become folders ``key=value`` instead, the outermost first. The rows are
                shuffled by them, so that each folder has one file. It has more by target size, or if it is larger than
                memory. In a folder rows keep their order. At most 10,000 folders.
            overwrite: True replaces a directory or file that was written here and is unchanged, or is empty;
                ``"anything"`` replaces any directory or file.
            mode: The same as Spark names it, and more. ``"error"``, the default, refuses an output that exists.
                ``"overwrite"`` is ``overwrite=True``. ``"ignore"`` leaves it as it is and runs nothing. ``"append"``
                adds files to a directory that was written here and is unchanged. They appear at once, behind those that
                are there, which stay under their names (by hard links). Types of columns are not compared.
            **others: Arguments of other libraries; the error says what to write.

        Raises:
            OutputError: The output exists or cannot be written.
            DiskFullError: The spill directories, or the disk of the output, have less room than is needed.
            SchemaError: ``partition_by`` names all columns, or one that is unknown or cannot name folders.
        """
        refuse_arguments("write_parquet", others)
        if compression is None:
            compression = default_compression(self.node, "parquet")
        return self.write(
            path,
            WriteOptions("parquet", compression, target_file_size, partition_by),
            overwrite=overwrite,
            mode=mode,
        )

    def write_ipc(
        self,
        path: PathLike,
        *,
        compression: str = "none",
        target_file_size: int | str | None = None,
        partition_by: str | Sequence[str] | None = None,
        overwrite: Overwrite = False,
        mode: str | None = None,
    ) -> WriteResult:
        """Writes a directory of Arrow IPC files; see ``write_parquet``. Compression: ``none``, ``zstd`` or ``lz4``."""
        return self.write(
            path,
            WriteOptions("arrow", compression, target_file_size, partition_by),
            overwrite=overwrite,
            mode=mode,
        )

    def write_csv(
        self,
        path: PathLike,
        *,
        target_file_size: int | str | None = None,
        partition_by: str | Sequence[str] | None = None,
        overwrite: Overwrite = False,
        mode: str | None = None,
        **others: object,
    ) -> WriteResult:
        """Writes a directory of CSV files with headers; see ``write_parquet``.

        A null is an empty field, an empty string ``""``. Nested and binary columns are refused.
        """
        refuse_arguments("write_csv", others)
        return self.write(
            path,
            WriteOptions("csv", "none", target_file_size, partition_by),
            overwrite=overwrite,
            mode=mode,
        )

    def write_json(
        self,
        path: PathLike,
        *,
        target_file_size: int | str | None = None,
        partition_by: str | Sequence[str] | None = None,
        overwrite: Overwrite = False,
        mode: str | None = None,
    ) -> WriteResult:
        """Writes a directory of JSON lines files; see ``write_parquet``.

        NaN and infinity, which JSON has no numbers for, are written as null. Binary columns are refused.
        """
        return self.write(
            path,
            WriteOptions("jsonl", "none", target_file_size, partition_by),
            overwrite=overwrite,
            mode=mode,
        )

    def write_text(
        self,
        path: PathLike,
        *,
        target_file_size: int | str | None = None,
        overwrite: Overwrite = False,
        mode: str | None = None,
    ) -> WriteResult:
        """Writes a directory of text files, a line for each row; see ``write_parquet``. Rows must have one text column.

        Nulls and texts with line ends are refused, because no line could be read back as them.
        """
        return self.write(
            path, WriteOptions("text", "none", target_file_size), overwrite=overwrite, mode=mode
        )

    def write_records(
        self,
        path: PathLike,
        *,
        target_file_size: int | str | None = None,
        overwrite: Overwrite = False,
        mode: str | None = None,
    ) -> WriteResult:
        """Writes a directory of fixed-length record files; for datasets of ``read_records`` only."""
        return self.write(
            path, WriteOptions("records", "none", target_file_size), overwrite=overwrite, mode=mode
        )

    def write(
        self,
        path: PathLike,
        options: WriteOptions,
        *,
        overwrite: Overwrite = False,
        mode: str | None = None,
        progress: Progress | None = None,
    ) -> WriteResult:
        """Writes a directory in the format of ``options``; see ``write_parquet``."""
        from exoshuffle.dataset.write.write import write_node

        existing = existing_of(overwrite, mode)
        if progress is None and path != STANDARD:
            progress = progress_of_program("write")
        return write_node(self.node, current_engine(), path, options, existing, progress)

    def explain(
        self,
        output: PathLike | None = None,
        *,
        results: ResultPlace = "files",
        options: WriteOptions | None = None,
        overwrite: Overwrite = False,
        mode: str | None = None,
        strategy: str | Strategy | None = None,
    ) -> Bill:
        """Returns the plan as a bill, without running: tasks, memory, bytes spilled, disk needed and free, and why so.

        Args:
            output: Where the result would go, to tell the free space there, and whether the output can be made.
            results: ``"files"``, or ``"batches"`` for results that ``iter_batches`` or ``to_arrow`` would take.
            options: How files would be written; default: in the format of the input, as without arguments.
            overwrite: As for ``write_parquet``.
            mode: As for ``write_parquet``.
            strategy: Bill all operators with this strategy instead of theirs. ``"whole"`` takes one task instead of a
                shuffle where that can be. Another strategy also shuffles what would run in one piece.

        Raises:
            MemoryLimitError: The result cannot fit into memory.
            OptionsError: ``results`` is another word, or the result cannot be written in this format.
            OutputError: The output exists, or cannot be written.
        """
        from exoshuffle.dataset.explain.explain import Destination, explain_node

        if results not in ("files", "batches"):
            raise OptionsError(f'results is {results!r}; write "files" or "batches"')
        path = None if output is None else local_path(output, OutputError)
        node = self.node if strategy is None else with_strategy(self.node, strategy)
        if options is None:
            file_format = self.output_format
            options = WriteOptions(file_format, default_compression(self.node, file_format))
        to = Destination(results, path, options, existing_of(overwrite, mode))
        return explain_node(node, current_engine(), to)
