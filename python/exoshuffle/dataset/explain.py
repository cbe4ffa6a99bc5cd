"""The plan of a sort as a bill: what it will take, before it takes it."""

from __future__ import annotations

import dataclasses
import os
import shutil
from dataclasses import dataclass
from typing import Any

from exoshuffle.dataset.job import SortJob
from exoshuffle.units import format_bytes


@dataclass(frozen=True)
class Bill:
    """What a sort will take.

    Attributes:
        strategy: Strategy and why.
        input_files: Number of input files.
        input_bytes: Their size on disk.
        rows: Rows, exact or estimated.
        row_bytes: Size of all rows while they travel.
        splits: Map tasks.
        partitions: Reduce tasks, and output files unless a target size asks for more.
        rounds: Rounds of maps.
        merge_factor: Blocks per merge; 1 means that nothing is merged.
        slices: Slices that the reduces read.
        memory_bytes: Projected peak of the whole program.
        spilled_bytes: Bytes written to, and read from, spill directories.
        spill_free_bytes: Free space there; None if it cannot be told.
        output_bytes: Size of the output, taken as that of the input.
        output_free_bytes: Free space where the output goes; None if that is not known.
    """

    strategy: str
    input_files: int
    input_bytes: int
    rows: int
    row_bytes: int
    splits: int
    partitions: int
    rounds: int
    merge_factor: int
    slices: int
    memory_bytes: int
    spilled_bytes: int
    spill_free_bytes: int | None
    output_bytes: int
    output_free_bytes: int | None

    @property
    def fits_on_disk(self) -> bool:
        """Whether there is room for what is spilled and for the output."""
        return _fits(self.spilled_bytes, self.spill_free_bytes) and _fits(
            self.output_bytes, self.output_free_bytes
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self) | {"fits_on_disk": self.fits_on_disk}

    def __str__(self) -> str:
        lines = [
            (
                "input",
                f"{self.input_files} files, {format_bytes(self.input_bytes)}, {self.rows:,} rows",
            ),
            ("rows in flight", format_bytes(self.row_bytes)),
            ("strategy", self.strategy),
            ("splits (maps)", f"{self.splits:,}"),
            ("partitions (reduces)", f"{self.partitions:,}"),
            ("rounds", f"{self.rounds:,}"),
            ("merge factor", f"{self.merge_factor:,}"),
            ("slices to read", f"{self.slices:,}"),
            ("peak memory", f"{format_bytes(self.memory_bytes)} for the whole program"),
            ("spill disk", _needed_of(self.spilled_bytes, self.spill_free_bytes)),
            ("output disk", _needed_of(self.output_bytes, self.output_free_bytes)),
        ]
        return "\n".join(f"{name:<22}{value}" for name, value in lines)


def make_bill(job: SortJob, output: str | None) -> Bill:
    """Plans the job and writes the bill; ``output`` is where the result would go, if that is known."""
    # Files and row groups do not always divide as planned: the bill counts the maps that there are.
    plan = dataclasses.replace(job.plan, num_splits=len(job.splits))
    baseline = job.engine.memory_limit - job.engine.budget_bytes
    return Bill(
        strategy=f"{plan.strategy}: {plan.why}",
        input_files=len(job.source.files),
        input_bytes=job.source.bytes,
        rows=job.workload.num_rows,
        row_bytes=job.workload.total_bytes,
        splits=len(job.splits),
        partitions=plan.num_partitions,
        rounds=plan.num_rounds,
        merge_factor=plan.merge_factor,
        slices=plan.num_slices,
        memory_bytes=baseline + plan.peak_bytes,
        spilled_bytes=plan.spilled_bytes,
        spill_free_bytes=_free_bytes(job.engine.spill_dirs),
        output_bytes=job.source.bytes,
        output_free_bytes=None if output is None else _free_bytes([_existing_folder(output)]),
    )


def _fits(needed_bytes: int, free_bytes: int | None) -> bool:
    return free_bytes is None or needed_bytes <= free_bytes


def _needed_of(needed_bytes: int, free_bytes: int | None) -> str:
    free = "unknown" if free_bytes is None else format_bytes(free_bytes)
    verdict = "" if _fits(needed_bytes, free_bytes) else "  <- does not fit"
    return f"{format_bytes(needed_bytes)} of {free} free{verdict}"


def _existing_folder(path: str) -> str:
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _free_bytes(directories: list[str]) -> int | None:
    """Free space of the file systems behind the directories, each counted once."""
    free: dict[int, int] = {}
    for directory in directories:
        try:
            free[os.stat(directory).st_dev] = shutil.disk_usage(directory).free
        except OSError:
            return None
    return sum(free.values()) if free else None
