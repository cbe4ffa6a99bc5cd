"""Bills a group-by or sort that one query computes, with the scans, filters and joins below it."""

from __future__ import annotations

from exoshuffle.dataset.explain.bill import Bill, InputLines
from exoshuffle.dataset.jobs.one_query import OneQueryJob
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.write.output import Result
from exoshuffle.observe.disks import free_bytes
from exoshuffle.plan.workload import ResultPlace
from exoshuffle.units import counted


def query_bill(
    job: OneQueryJob,
    estimated: ShuffleJob,
    results: ResultPlace,
    inputs: InputLines,
    before: tuple[Bill, ...],
) -> tuple[Bill, Result]:
    """Returns the bill, and the size of the result.

    Args:
        job: The query.
        estimated: The same operator as a shuffle, which measures the size of its result.
        results: Where its result goes.
        inputs: The lines about the input.
        before: Bills of what runs before.
    """
    engine, work = job.engine, estimated.workload
    reads = counted(len(job.leaves), "input")
    joins = f", {counted(job.relation.num_joins, 'join')}" if job.relation.num_joins else ""
    bill = Bill(
        operator=job.operator,
        strategy="query",
        why=f"one query of DuckDB for all ({reads}{joins}), since its hash tables fit into memory",
        **inputs,
        rows=int(sum(leaf.num_rows for leaf in job.leaves)),
        row_bytes=0,
        splits=0,
        partitions=1,
        blocks=int(results == "blocks"),
        memory_bytes=engine.memory_limit - engine.budget_bytes + job.memory_bytes,
        spill_free_bytes=free_bytes(engine.spill_dirs),
        before=before,
    )
    return bill, Result(estimated.result_rows, work.all_result_bytes, 1)
