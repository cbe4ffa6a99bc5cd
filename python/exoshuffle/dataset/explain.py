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

    @property
    def fits_on_disk(self) -> bool:
        """Whether the spill directories have the room."""
        return self.spill_free_bytes is None or self.spilled_bytes <= self.spill_free_bytes

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self) | {"fits_on_disk": self.fits_on_disk}

    def __str__(self) -> str:
        free = "unknown" if self.spill_free_bytes is None else format_bytes(self.spill_free_bytes)
        verdict = "" if self.fits_on_disk else "  <- does not fit"
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
            ("spilled", format_bytes(self.spilled_bytes)),
            ("disk needed / free", f"{format_bytes(self.spilled_bytes)} / {free}{verdict}"),
        ]
        return "\n".join(f"{name:<22}{value}" for name, value in lines)


def make_bill(job: SortJob, spill_dirs: list[str]) -> Bill:
    """Plans the job and writes the bill."""
    # Files and row groups do not always divide as planned: the bill counts the maps that there are.
    plan = dataclasses.replace(job.plan, num_splits=len(job.splits))
    baseline = (
        getattr(job.engine, "memory_limit", job.engine.budget_bytes) - job.engine.budget_bytes
    )
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
        spill_free_bytes=_free_bytes(spill_dirs),
    )


def _free_bytes(directories: list[str]) -> int | None:
    """Free space of the file systems behind the directories, each counted once."""
    free: dict[int, int] = {}
    for directory in directories:
        try:
            free[os.stat(directory).st_dev] = shutil.disk_usage(directory).free
        except OSError:
            return None
    return sum(free.values()) if free else None
