"""Runs a job into an output directory and says what it took."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from exoshuffle.dataset.commit import OutputDirectory
from exoshuffle.dataset.job import SortJob, finished, plain_errors
from exoshuffle.errors import ExoshuffleError, OptionsError
from exoshuffle.observe.memory import peak_resident_bytes
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.sinks import WriteSink
from exoshuffle.shuffle.plan import ShufflePlan
from exoshuffle.units import parse_bytes

COMPRESSIONS = {
    "parquet": ("none", "snappy", "zstd", "lz4", "gzip"),
    "arrow": ("none", "zstd", "lz4"),
    "csv": ("none",),
    "jsonl": ("none",),
    "records": ("none",),
}


@dataclass(frozen=True)
class WriteOptions:
    """How to write files.

    Attributes:
        format: ``parquet``, ``arrow``, ``csv``, ``jsonl`` or ``records``.
        compression: See ``Dataset.write_parquet``.
        target_file_size: See ``Dataset.write_parquet``.
    """

    format: str
    compression: str = "none"
    target_file_size: int | str | None = None

    def __post_init__(self) -> None:
        if self.format not in COMPRESSIONS:
            raise OptionsError(
                f"unknown format {self.format!r}; known are {', '.join(COMPRESSIONS)}"
            )
        if self.compression not in COMPRESSIONS[self.format]:
            known = ", ".join(COMPRESSIONS[self.format])
            raise OptionsError(
                f"{self.format} cannot be compressed by {self.compression!r}; known are {known}"
            )

    def to_json(self, source: Any, row_group_bytes: int) -> str:
        """The options as the native writer reads them."""
        target = None if self.target_file_size is None else parse_bytes(self.target_file_size)
        if target is not None and target < 1:
            raise OptionsError(f"target_file_size is {target}; it must be at least 1 byte")
        return json.dumps(
            {
                "format": self.format,
                "compression": self.compression,
                "target_file_bytes": target,
                "row_group_bytes": row_group_bytes,
                "dictionary_columns": source.dictionary_columns(),
            }
        )


@dataclass(frozen=True)
class WriteResult:
    """What was written, and what it took.

    Attributes:
        path: The output directory.
        rows: Rows written.
        bytes: Bytes of all files.
        files: ``name``, ``rows``, ``bytes`` and ``crc32`` of each file, in order.
        seconds: Wall time.
        peak_memory_bytes: Highest resident memory of this process so far.
        spilled_bytes: Bytes written to spill files; None if the engine does not tell.
        plan: The plan, if the dataset was sorted.
    """

    path: str
    rows: int
    bytes: int
    seconds: float
    peak_memory_bytes: int
    spilled_bytes: int | None
    files: list[dict[str, Any]] = field(repr=False, default_factory=list)
    plan: ShufflePlan | None = field(repr=False, default=None)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)


def write_job(
    source: Any,
    make_job: Callable[[], Any],
    path: str | os.PathLike[str],
    options: WriteOptions,
    overwrite: bool,
    progress: Progress | None = None,
) -> WriteResult:
    """Runs a job and commits its output.

    Args:
        source: ``_native.Source`` of the job.
        make_job: Makes the job, once the output is known to be possible.
        path: The directory to make.
        options: How to write.
        overwrite: Replace what is there.
        progress: Told of the plan and of every finished task.

    Raises:
        ExoshuffleError: The cause of a failed task, as it is, where it is one of ours.
    """
    if (options.format == "records") != bool(source.record_bytes):
        kind = "fixed-length records" if source.record_bytes else "tables"
        raise OptionsError(f"{kind} cannot be written as {options.format}")
    started = time.monotonic()
    output = OutputDirectory(path, [*source.paths, *source.files], overwrite)
    job = make_job()
    plan = job.plan if isinstance(job, SortJob) else None
    row_group_bytes = plan.row_group_bytes if plan else 8_000_000
    spilled_before = job.engine.stats().get("spilled_bytes", 0)
    with output:
        sink = WriteSink(str(output.staging), options.to_json(source, row_group_bytes))
        if progress is not None and isinstance(job, SortJob):
            progress.start(job.workload.total_bytes, len(job.splits), job.plan.num_partitions)
            job.engine.add_observer(progress)
        try:
            with plain_errors():
                files = [
                    file for part in finished(job.run(sink), job.engine.num_cpus) for file in part
                ]
        finally:
            if progress is not None and isinstance(job, SortJob):
                job.engine.remove_observer(progress)
                progress.stop()
        rows = sum(file["rows"] for file in files)
        if source.rows is not None and rows != source.rows:
            raise ExoshuffleError(
                f"{source.rows} rows were read but {rows} written; this is a bug, please report it (nothing was kept)"
            )
        files = _without_empty(output, files)
        output.commit(files)
    spilled = job.engine.stats().get("spilled_bytes")
    return WriteResult(
        path=str(path),
        rows=rows,
        bytes=sum(file["bytes"] for file in files),
        files=files,
        seconds=time.monotonic() - started,
        peak_memory_bytes=peak_resident_bytes(),
        spilled_bytes=None if spilled is None else spilled - spilled_before,
        plan=plan,
    )


def _without_empty(output: OutputDirectory, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drops files of empty partitions, but keeps one: an empty result has a schema too."""
    kept = [file for file in files if file["rows"]] or files[:1]
    for file in files:
        if file not in kept:
            (output.staging / file["name"]).unlink()
    return kept
