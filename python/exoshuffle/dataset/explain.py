"""Plans what a tree of operations will take, before it takes it: makes the bill."""

from __future__ import annotations

import dataclasses
import os

from exoshuffle.dataset.bill import Bill
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.inputs import UnmadeInput
from exoshuffle.dataset.jobs import ShuffleJob
from exoshuffle.dataset.logical import Files, Limited, Node, Shuffled, Windowed, sources
from exoshuffle.dataset.unshuffled import ScanJob
from exoshuffle.dataset.windows import WindowJob
from exoshuffle.futures import Engine
from exoshuffle.observe.disks import free_bytes
from exoshuffle.operators.order import ByKeys
from exoshuffle.operators.shuffles import Side
from exoshuffle.shuffle.plan import Workload
from exoshuffle.shuffle.workload import ResultPlace
from exoshuffle.units import format_bytes


def explain_node(node: Node, engine: Engine, output: str | None, results: ResultPlace) -> Bill:
    """Plans the last shuffle of a tree, and estimates those below it; without any, what is read.

    Args:
        node: The tree.
        engine: Where it would run.
        output: Where files would go.
        results: Where results would go.
    """
    execution, job, place, first_rows = Estimation(engine), None, results, ""
    while not isinstance(node, Shuffled | Windowed) and len(node.children) == 1:
        if isinstance(node, Limited):
            job = execution.top_job(node, results)
            first_rows = f"the first {node.count:,} rows"
            # A limit takes results one by one, whatever becomes of them then.
            place = "batches"
        node = node.children[0]
    if isinstance(node, Windowed):
        windows = execution.window_job(node)
        operator = f"random_shuffle within windows of {_size(node.window)}"
        return _unshuffled_bill(
            node, windows, operator, "rows stay in their window", output, results
        )
    if not isinstance(node, Shuffled):
        scan = ScanJob(execution.inputs(node), node.schema, engine)
        operator = first_rows or "scan"
        return _unshuffled_bill(node, scan, operator, "no rows have to meet", output, results)
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
        folds=plan.num_folds,
        partitions=plan.num_partitions,
        output_files=plan.num_partitions if results == "files" else 0,
        rounds=plan.num_rounds,
        merge_factor=plan.merge_factor,
        blocks=job.num_maps + plan.num_merges + plan.num_folds + kept,
        slices=plan.num_slices,
        requests=cost.traffic.num_requests,
        memory_bytes=job.resources.other_bytes + plan.peak_bytes,
        spilled_bytes=plan.spilled_bytes,
        read_back_bytes=cost.traffic.read_bytes,
        spill_free_bytes=free_bytes(engine.spill_dirs),
        output_bytes=_output_bytes(node, job) if results == "files" else 0,
        output_free_bytes=None if output is None else free_bytes([_existing_folder(output)]),
        before=_bills_below(node, engine),
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
    why = "the right side is so small that every task can have it"
    bill = _unshuffled_bill(left, scan, operator, why, output, results)
    right = sources(node.children[1])
    return dataclasses.replace(
        bill,
        input_files=bill.input_files + sum(len(source.files) for source in right),
        input_bytes=bill.input_bytes + sum(source.bytes for source in right),
        memory_bytes=min(engine.memory_limit, bill.memory_bytes + engine.num_cpus * right_bytes),
    )


def _unshuffled_bill(
    node: Node,
    job: ScanJob | WindowJob,
    operator: str,
    why: str,
    output: str | None,
    results: ResultPlace,
) -> Bill:
    """Of reading what is below a node, whose rows stay where they are."""
    engine, read = job.engine, sources(node)
    side = Side(node.schema, ByKeys())
    workloads = [source.measure(side) for source in job.inputs]
    other_bytes = engine.memory_limit - engine.budget_bytes
    peak_bytes = other_bytes + engine.num_cpus * job.task_memory_bytes
    return Bill(
        operator=operator,
        strategy="none",
        why=f"{why}, so nothing is shuffled",
        compared=(),
        input_files=sum(len(source.files) for source in read),
        input_bytes=sum(source.bytes for source in read),
        rows=sum(work.num_rows for work in workloads),
        row_bytes=sum(work.total_bytes for work in workloads),
        splits=job.num_tasks,
        merges=0,
        partitions=0,
        output_files=job.num_tasks if results == "files" else 0,
        rounds=1,
        merge_factor=1,
        blocks=0 if results == "files" else job.num_tasks,
        slices=0,
        requests=0,
        memory_bytes=min(engine.memory_limit, peak_bytes),
        spilled_bytes=0,
        read_back_bytes=0,
        spill_free_bytes=free_bytes(engine.spill_dirs),
        output_bytes=sum(source.bytes for source in read) if results == "files" else 0,
        output_free_bytes=None if output is None else free_bytes([_existing_folder(output)]),
        before=_bills_below(node, engine),
    )


def _bills_below(node: Node, engine: Engine) -> tuple[Bill, ...]:
    return tuple(
        explain_node(below, engine, None, "blocks")
        for child in node.children
        for below in _shuffles(child)
    )


def _size(window: int | str) -> str:
    return window if isinstance(window, str) else f"{window:,} rows"


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


def _existing_folder(path: str) -> str:
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder
