"""Bills what runs without a shuffle: scans, and shuffles within windows."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.dataset.explain.bill import Bill
from exoshuffle.dataset.explain.input_lines import input_lines
from exoshuffle.dataset.explain.quality import order_quality
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.jobs.joins import rows_size
from exoshuffle.dataset.jobs.unshuffled import ScanJob
from exoshuffle.dataset.jobs.windows import WindowJob
from exoshuffle.dataset.tree.nodes import Node, WindowNode
from exoshuffle.dataset.write.output import Result
from exoshuffle.futures.options import Executor
from exoshuffle.observe.disks import free_bytes
from exoshuffle.operators.core.readers import splits_of
from exoshuffle.operators.steps.step import Step, executor_of, functions_bytes
from exoshuffle.units import counted


def unshuffled_bill(
    node: Node,
    job: ScanJob | WindowJob,
    operator: str,
    why: str,
    behind: tuple[Step, ...],
    before: tuple[Bill, ...],
) -> tuple[Bill, Result]:
    """Bills the reading of the files below a node whose rows are not shuffled.

    Args:
        node: The node.
        job: Reads its rows.
        operator: The words for it.
        why: The reason why nothing is shuffled.
        behind: Steps that come after it.
        before: The bills of results that are made first.
    """
    engine = job.engine
    size = rows_size(job.inputs, job.schema)
    executor = executor_of_inputs(job.inputs, behind)
    other_bytes = engine.memory_limit - engine.budget_bytes + engine.workers_bytes(executor)
    task_bytes = job.task_memory_bytes(executor) + functions_bytes(behind)
    inputs = input_lines(node)
    peak_bytes = other_bytes + engine.num_cpus * task_bytes + inputs["given_bytes"]
    bill = Bill(
        operator=operator,
        strategy="none",
        why=f"{why}, so nothing is shuffled",
        **inputs,
        rows=size.num_rows,
        row_bytes=size.total_bytes,
        splits=job.num_tasks,
        memory_bytes=min(engine.memory_limit, peak_bytes),
        spill_free_bytes=free_bytes(engine.spill_dirs),
        before=before,
    )
    return bill, Result(size.num_rows, size.total_bytes, job.num_tasks)


def executor_of_inputs(inputs: Sequence[Input], behind: tuple[Step, ...]) -> Executor:
    """Returns where tasks run: in worker processes if the steps of inputs, or those behind, have functions."""
    steps = [step for source in inputs for step in source.steps]
    return executor_of("thread", [*steps, *behind])


def window_bill(
    node: WindowNode, job: WindowJob, behind: tuple[Step, ...], before: tuple[Bill, ...]
) -> tuple[Bill, Result]:
    """Bills a shuffle within windows; the arguments are those of ``unshuffled_bill``."""
    operator = f"random_shuffle within windows of {_size(node.window)}"
    why = f"rows stay in their window{_quality(job)}"
    return unshuffled_bill(node, job, operator, why, behind, before)


def _quality(job: WindowJob) -> str:
    """Returns words on the quality of an order by windows; none where files do not tell their numbers of rows."""
    splits = [splits_of(window.item) for window in job.windows]
    if any(split.rows is None for item in splits for split in item):
        return ""
    quality = order_quality([sum(int(split.rows or 0) for split in item) for item in splits])
    return f" (quality of the order {quality:.2f}; that of a uniform one is 1)"


def _size(window: int | str) -> str:
    return window if isinstance(window, str) else counted(window, "row")
