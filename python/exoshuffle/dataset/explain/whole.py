"""Bills an operator in one piece: reading its sides into the store, and one task."""

from __future__ import annotations

import dataclasses

from exoshuffle.dataset.explain.bill import Bill, InputLines
from exoshuffle.dataset.jobs.fitting import finish_bytes
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.top import TopJob
from exoshuffle.dataset.jobs.whole import WholeJob
from exoshuffle.dataset.write.output import Result
from exoshuffle.observe.disks import free_bytes
from exoshuffle.plan.workload import ResultPlace, Workload


def whole_bill(
    job: WholeJob, results: ResultPlace, inputs: InputLines, before: tuple[Bill, ...]
) -> tuple[Bill, Result]:
    """Returns the bill, and the size of the result.

    Args:
        job: The operator.
        results: Where its result goes.
        inputs: The lines about the input.
        before: Bills of what runs before.
    """
    engine, budget, sizes = job.engine, job.engine.budget_bytes, job.estimated
    scans = [job.scan(side) for side in job.shuffle.sides]
    num_tasks, work = sum(scan.num_tasks for scan in scans), sizes.workload
    result_rows = sizes.result_rows
    if isinstance(sizes, TopJob):
        work = _of_top(work, sizes.count * num_tasks)
        result_rows = work.num_rows
    needed = finish_bytes(job.shuffle, _side_bytes(sizes, work))
    reading = engine.num_cpus * max(scan.task_memory_bytes("thread") for scan in scans)
    bill = Bill(
        operator=job.shuffle.name,
        strategy="whole",
        why="in one piece, since all rows fit into one task",
        **inputs,
        rows=work.num_rows,
        row_bytes=work.total_bytes,
        splits=num_tasks,
        partitions=1,
        blocks=num_tasks + (results == "blocks"),
        memory_bytes=min(
            engine.memory_limit,
            engine.memory_limit - budget + work.total_bytes + max(needed, reading),
        ),
        spill_free_bytes=free_bytes(engine.spill_dirs),
        before=before,
    )
    return bill, Result(result_rows, work.all_result_bytes, 1)


def _of_top(work: Workload, most_rows: int) -> Workload:
    """Returns a workload of which the maps send only so many rows."""
    num_rows = min(work.num_rows, most_rows)
    num_bytes = work.total_bytes * num_rows // max(work.num_rows, 1)
    return dataclasses.replace(work, total_bytes=num_bytes, num_rows=num_rows)


def _side_bytes(job: ShuffleJob, work: Workload) -> list[int]:
    """Returns the bytes of each side of a shuffle."""
    if len(job.shuffle.sides) == 1:
        return [work.total_bytes]
    sizes = [0] * len(job.shuffle.sides)
    for (_, side), measured in zip(job.inputs, job.workloads, strict=True):
        sizes[side.tag] += measured.total_bytes
    return sizes
