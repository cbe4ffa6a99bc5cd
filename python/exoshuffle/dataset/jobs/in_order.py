"""Takes results in their order: as Arrow streams, as batches, or by one writer, for a file or standard output.

Guarantee: a few parts are made ahead of the consumer, and no more.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from exoshuffle import _native
from exoshuffle.dataset.jobs.following import bounded, in_advance
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.futures import Engine, Ref, RefStream, get
from exoshuffle.operators.core.sinks import BlocksSink, PartFile
from exoshuffle.operators.core.streams import as_rows, own_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: The caller may hold the results of this many partitions: a loop still has the last batch of one when it asks for the
#: next. Plans count them (``plan.memory``).
MAX_LENT = 2


def streams_of(job: Job, engine: Engine) -> Iterator[Buffer]:
    """Yields one or several Arrow streams per partition, in the store's memory.

    Only a few partitions, and a few blocks of each, are made ahead of the caller. The result of a join or a function
    for one partition may be larger than the disk.
    """
    sink = BlocksSink()
    return streams_in(in_advance(bounded(job.run(sink), sink), engine.num_cpus))


def streams_in(parts: Iterable[Ref | RefStream]) -> Iterator[Buffer]:
    """Yields the Arrow streams of the parts of a job, in the store's memory."""
    for part in parts:
        for ref in cast("RefStream", part):
            made = get(ref)
            del ref
            yield made
            del made


def lent(streams: Iterator[Buffer]) -> Iterator[Buffer]:
    """Yields the streams in the store's memory, or copied out of it while the caller holds ``MAX_LENT`` of them.

    Why copies: a caller who keeps the streams would otherwise pin the store's memory until no task can go on.
    """
    held: list[weakref.ref[object]] = []
    for stream in streams:
        held = [one for one in held if one() is not None]
        if len(held) < MAX_LENT:
            held.append(weakref.ref(stream))
            yield stream
        else:
            yield bytes(stream)
        del stream  # frees the block while the caller is busy


def batches_of(streams: Iterator[Buffer]) -> Iterator[pa.RecordBatch]:
    """Yields the batches of Arrow streams; releases each stream with its last batch."""
    import pyarrow as pa

    for stream in streams:
        buffer = pa.py_buffer(stream)
        del stream
        with pa.ipc.open_stream(buffer) as reader:
            del buffer
            for batch in reader:
                yield batch
                del batch


def rows_of(job: Job, schema: pa.Schema, engine: Engine) -> _native.Rows:
    """Returns all rows as ``_native.Rows``, to be consumed once, within ``own_errors``."""
    import pyarrow as pa

    batches = batches_of(streams_of(job, engine))
    return as_rows(pa.RecordBatchReader.from_batches(schema, batches))


def write_file(rows: _native.Rows, folder: str, options: _native.WriteOptions) -> list[PartFile]:
    """Writes rows of ``rows_of`` into one file; returns its name, rows, bytes and crc32, in a list."""
    with own_errors():
        files: list[PartFile] = rows.write_files(folder, 0, options).wait()
        return files


def write_stream(
    rows: _native.Rows, descriptor: int, options: _native.WriteOptions
) -> list[PartFile]:
    """Writes rows of ``rows_of`` to an open file, which need not be able to seek.

    Raises:
        BrokenPipeError: The reader of a pipe has gone.
    """
    with own_errors():
        files: list[PartFile] = rows.write_stream(descriptor, options).wait()
        return files
