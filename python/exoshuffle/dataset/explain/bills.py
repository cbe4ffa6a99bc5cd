"""Bills trees of operations, without running any: plans the last shuffle of a tree, and estimates those below it."""

from __future__ import annotations

import dataclasses

from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.explain.bill import Bill
from exoshuffle.dataset.explain.input_lines import input_lines
from exoshuffle.dataset.explain.one_query import query_bill
from exoshuffle.dataset.explain.unshuffled import (
    executor_of_inputs,
    unshuffled_bill,
    window_bill,
)
from exoshuffle.dataset.explain.whole import whole_bill
from exoshuffle.dataset.inputs.block_input import UnmadeInput
from exoshuffle.dataset.inputs.leading import first_of
from exoshuffle.dataset.jobs.first_rows import top_job, top_query_job, whole_top_job
from exoshuffle.dataset.jobs.fitting import why_shuffled
from exoshuffle.dataset.jobs.join_jobs import cross_sides, join_side, merge_join_job
from exoshuffle.dataset.jobs.joins import cross_memory_bytes, rows_size
from exoshuffle.dataset.jobs.one_query import OneQueryJob
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.sieving import filtered_side
from exoshuffle.dataset.jobs.small_sides import SmallSide, is_small, other_side
from exoshuffle.dataset.jobs.stages.planning import fused, stage_memory_bytes, waiting_bytes
from exoshuffle.dataset.jobs.unshuffled import ScanJob, piece_bytes
from exoshuffle.dataset.jobs.whole import WholeJob
from exoshuffle.dataset.tree.below import without_steps
from exoshuffle.dataset.tree.nodes import (
    LimitNode,
    MapNode,
    MergeJoinNode,
    Node,
    ShuffleNode,
    ShuffleOptions,
    StageNode,
    WindowNode,
)
from exoshuffle.dataset.write.output import Result
from exoshuffle.futures import Engine
from exoshuffle.observe.disks import free_bytes
from exoshuffle.operators.join.join import Join
from exoshuffle.operators.steps.step import Step, functions_bytes
from exoshuffle.plan.workload import ResultPlace, Workload
from exoshuffle.strategies.library import Auto
from exoshuffle.units import counted, format_bytes


def bill_of(
    node: Node, engine: Engine, results: ResultPlace, behind: tuple[Step, ...] = ()
) -> tuple[Bill, Result]:
    """Returns the bill of a tree without its files, and its result; ``behind`` are steps that come after it."""
    below, _ = without_steps(node)
    if isinstance(below, StageNode):
        return _staged_bill(node, engine)
    execution, place, first, read = Estimation(engine), results, None, node
    execution.look_at(node)
    job: OneQueryJob | ShuffleJob | WholeJob | None = None
    # The steps that are not applied as rows are read.
    later = behind
    while not isinstance(node, ShuffleNode | WindowNode) and len(node.children) == 1:
        if isinstance(node, LimitNode):
            job = (
                top_query_job(node, execution, behind)
                or whole_top_job(node, execution, behind)
                or top_job(node, execution, results, behind)
            )
            first = node.count if first is None else min(first, node.count)
            # A limit takes results one by one, wherever they go then.
            place, read, later = "batches", node.child, behind
        elif isinstance(node, MapNode):
            behind = (node.step, *behind)
        node = node.children[0]
    if isinstance(node, WindowNode):
        windows = execution.window_job(node)
        bill, result = window_bill(node, windows, behind, _bills_below(node, engine))
    elif isinstance(node, MergeJoinNode):
        bill, result = _merge_join_bill(node, execution, behind)
    elif isinstance(node, ShuffleNode):
        bill, result = _operator_bill(node, job, execution, (place, results), behind)
    else:
        inputs = execution.inputs(read)
        inputs = inputs if first is None else first_of(inputs, first)
        scan = ScanJob(inputs, read.schema, engine)
        operator = "scan" if first is None else f"the first {counted(first, 'row')}"
        why, before = "no rows have to meet", _bills_below(read, engine)
        bill, result = unshuffled_bill(read, scan, operator, why, later, before)
    if results != "files" and not bill.blocks:
        bill = dataclasses.replace(bill, blocks=result.num_parts)
    return bill, result if first is None else result.first(first)


def _staged_bill(node: Node, engine: Engine) -> tuple[Bill, Result]:
    """Bills a pipeline: the bill of its source, with the stages behind it."""
    parts = list[tuple[StageNode, tuple[Step, ...]]]()
    below, steps = without_steps(node)
    while isinstance(below, StageNode):
        parts.insert(0, (below, steps))
        node = below.child
        below, steps = without_steps(node)
    bill, result = bill_of(node, engine, "blocks")
    stages = fused(parts)
    tasks = engine.num_cpus * max(stage_memory_bytes(engine, stage) for stage in stages)
    taken = engine.workers_bytes("process") + tasks + waiting_bytes(engine)
    bill = dataclasses.replace(
        bill,
        operator=" → ".join([bill.operator, *map(str, stages)]),
        why=f"{bill.why}; stages run side by side, part by part",
        memory_bytes=min(engine.memory_limit, bill.memory_bytes + taken),
        blocks=max(bill.blocks, result.num_parts),
    )
    return bill, result


def _shuffled_bill(node: ShuffleNode, job: ShuffleJob, results: ResultPlace) -> tuple[Bill, Result]:
    """Bills a shuffle; ``job`` finds only its first rows if no others are wanted."""
    engine, plan, cost = job.engine, job.plan, job.plan.costs[0]
    kept = plan.num_partitions if results == "blocks" else 0
    is_library = isinstance(node.options.strategy, str | Auto)
    why = plan.why if is_library else f"an instance, planned as {plan.strategy}"
    is_chosen = job.shuffle.whole is not None and node.options == ShuffleOptions()
    why_not = why_shuffled(job, node.options) if is_chosen else ""
    bill = Bill(
        operator=job.shuffle.name,
        strategy=plan.strategy if is_library else type(node.options.strategy).__name__,
        why=f"{why}; not in one piece: {why_not}" if why_not else why,
        compared=tuple(map(str, plan.costs)),
        **input_lines(node),
        rows=job.workload.num_rows,
        row_bytes=job.workload.total_bytes,
        splits=job.num_maps,
        merges=plan.num_merges,
        folds=plan.num_folds,
        partitions=plan.num_partitions,
        rounds=plan.num_rounds,
        merge_factor=plan.merge_factor,
        blocks=job.num_maps + plan.num_merges + plan.num_folds + kept,
        slices=plan.num_slices,
        requests=cost.traffic.num_requests,
        memory_bytes=job.resources.other_bytes + plan.peak_bytes + job.functions_bytes,
        program_bytes=plan.program_bytes,
        spilled_bytes=plan.spilled_bytes,
        read_back_bytes=cost.traffic.read_bytes,
        spill_free_bytes=free_bytes(engine.spill_dirs),
        spill_codec=engine.spill_codec,
        before=_bills_below(node, engine),
        filtered_side=_filtered_side(node, job),
    )
    return bill, Result(job.result_rows, job.workload.all_result_bytes, plan.num_partitions)


def _filtered_side(node: ShuffleNode, job: ShuffleJob) -> str:
    """Says which side of a join may send fewer rows, once the keys of the other one are known."""
    side = filtered_side(node, job)
    if side is None:
        return ""
    own, other = ("left", "right") if side == 0 else ("right", "left")
    return f"{own}; rows whose keys the {other} side lacks are not sent, if that leaves out half of them"


def _operator_bill(
    node: ShuffleNode,
    job: OneQueryJob | ShuffleJob | WholeJob | None,
    execution: Estimation,
    places: tuple[ResultPlace, ResultPlace],
    behind: tuple[Step, ...],
) -> tuple[Bill, Result]:
    """Bills an operator.

    Args:
        node: The operator.
        job: The job that finds only its first rows, if no others are wanted.
        execution: Makes other jobs.
        places: Where the operator's own result goes, and that of the tree.
        behind: Steps that come after it.
    """
    place, results = places
    small = join_side(node, execution)
    if node.join is not None and small is not None:
        return _broadcast_bill(node, small, execution, results, behind)
    if node.join is not None and node.join.how == "cross":
        return _cross_bill(node, node.join, execution, behind)
    job = (
        job or execution.query_job(node, place, behind) or execution.whole_job(node, place, behind)
    )
    if isinstance(job, OneQueryJob):
        whole = execution.whole_job(node, place, behind)
        sizes = execution.shuffle_job(node, place) if whole is None else whole.estimated
        made = tuple(bill_of(below, execution.engine, "blocks")[0] for below in job.made)
        return query_bill(job, sizes, results, input_lines(node), made)
    if isinstance(job, WholeJob):
        return whole_bill(job, results, input_lines(node), _bills_below(node, execution.engine))
    return _shuffled_bill(node, job or execution.shuffle_job(node, place, behind), results)


def _broadcast_bill(
    node: ShuffleNode,
    small: SmallSide,
    execution: Estimation,
    results: ResultPlace,
    behind: tuple[Step, ...],
) -> tuple[Bill, Result]:
    """Bills a join that needs no shuffle: the bill is that of making its other side."""
    engine, join = execution.engine, node.join
    assert join is not None
    bill, other = bill_of(other_side(node, small.side), engine, results, behind)
    size = small.size
    operator = f"{node.shuffle.name} with {format_bytes(size.total_bytes)}, given to every task"
    why = "a side is so small that every task can have it, so nothing is shuffled"
    if bill.strategy != "none":
        why = bill.why
    if not is_small(small.most, engine):
        why += f"; the size of the side is an estimate: if it proves too large, the join {_instead(node, join)}"
    bill = dataclasses.replace(
        bill,
        operator=operator if bill.operator == "scan" else f"{bill.operator}, then {operator}",
        why=why,
        **input_lines(node),
        memory_bytes=min(
            engine.memory_limit, bill.memory_bytes + engine.num_cpus * size.total_bytes
        ),
        before=(*bill.before, *_bills_of(node.children[small.side], engine)),
    )
    made = Workload(other.num_bytes, other.num_rows)
    sides = (size, made) if small.side == 0 else (made, size)
    return bill, _joined(join, sides, other.num_parts)


def _instead(node: ShuffleNode, join: Join) -> str:
    """Returns what a join does whose small side proves too large."""
    if join.how != "cross":
        return "is shuffled"
    return "goes piece by piece" if node.options == ShuffleOptions() else "is refused"


def _cross_bill(
    node: ShuffleNode, join: Join, execution: Estimation, behind: tuple[Step, ...]
) -> tuple[Bill, Result]:
    """Bills a cross join that goes piece by piece."""
    engine, jobs = execution.engine, cross_sides(node, execution)
    left, right = (rows_size(job.inputs, job.schema) for job in jobs)
    pieces = [job.num_tasks for job in jobs]
    held = left.total_bytes + right.total_bytes
    executor = executor_of_inputs([*jobs[0].inputs, *jobs[1].inputs], behind)
    task_memory = cross_memory_bytes(engine) + 2 * piece_bytes(engine) + functions_bytes(behind)
    task_memory = max(task_memory, *(job.task_memory_bytes(executor) for job in jobs))
    workers = engine.workers_bytes(executor)
    budget = max(1, engine.budget_bytes - workers)
    tasks_memory = min(budget, engine.num_cpus * task_memory)
    operator = f"join of {counted(pieces[0], 'piece')} with {pieces[1]:,}"
    why, before = "there are no keys", _bills_below(node, engine)
    scan, _ = unshuffled_bill(node, jobs[0], operator, why, behind, before)
    spilled = max(0, held + tasks_memory - budget)
    bill = dataclasses.replace(
        scan,
        rows=left.num_rows + right.num_rows,
        row_bytes=held,
        splits=pieces[0] * pieces[1],
        blocks=sum(pieces),
        memory_bytes=min(engine.memory_limit, engine.memory_limit - budget + held + tasks_memory),
        spilled_bytes=spilled,
        spill_codec=engine.spill_codec,
    )
    return bill, _joined(join, (left, right), pieces[0] * pieces[1])


def _merge_join_bill(
    node: MergeJoinNode, execution: Estimation, behind: tuple[Step, ...]
) -> tuple[Bill, Result]:
    """Bills a sort-merge join, behind the sorts of both sides."""
    engine, job = execution.engine, merge_join_job(node, execution)
    left, right = (side.size for side in job.sides)
    held, piece, spilled = job.held_bytes, job.piece_bytes, job.spilled_bytes(behind)
    pieces = [max(1, -(-size.total_bytes // piece)) for size in (left, right)]
    # Pieces that have no room beside the tasks are spilled.
    taken = engine.memory_limit - job.room_bytes(behind) + held + job.tasks_bytes(behind)
    bill = Bill(
        operator=f"{node.join.name} of {counted(pieces[0], 'piece')} with {pieces[1]:,}",
        strategy="none",
        why="sorted pieces of both sides meet; a side that is in order as it is read is not sorted",
        **input_lines(node),
        rows=left.num_rows + right.num_rows,
        row_bytes=held,
        splits=sum(pieces),
        blocks=sum(pieces),
        memory_bytes=min(engine.memory_limit, taken),
        spilled_bytes=spilled,
        spill_free_bytes=free_bytes(engine.spill_dirs),
        spill_codec=engine.spill_codec,
        before=tuple(bill_of(node.sorted_child(side), engine, "blocks")[0] for side in range(2)),
    )
    row_bytes = right.total_bytes // max(right.num_rows, 1)
    made = left.total_bytes + row_bytes * left.num_rows
    return bill, Result(left.num_rows, made, job.num_parts(sum(pieces)))


def _joined(join: Join, sides: tuple[Workload, Workload], num_parts: int) -> Result:
    num_rows = [side.num_rows for side in sides]
    num_bytes = join.result_bytes(num_rows, [side.total_bytes for side in sides])
    return Result(join.result_rows(num_rows), num_bytes, num_parts)


def _bills_below(node: Node, engine: Engine) -> tuple[Bill, ...]:
    return tuple(bill for child in node.children for bill in _bills_of(child, engine))


def _bills_of(node: Node, engine: Engine) -> list[Bill]:
    """Bills the results that are made in the store before a node is read."""
    return [bill_of(below, engine, "blocks")[0] for below in _made_below(node)]


class Estimation(Execution):
    """Makes the last job of a tree without running those below; estimates the sizes of their results."""

    def made(self, node: Node) -> UnmadeInput:
        """See ``Execution``."""
        below = _made_below(node)
        if below and isinstance(below[0], MergeJoinNode):
            _, made = bill_of(below[0], self.engine, "blocks")
            return UnmadeInput(Workload(made.num_bytes, made.num_rows), made.num_parts)
        if below and isinstance(below[0], ShuffleNode):
            whole = self.whole_job(below[0], "blocks")
            job = self.shuffle_job(below[0], "blocks") if whole is None else whole.estimated
            size = dataclasses.replace(job.workload, total_bytes=job.workload.all_result_bytes)
            pieces = 0
            if job.workload.result_bytes is not None:
                pieces = size.total_bytes // piece_bytes(self.engine)
            parts = 1 if whole is not None else job.plan.num_partitions
            return UnmadeInput(size, max(parts, pieces))
        if isinstance(node, StageNode):
            _, made = bill_of(node, self.engine, "blocks")
            return UnmadeInput(Workload(made.num_bytes, made.num_rows), made.num_parts)
        [child] = node.children
        scan = ScanJob(self.inputs(child), child.schema, self.engine)
        read = rows_size(scan.inputs, child.schema)
        made = Result(read.num_rows, read.total_bytes, scan.num_tasks)
        if isinstance(node, LimitNode):
            made = made.first(node.count)
        return UnmadeInput(Workload(made.num_bytes, made.num_rows), made.num_parts)


def _made_below(node: Node) -> list[ShuffleNode | MergeJoinNode]:
    """Returns the uppermost nodes of a tree whose results are made in the store, except limits."""
    if isinstance(node, ShuffleNode | MergeJoinNode):
        return [node]
    return [found for child in node.children for found in _made_below(child)]
