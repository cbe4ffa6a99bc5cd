"""The task that runs the one query: it opens files and blocks as streams, and hands the result to a sink.

Guarantee: whatever goes wrong before the result is complete is a ``QueryError``, and nothing has been handed over. So
the caller can compute the rows in another way, which also finds the words for an error in the user's data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.errors import EngineError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.readers import FileReader
from exoshuffle.operators.core.shuffle import Aggregation
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.streams import as_reader, as_rows, own_errors
from exoshuffle.operators.one_query.files import open_files
from exoshuffle.operators.one_query.key_order import in_key_order
from exoshuffle.operators.sql.databases import (
    AS_WRITTEN,
    FILES_AS_WRITTEN,
    OPTIMIZED,
    lent_cursor,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: Rows of a batch of the result.
_BATCH_ROWS = 1 << 20
#: The same where the size of the result is looked at as it comes.
_FEW_ROWS = 1 << 16


class QueryError(EngineError):
    """The query failed; its cause says why."""


@dataclass(frozen=True)
class FileStreams:
    """The rows of files, as streams that are read at the same time.

    Attributes:
        reader: How to read.
        parts: The splits of each stream.
    """

    reader: FileReader
    parts: tuple[tuple[_native.Split, ...], ...]


@dataclass(frozen=True)
class OpenFiles:
    """The rows of files that DuckDB reads itself (``open_files``).

    Attributes:
        source: The files.
        schema: The columns that the query reads, as IPC bytes.
    """

    source: _native.Source
    schema: bytes


@dataclass(frozen=True)
class StoredRows:
    """The rows of blocks, which the task gets as its next argument.

    Attributes:
        schema: Their schema, as IPC bytes.
        columns: The columns that the query reads.
    """

    schema: bytes
    columns: tuple[str, ...]


@dataclass(frozen=True)
class OneQuery:
    """The query.

    Attributes:
        sql: Its text. It calls stream k of input i ``t<i>_<k>``; files that DuckDB reads are stream 0.
        inputs: The inputs that it reads.
        aggregation: Makes the result of what it returns, which are groups in any order, or rows.
        num_threads: The threads of DuckDB.
        limit_bytes: The memory of DuckDB.
        result_bytes: The most that the result may take beside it; None where it is no larger than hash tables.
        orders_joins: Whether DuckDB orders joins, if it reads all inputs itself.
    """

    sql: str
    inputs: tuple[FileStreams | OpenFiles | StoredRows, ...]
    aggregation: Aggregation
    num_threads: int
    limit_bytes: int
    result_bytes: int | None = None
    orders_joins: bool = True


def run_query(query: OneQuery, sink: Sink, *blocks: Sequence[Buffer]) -> object:
    """Task: runs the query, and hands its result to a sink."""
    return handed(sink, _handed_over(query, sink, blocks))


def count(
    sql: str, rows: FileStreams | StoredRows, limit_bytes: int, blocks: Sequence[Buffer]
) -> int:
    """Task: returns the number that a query makes of one input, within so much memory; ``blocks`` are those of it.

    Raises:
        QueryError: The query failed.

    Cost: 15 ms beside the work itself.
    """
    try:
        with lent_cursor(limit_bytes, 1) as cursor:
            for number, stream in enumerate(_streams(rows, iter((blocks,)))):
                cursor.register(f"t0_{number}", stream)
            return int(cursor.sql(sql).fetchall()[0][0])
    except Exception as error:
        raise QueryError("the rows are computed in another way") from error


def _handed_over(
    query: OneQuery, sink: Sink, blocks: Sequence[Sequence[Buffer]]
) -> Iterator[object]:
    try:
        result = query.aggregation.result(_found(query, blocks))
    except Exception as error:
        raise QueryError("the rows are computed in another way") from error
    with own_errors():
        yield from sink(0, as_rows(result.to_reader()))


def _found(query: OneQuery, blocks: Sequence[Sequence[Buffer]]) -> pa.Table:
    given = iter(blocks)
    files = [rows for rows in query.inputs if isinstance(rows, OpenFiles)]
    disabled = AS_WRITTEN
    if len(files) == len(query.inputs):
        disabled = OPTIMIZED if query.orders_joins else FILES_AS_WRITTEN
    with lent_cursor(query.limit_bytes, query.num_threads, disabled) as cursor:
        for index, rows in enumerate(query.inputs):
            if isinstance(rows, OpenFiles):
                open_files(cursor, f"t{index}_0", rows.source, rows.schema)
                continue
            for number, stream in enumerate(_streams(rows, given)):
                cursor.register(f"t{index}_{number}", stream)
        if query.result_bytes is None:
            groups = cursor.sql(query.sql).to_arrow_reader(_BATCH_ROWS)
            found = in_key_order(groups, len(query.aggregation.keys))
        else:
            found = _bounded(cursor.sql(query.sql).to_arrow_reader(_FEW_ROWS), query.result_bytes)
        for read in files:
            read.source.check_unchanged()
        return found


def _bounded(reader: pa.RecordBatchReader, most_bytes: int) -> pa.Table:
    """Returns all rows; raises ``QueryError`` if they take more than there is room for."""
    import pyarrow as pa

    batches, num_bytes = [], 0
    for batch in reader:
        num_bytes += batch.nbytes
        if num_bytes > most_bytes:
            raise QueryError("its result has no room")
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _streams(
    rows: FileStreams | StoredRows, given: Iterator[Sequence[Buffer]]
) -> list[_native.Rows | pa.Table]:
    """Returns what DuckDB reads: native streams, which take no lock of Python, and tables where they lie."""
    import pyarrow as pa

    if isinstance(rows, FileStreams):
        return [rows.reader.open(part) for part in rows.parts]
    nothing = pa.Table.from_batches([], pa.ipc.read_schema(pa.py_buffer(rows.schema)))
    tables = [as_reader(_native.Rows.from_ipc(block)).read_all() for block in next(given)]
    return [pa.concat_tables([nothing, *tables]).select(list(rows.columns))]
