"""The inputs of the one query: columns of files or blocks, with their sizes, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.inputs.decoding import decoding_bytes
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.inputs.reading import bounded
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.readers import FileReader
from exoshuffle.operators.one_query.task import StoredRows
from exoshuffle.plan.workload import BUFFER_BYTES, buffer_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: Files of more bytes are read as several streams, because one is decoded by one thread at a time.
STREAM_BYTES = 32_000_000
#: Each stream has buffers.
MOST_STREAMS = 8
#: The streams take turns with pieces of this size, so that they end at about the same time.
SPLIT_BYTES = 8_000_000


@dataclass(frozen=True)
class Leaf:
    """An input of the query: the columns of files or of blocks.

    Attributes:
        source: The files or blocks; no steps count.
        columns: The columns.
        schema: The schema of all of them.
        is_open: Whether they are files that DuckDB reads itself.
    """

    source: Input
    columns: tuple[str, ...]
    schema: pa.Schema
    is_open: bool

    @property
    def read_schema(self) -> pa.Schema:
        """The schema of the columns that are read."""
        return chosen(self.schema, self.columns)

    @property
    def num_rows(self) -> float:
        """The number of rows; for blocks about."""
        known = self.source.known_rows
        return max(1.0, self.num_bytes / (8 * len(self.schema))) if known is None else float(known)

    @property
    def num_bytes(self) -> int:
        """The size of the rows in memory, with columns that are not read."""
        return self.source.told_bytes

    @property
    def reader(self) -> FileReader:
        """Reads the columns of pieces of the files."""
        files = self.source.source
        assert files is not None
        return FileReader(bounded(files), files.schema_ipc, self.columns)

    @property
    def stored_rows(self) -> StoredRows:
        """Tells the task how it reads blocks, which it gets beside."""
        return StoredRows(self.schema.serialize().to_pybytes(), self.columns)

    @property
    def is_there(self) -> bool:
        """Whether some of its rows can be looked at: those of a shuffle that has not run cannot."""
        return bool(self.source.refs) or not self.source.is_held

    def num_streams(self, num_cpus: int) -> int:
        """Returns how many streams are read at the same time.

        Rows may be so long that they are read one at a time. Then DuckDB must not wait for a second stream, since it
        keeps the row of the first one. Six texts of 100 MB took 42 s: each wait of 10 s was in vain (now 2.4).
        """
        if self.is_open or self.num_bytes < STREAM_BYTES or self._longest_row_bytes:
            return 1
        return max(1, min(num_cpus, MOST_STREAMS, len(self.splits)))

    @property
    def _longest_row_bytes(self) -> int:
        """The most that a large page or batch leaves possible; 0 where all are small."""
        files = self.source.source
        return 0 if files is None else files.longest_row_bytes(set(self.columns))

    @property
    def splits(self) -> list[_native.Split]:
        """The pieces of the files: pages at least, because each piece decodes its page from the beginning.

        Texts in three pages of 98 MB, as DuckDB writes a million rows, were decoded 12 times each: 7.0 s, and 1.8 now.
        """
        return self.source.pieces(max(SPLIT_BYTES, self._longest_row_bytes))

    @property
    def reading_bytes(self) -> int:
        """The memory for decoding one stream of it."""
        files = self.source.source
        if files is None:
            return 0
        columns = buffer_bytes(len(self.columns)) - BUFFER_BYTES
        return BUFFER_BYTES // 2 + columns + decoding_bytes(files, self.columns)


def chosen(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Returns the schema of some columns."""
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in columns])
