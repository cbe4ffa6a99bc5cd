"""Runs a job into an output, and reports its time, memory and files."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from exoshuffle import _native
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.files.paths import local_path
from exoshuffle.dataset.files.place import STANDARD, check_ending, kind_of
from exoshuffle.dataset.jobs.bad_rows import count_bad_rows
from exoshuffle.dataset.jobs.following import finished
from exoshuffle.dataset.jobs.in_order import rows_of, write_file, write_stream
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.tree.facts import is_records
from exoshuffle.dataset.tree.needed import pruned
from exoshuffle.dataset.tree.nodes import Node, sources
from exoshuffle.dataset.tree.row_count import check_rows
from exoshuffle.dataset.tree.seeds import seeds_of
from exoshuffle.dataset.write.appending import first_file
from exoshuffle.dataset.write.attempts import Attempts
from exoshuffle.dataset.write.commit import Output
from exoshuffle.dataset.write.directory import OutputDirectory
from exoshuffle.dataset.write.existing import Existing
from exoshuffle.dataset.write.file import OutputFile
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.dataset.write.output import check_room
from exoshuffle.dataset.write.partitioning import (
    check_folders,
    check_partition_by,
    estimated_folders,
    partitioned,
)
from exoshuffle.dataset.write.same_columns import check_columns
from exoshuffle.errors import (
    ExoshuffleError,
    OptionsError,
    OutputError,
    shown,
)
from exoshuffle.futures import Engine, Ref, get, remote
from exoshuffle.observe.memory import peak_resident_bytes
from exoshuffle.observe.progress import Progress, observed
from exoshuffle.operators.arrow_values import no_rows
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.sinks import PartFile, WriteSink
from exoshuffle.plan.plan import ShufflePlan

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.dataset.jobs.stages.skipped import Skipped

#: Size of row groups in a result that no shuffle made.
ROW_GROUP_BYTES = 8_000_000


@dataclass(frozen=True)
class WriteResult:
    """The output of a job, with its time and memory.

    Attributes:
        path: The output: a directory, a file, or ``-`` for standard output.
        rows: Rows written.
        bytes: Bytes of all files.
        files: ``name``, ``rows``, ``bytes`` and ``crc32`` of each file that was written, in order; none where an output
            that exists was left as it is.
        seconds: Wall time.
        peak_memory_bytes: Highest resident memory so far of this process, and of those of a Ray that it has started.
        spilled_bytes: Bytes written to spill files; None if the engine does not tell.
        plan: The plan of the last shuffle, if there is one.
        seeds: Seeds of random operations, given or fresh; see ``Dataset.seeds``.
        bad_rows: Rows that were left out because they cannot be read; only where ``bad_rows`` was given.
        skipped_rows: Rows for which a function failed; only where ``on_error="skip"`` was given.
        skipped: The first 1,000 of these: the function, the place and the error of each row or batch.
    """

    path: str
    rows: int
    bytes: int
    seconds: float
    peak_memory_bytes: int
    spilled_bytes: int | None
    files: list[PartFile] = field(repr=False, default_factory=list)
    plan: ShufflePlan | None = field(repr=False, default=None)
    seeds: tuple[int, ...] = ()
    bad_rows: int = 0
    skipped_rows: int = 0
    skipped: list[Skipped] = field(repr=False, default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Returns the result as a dictionary, for JSON."""
        return dataclasses.asdict(self)


#: Descriptions of files, and the plan of the last shuffle.
_Written = tuple[list[PartFile], ShufflePlan | None]


def write_node(
    node: Node,
    engine: Engine,
    path: str | os.PathLike[str],
    options: WriteOptions,
    overwrite: Existing,
    progress: Progress | None = None,
) -> WriteResult:
    """Runs a tree of operations and commits its output.

    Args:
        node: The tree.
        engine: The engine that runs it.
        path: The output: a directory, a file if the path has an ending, or ``-`` for standard output; see ``place``.
        options: How to write.
        overwrite: Says what may be replaced, or added to.
        progress: Told of the plan and of every finished task.

    Raises:
        ExoshuffleError: The cause of a failed task, unchanged, where it is an error of ours.
        DiskFullError: The disk has less room than the files take at least.
    """
    path = local_path(path, OutputError)
    started = time.monotonic()
    output = output_of(node, path, options, overwrite)
    if output is not None and output.is_left:
        return WriteResult(path, 0, 0, 0.0, peak_resident_bytes(), 0, seeds=seeds_of(node))
    execution = Execution(engine, progress)
    spilled_before = engine.stats().get("spilled_bytes", 0)
    with PlainErrors():
        bad_rows = count_bad_rows(node, engine)
    if output is None:
        files, plan = _to_standard_output(node, execution, options)
    else:
        write = _one_file if isinstance(output, OutputFile) else _part_files
        with output:
            files, plan = write(node, execution, output, options)
            files = output.commit(files)
    stats = engine.stats()
    spilled = stats.get("spilled_bytes")
    return WriteResult(
        path=path,
        rows=sum(file["rows"] for file in files),
        bytes=sum(file["bytes"] for file in files),
        files=files,
        seconds=time.monotonic() - started,
        peak_memory_bytes=peak_resident_bytes() + stats.get("processes_peak_bytes", 0),
        spilled_bytes=None if spilled is None else spilled - spilled_before,
        plan=plan,
        seeds=seeds_of(node),
        bad_rows=bad_rows,
        skipped_rows=execution.skipped.num_rows,
        skipped=execution.skipped.first,
    )


def _part_files(
    node: Node, execution: Execution, output: Output, options: WriteOptions
) -> _Written:
    """Writes a directory: each partition writes files of its own."""
    engine, folder = execution.engine, str(output.staging)
    node = partitioned(node, options.folders)
    with observed(engine, execution.progress), PlainErrors():
        check_room(node, options, folder, engine.spill_dirs)
        job = execution.job(pruned(node), "files")
        if isinstance(job, ShuffleJob) and options.folders:
            estimated_folders(job, options.folders)
        check_room(node, options, folder, engine.spill_dirs, job.plan)
        attempts = Attempts(output.staging)
        sink = WriteSink(str(attempts.folder), options.native(node, _row_group_bytes(job.plan)))
        # The sink makes one result of each partition.
        results = cast("Iterator[Ref]", job.run(sink))
        refs = finished(results, engine.num_cpus) or [_nothing(node.schema, sink)]
        files = attempts.taken(get(ref) for ref in refs)
    check_rows(node, sum(file["rows"] for file in files))
    files = output.without_empty(files)
    if options.folders:
        check_folders(files, options.folders)
    return files, job.plan


def _one_file(node: Node, execution: Execution, output: Output, options: WriteOptions) -> _Written:
    """Writes one file: partitions become Arrow data, which one writer takes in their order."""
    engine, folder = execution.engine, str(output.staging)
    with observed(engine, execution.progress), PlainErrors():
        check_room(node, options, folder, engine.spill_dirs)
        job = execution.job(pruned(node), "file")
        check_room(node, options, folder, engine.spill_dirs, job.plan)
        written = options.native(node, _row_group_bytes(job.plan), str(output.path))
        files = write_file(rows_of(job, node.schema, engine), folder, written)
    check_rows(node, sum(file["rows"] for file in files))
    (file,) = files
    place = output.staging / output.path.name
    (output.staging / file["name"]).rename(place)
    return [file | {"name": place.name}], job.plan


def _standard_output() -> int:
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError) as error:  # as for standard input
        raise OutputError(
            "standard output is closed, or is no stream of the system, as in a notebook; name a file"
        ) from error
    sys.stdout.flush()
    return descriptor


def _to_standard_output(node: Node, execution: Execution, options: WriteOptions) -> _Written:
    """Does as ``_one_file``, but writes to standard output."""
    engine = execution.engine
    descriptor = _standard_output()
    with observed(engine, execution.progress), PlainErrors():
        job = execution.job(pruned(node), "file")
        written = options.native(node, _row_group_bytes(job.plan), STANDARD)
        files = write_stream(rows_of(job, node.schema, engine), descriptor, written)
    check_rows(node, sum(file["rows"] for file in files))
    return files, job.plan


def _row_group_bytes(plan: ShufflePlan | None) -> int:
    return plan.row_group_bytes if plan else ROW_GROUP_BYTES


def _nothing(schema: pa.Schema, sink: Sink) -> Ref:
    """Hands no rows to a sink, for a result without parts: the result has a schema too."""
    ref: Ref = remote(empty, name="write", executor="thread").remote(schema, sink)
    return ref


def empty(schema: pa.Schema, sink: Sink) -> object:
    """Task: hands a part without rows to a sink."""
    return handed(sink, sink(0, _native.Rows.from_batches(no_rows(schema))))


def output_of(node: Node, path: str, options: WriteOptions, overwrite: Existing) -> Output | None:
    """Returns the output for the result of a tree, None for standard output; makes nothing yet.

    Raises:
        OptionsError: The result cannot be written in this format, or the ending of the path names another one.
        OutputError: See ``Output``.
    """
    check_format(node, options)
    check_ending(path, options.format)
    kind = kind_of(path)
    several = {"target_file_size": options.target_file_size, "partition_by": options.partition_by}
    for name, given in several.items():
        if kind != "directory" and given is not None:
            raise OptionsError(
                f"{name} makes several files, and the output {path} is one; leave it out, or write {path}/ for a "
                "directory"
            )
    if kind != "directory" and overwrite == "append":
        raise OptionsError(
            f"mode is 'append', which adds files to a directory, and the output {path} is none; write {path}/ for one"
        )
    if kind == "standard output":
        return None
    read = [path for source in sources(node) for path in (*source.paths, *source.files)]
    if kind == "file":
        return OutputFile(path, read, overwrite, file="")
    folders = "".join(f"{name}=value/" for name in options.folders)
    ending = FORMATS[options.format].ending
    output = OutputDirectory(path, read, overwrite, file=f"{folders}part-00000.{ending}")
    if overwrite == "append" and (existing := first_file(output.path, ending)):
        check_columns(existing, output.path, node.schema, options.format, options.folders)
    return output


def check_format(node: Node, options: WriteOptions) -> None:
    """Raises ``OptionsError`` where the format does not hold the rows or all of their types, or the options are none.

    Raises ``SchemaError`` where columns cannot become folders.
    """
    import pyarrow as pa

    if not isinstance(options, WriteOptions):
        raise OptionsError(
            f"options is {shown(options)}; give WriteOptions, or call write_parquet and its siblings"
        )
    holds_records = FORMATS[options.format].holds_records
    if holds_records != is_records(node):
        kind = "tables" if holds_records else "fixed-length records"
        fits = [
            name
            for name, known in FORMATS.items()
            if (known.holds_tables if holds_records else known.holds_records)
        ]
        raise OptionsError(f"{kind} cannot be written as {options.format}; write {_either(fits)}")
    schema = node.schema
    if options.folders:
        if holds_records:
            raise OptionsError("records have no columns to partition by; leave out partition_by")
        check_partition_by(schema, options.folders)
        schema = pa.schema([field for field in schema if field.name not in options.folders])
    _native.check_writable(schema.serialize().to_pybytes(), options.format)


def _either(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def is_held(node: Node, file_format: str) -> bool:
    """Whether files of this format hold the rows."""
    try:
        check_format(node, WriteOptions(file_format))
    except ExoshuffleError:
        return False
    return True
