"""Puts rows that the program gave into the store, as blocks that a plan can divide among its tasks.

Guarantee: a stream is read once, a batch at a time, so it may be larger than memory: the store spills blocks. The same
batches make the same blocks. Why copies: the program may change or free its tables while tasks read, and only the store
is counted, spilled, and seen by other processes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.block_input import BlockInput
from exoshuffle.futures import Ref, put
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import chunks_of, joined, movable, movable_type

if TYPE_CHECKING:
    import pyarrow as pa

#: Most bytes of a block, but of one that is a long row. Arrow's allocator gives freed pieces of more than 7 MiB back at
#: once. To touch new ones for each block of 8 MB took 0.13 s of system time for 256 MB.
BLOCK_BYTES = 7_000_000
#: Most rows of a batch in a block.
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Stored:
    """Rows in the store.

    Attributes:
        rows: How they are read.
        num_rows: Number of rows.
        num_bytes: Their size in the store.
    """

    rows: BlockInput
    num_rows: int
    num_bytes: int


def stored(batches: pa.RecordBatchReader) -> Stored:
    """Puts all rows of a stream into the store, in at least one block.

    Cost: two copies of each row, one of them for a block at a time. If the stream fails, nothing is kept.
    """
    schema = batches.schema
    refs: list[Ref] = []
    pending: list[pa.Table] = []
    num_rows = num_bytes = pending_bytes = 0
    for part in _parts(batches):
        if pending and pending_bytes + part.nbytes > BLOCK_BYTES:
            num_bytes += _put(schema, pending, refs)
            pending, pending_bytes = [], 0
        pending.append(part)
        pending_bytes += part.nbytes
        num_rows += part.num_rows
    if pending or not refs:
        num_bytes += _put(schema, pending, refs)
    return Stored(BlockInput(tuple(refs), known_rows=num_rows), num_rows, num_bytes)


def _put(schema: pa.Schema, tables: list[pa.Table], refs: list[Ref]) -> int:
    """Puts tables into the store as one block, adds its reference, and returns its size."""
    import pyarrow as pa

    # A stream that grows as it is written would be copied, and touch new memory, several times.
    size = pa.MockOutputStream()
    _write(size, schema, tables)
    stream = pa.allocate_buffer(size.size())
    _write(pa.FixedSizeBufferWriter(stream), schema, tables)
    # Buffers by themselves are copied into the store from where they are, and come out as bytes if nobody can write.
    refs.append(put(pickle.PickleBuffer(memoryview(stream).toreadonly())))
    return int(stream.size)


def _write(sink: pa.NativeFile, schema: pa.Schema, tables: list[pa.Table]) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sink, schema) as writer:
        for table in tables:
            writer.write_table(table)


def _parts(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yields the rows in tables of at most ``BATCH_ROWS``, and mostly at most ``BLOCK_BYTES``.

    Small batches are put together: each takes 200 to 400 bytes a column in the store, and more where it is read. Of
    5,000 rows, one in a batch, 28 MB lay there instead of 0.3; 300,000 took 2.05 GB within 210 MB instead of 87 MB.
    """
    most = BATCH_ROWS
    for chunk in chunks_of(batches, BLOCK_BYTES, BATCH_ROWS):
        table, start = joined(chunk), 0
        while start < table.num_rows:
            part = _alone(table.slice(start, most))
            if part.nbytes > 2 * BLOCK_BYTES and part.num_rows > 1:
                most = max(1, part.num_rows * BLOCK_BYTES // part.nbytes)
                part = _alone(table.slice(start, most))
            yield part
            start += part.num_rows
            fitting = part.num_rows * BLOCK_BYTES // max(part.nbytes, 1)
            most = min(BATCH_ROWS, max(1, fitting))


def _alone(part: pa.Table) -> pa.Table:
    """Returns rows that refer to no buffers with other rows, as views of text and large dictionaries do."""
    import pyarrow as pa

    schema = part.schema
    if any(movable_type(field.type) != field.type for field in schema):
        part = movable(part).cast(schema)
    if not any(map(pa.types.is_dictionary, schema.types)):
        return part
    # One table for all: to set 3,000 columns one by one took 5 s.
    return pa.table(list(map(_with_own_dictionary, part.columns)), schema=schema)


def _with_own_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column whose dictionary has only values of its rows, if it is much larger than its rows otherwise."""
    import pyarrow as pa

    kind = column.type
    if not pa.types.is_dictionary(kind) or kind.ordered:
        return column
    if sum(len(chunk.dictionary) for chunk in column.chunks) <= len(column):
        return column
    chunks = [
        pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)
        for encoded in (chunk.dictionary_decode().dictionary_encode() for chunk in column.chunks)
    ]
    return pa.chunked_array(chunks, kind)
