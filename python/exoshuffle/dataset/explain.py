"""The plan of a shuffle as a bill: what it will take, before it takes it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.inputs import UnmadeInput
from exoshuffle.dataset.jobs import ShuffleJob
from exoshuffle.dataset.logical import Files, Limited, Node, Shuffled, sources
from exoshuffle.dataset.unshuffled import ScanJob
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Engine
from exoshuffle.observe.disks import free_bytes
from exoshuffle.operators.order import ByKeys
from exoshuffle.operators.shuffles import Side
from exoshuffle.shuffle.plan import Workload
from exoshuffle.shuffle.workload import ResultPlace
from exoshuffle.units import format_bytes


@dataclass(frozen=True)
class Bill:
    """What a shuffle will take.

    Attributes:
        operator: What is done.
        strategy: Which.
        why: Why this strategy.
        compared: What it and others are predicted to take.
        input_files: Number of input files.
        input_bytes: Their size on disk.
        rows: Rows, exact or estimated.
        row_bytes: Size of all rows while they travel.
        splits: Map tasks.
        merges: Merge tasks.
        partitions: Reduce tasks.
        output_files: Files, one for each partition: fewer where partitions are empty, more with a target size.
        rounds: Rounds of maps.
        merge_factor: Blocks per merge; 1 means that nothing is merged.
        blocks: Blocks that maps and merges make, and results that are kept for a later shuffle.
        slices: Slices that the reduces read.
        requests: Reads from spill directories: spilled slices, and pieces of spilled blocks that are merged.
        memory_bytes: Projected peak of the whole program.
        spilled_bytes: Bytes written to spill directories.
        read_back_bytes: Bytes read from there.
        spill_free_bytes: Free space there; None if it cannot be told.
        output_bytes: Size of the output, as that of the input where rows stay as they are; else an estimate.
        output_free_bytes: Free space where the output goes; None if that is not known.
        before: Bills of the shuffles that come before.
    """

    operator: str
    strategy: str
    why: str
    compared: tuple[str, ...]
    input_files: int
    input_bytes: int
    rows: int
    row_bytes: int
    splits: int
    merges: int
    partitions: int
    output_files: int
    rounds: int
    merge_factor: int
    blocks: int
    slices: int
    requests: int
    memory_bytes: int
    spilled_bytes: int
    read_back_bytes: int
    spill_free_bytes: int | None
    output_bytes: int
    output_free_bytes: int | None
    before: tuple[Bill, ...] = ()

    @property
    def tasks(self) -> int:
        """Maps, merges and reduces."""
        return self.splits + self.merges + self.partitions

    @property
    def fits_on_disk(self) -> bool:
        """Whether there is room for what is spilled and for the output."""
        return _fits(self.spilled_bytes, self.spill_free_bytes) and _fits(
            self.output_bytes, self.output_free_bytes
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self) | {"tasks": self.tasks, "fits_on_disk": self.fits_on_disk}

    def __str__(self) -> str:
        read = f"{self.input_files} files, {format_bytes(self.input_bytes)}, {self.rows:,} rows"
        tasks = f"{self.splits:,} maps, {self.merges:,} merges, {self.partitions:,} reduces"
        read_back = f"{format_bytes(self.read_back_bytes)} in {self.requests:,} requests"
        lines = [
            ("operator", self.operator),
            ("input", read),
            ("rows in flight", format_bytes(self.row_bytes)),
            ("strategy", f"{self.strategy}: {self.why}"),
            *(("", found) for found in self.compared),
            ("tasks", f"{self.tasks:,}: {tasks}"),
            ("splits (maps)", f"{self.splits:,}"),
            ("partitions (reduces)", f"{self.partitions:,}"),
            ("rounds", f"{self.rounds:,}"),
            ("merge factor", f"{self.merge_factor:,}"),
            ("blocks", f"{self.blocks:,}"),
            ("slices to read", f"{self.slices:,}"),
            ("peak memory", f"{format_bytes(self.memory_bytes)} for the whole program"),
            ("spill disk", _needed_of(self.spilled_bytes, self.spill_free_bytes)),
            ("read back", read_back),
            ("output files", f"{self.output_files:,}"),
            ("output disk", _needed_of(self.output_bytes, self.output_free_bytes)),
        ]
        bill = "\n".join(f"{name:<22}{value}" for name, value in lines)
        return "\n\n".join([*map(str, self.before), bill])


def explain_node(node: Node, engine: Engine, output: str | None, results: ResultPlace) -> Bill:
    """Plans the last shuffle of a tree, and estimates those below it.

    Args:
        node: The tree.
        engine: Where it would run.
        output: Where files would go.
        results: Where results would go.

    Raises:
        OptionsError: There is no shuffle.
    """
    execution, job, place = Estimation(engine), None, results
    while not isinstance(node, Shuffled) and len(node.children) == 1:
        if isinstance(node, Limited):
            job = execution.top_job(node, results)
            # A limit takes results one by one, whatever becomes of them then.
            place = "batches"
        node = node.children[0]
    if not isinstance(node, Shuffled):
        raise OptionsError(
            "there is no shuffle to explain; call sort() first, or another operation that shuffles"
        )
    broadcast = execution.broadcast(node)
    if broadcast is not None:
        return _broadcast_bill(node, engine, output, results, broadcast[1])
    job = job or execution.shuffle_job(node, place)
    plan, cost = job.plan, job.plan.costs[0]
    kept = plan.num_partitions if results == "blocks" else 0
    is_library = isinstance(node.options.strategy, str)
    return Bill(
        operator=job.shuffle.name,
        strategy=plan.strategy if is_library else type(node.options.strategy).__name__,
        why=plan.why if is_library else f"an instance, planned as {plan.strategy}",
        compared=tuple(map(str, plan.costs)),
        input_files=sum(len(source.files) for source in sources(node)),
        input_bytes=sum(source.bytes for source in sources(node)),
        rows=job.workload.num_rows,
        row_bytes=job.workload.total_bytes,
        splits=job.num_maps,
        merges=plan.num_merges,
        partitions=plan.num_partitions,
        output_files=plan.num_partitions if results == "files" else 0,
        rounds=plan.num_rounds,
        merge_factor=plan.merge_factor,
        blocks=job.num_maps + plan.num_merges + kept,
        slices=plan.num_slices,
        requests=cost.traffic.num_requests,
        memory_bytes=job.resources.other_bytes + plan.peak_bytes,
        spilled_bytes=plan.spilled_bytes,
        read_back_bytes=cost.traffic.read_bytes,
        spill_free_bytes=free_bytes(engine.spill_dirs),
        output_bytes=_output_bytes(node, job) if results == "files" else 0,
        output_free_bytes=None if output is None else free_bytes([_existing_folder(output)]),
        before=tuple(
            explain_node(below, engine, None, "blocks")
            for child in node.children
            for below in _shuffles(child)
        ),
    )


def _broadcast_bill(
    node: Shuffled, engine: Engine, output: str | None, results: ResultPlace, right_bytes: int
) -> Bill:
    """Of a join that needs no shuffle: that of the shuffle of its left side, or of reading this."""
    left = node.children[0]
    operator = f"{node.shuffle.name} with {format_bytes(right_bytes)}, given to every task"
    if _shuffles(left):
        bill = explain_node(left, engine, output, results)
        return dataclasses.replace(bill, operator=f"{bill.operator}, then {operator}")
    scan = ScanJob(Estimation(engine).inputs(left), left.schema, engine)
    num_tasks = sum(map(len, scan.items))
    side = Side(left.schema, ByKeys())
    workloads = [source.measure(side) for source in scan.inputs]
    read = sources(node)
    taken = engine.num_cpus * (scan.task_memory_bytes + right_bytes)
    return Bill(
        operator=operator,
        strategy="none",
        why="the right side is so small that every task can have it, so nothing is shuffled",
        compared=(),
        input_files=sum(len(source.files) for source in read),
        input_bytes=sum(source.bytes for source in read),
        rows=sum(work.num_rows for work in workloads),
        row_bytes=sum(work.total_bytes for work in workloads),
        splits=num_tasks,
        merges=0,
        partitions=0,
        output_files=num_tasks if results == "files" else 0,
        rounds=1,
        merge_factor=1,
        blocks=0 if results == "files" else num_tasks,
        slices=0,
        requests=0,
        memory_bytes=min(engine.memory_limit, engine.memory_limit - engine.budget_bytes + taken),
        spilled_bytes=0,
        read_back_bytes=0,
        spill_free_bytes=free_bytes(engine.spill_dirs),
        output_bytes=sum(source.bytes for source in sources(left)) if results == "files" else 0,
        output_free_bytes=None if output is None else free_bytes([_existing_folder(output)]),
    )


def _output_bytes(node: Shuffled, job: ShuffleJob) -> int:
    """Size of the files: as the input has them, and as many more or fewer bytes as results have than its rows."""
    read = sources(node)
    on_disk: int = sum(source.bytes for source in read)
    if node.shuffle.keeps_rows and all(isinstance(child, Files) for child in node.children):
        return on_disk
    in_memory: int = sum(source.memory_bytes for source in read)
    return job.workload.all_result_bytes * on_disk // max(in_memory, 1)


class Estimation(Execution):
    """Makes the last job of a tree without running those below: their results count as large as what they read."""

    def made(self, node: Node) -> UnmadeInput:
        """See ``Execution``."""
        below = _shuffles(node)
        if not below:
            return UnmadeInput(Workload(0, 0), 1)
        job = self.shuffle_job(below[0], "blocks")
        size = dataclasses.replace(job.workload, total_bytes=job.workload.all_result_bytes)
        return UnmadeInput(size, job.plan.num_partitions)


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
