"""The plan of a shuffle as a bill: what it will take, before it takes it."""

from __future__ import annotations

import dataclasses
import os
import shutil
from dataclasses import dataclass
from typing import Any

from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.inputs import UnmadeInput
from exoshuffle.dataset.logical import Limited, Node, Shuffled, sources
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Engine
from exoshuffle.shuffle.plan import Workload
from exoshuffle.units import format_bytes


@dataclass(frozen=True)
class Bill:
    """What a shuffle will take.

    Attributes:
        operator: What is done.
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
        before: Bills of the shuffles that come before.
    """

    operator: str
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
    before: tuple[Bill, ...] = ()

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
            ("operator", self.operator),
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
        bill = "\n".join(f"{name:<22}{value}" for name, value in lines)
        return "\n\n".join([*map(str, self.before), bill])


def explain_node(node: Node, engine: Engine, output: str | None) -> Bill:
    """Plans the last shuffle of a tree, and estimates those below it; ``output`` is where the result would go.

    Raises:
        OptionsError: There is no shuffle.
    """
    execution, job = Estimation(engine), None
    while not isinstance(node, Shuffled) and len(node.children) == 1:
        if isinstance(node, Limited):
            job = execution.top_job(node)
        node = node.children[0]
    if not isinstance(node, Shuffled):
        raise OptionsError(
            "there is no shuffle to explain; call sort() first, or another operation that shuffles"
        )
    job = job or execution.shuffle_job(node)
    # Files and row groups do not always divide as planned: the bill counts the maps that there are.
    plan = dataclasses.replace(job.plan, num_splits=job.num_maps)
    output_bytes = sum(source.bytes for source in sources(node))
    return Bill(
        operator=job.shuffle.name,
        strategy=f"{plan.strategy}: {plan.why}",
        input_files=sum(len(source.files) for source in sources(node)),
        input_bytes=output_bytes,
        rows=job.workload.num_rows,
        row_bytes=job.workload.total_bytes,
        splits=job.num_maps,
        partitions=plan.num_partitions,
        rounds=plan.num_rounds,
        merge_factor=plan.merge_factor,
        slices=plan.num_slices,
        memory_bytes=engine.memory_limit - engine.budget_bytes + plan.peak_bytes,
        spilled_bytes=plan.spilled_bytes,
        spill_free_bytes=_free_bytes(engine.spill_dirs),
        output_bytes=output_bytes,
        output_free_bytes=None if output is None else _free_bytes([_existing_folder(output)]),
        before=tuple(
            explain_node(below, engine, None)
            for child in node.children
            for below in _shuffles(child)
        ),
    )


class Estimation(Execution):
    """Makes the last job of a tree without running those below: their results count as large as what they read."""

    def made(self, node: Node) -> UnmadeInput:
        """See ``Execution``."""
        below = _shuffles(node)
        if not below:
            return UnmadeInput(Workload(0, 0), 1)
        job = self.shuffle_job(below[0])
        return UnmadeInput(job.workload, job.plan.num_partitions)


def _shuffles(node: Node) -> list[Shuffled]:
    """The uppermost shuffles of a tree."""
    if isinstance(node, Shuffled):
        return [node]
    return [found for child in node.children for found in _shuffles(child)]


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
