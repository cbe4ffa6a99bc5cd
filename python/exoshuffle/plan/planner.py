"""Makes the plan: takes the candidate of a strategy that is predicted to take least time, or refuses the shuffle.

Guarantees (property-tested): the projected peak of every phase stays within the budget, or the plan is refused with the
smallest budget that would do. Every row has a partition. Rounds and merge groups are not larger than planned. The
choice depends on the candidates' numbers alone. ``memory`` decides what fits, ``cost`` predicts the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.plan.candidate import Basis, Candidate, Proposer
from exoshuffle.plan.choice import cheapest, compared, reason
from exoshuffle.plan.cost import Traffic, predict
from exoshuffle.plan.memory import (
    MIN_SPLIT_BYTES,
    SLICE_BYTES,
    choose_sizes,
    map_memory_bytes,
    most_partitions,
    unspilled_bytes,
)
from exoshuffle.plan.plan import ShufflePlan, check_num_partitions, enough_bytes
from exoshuffle.plan.workload import FREE_COLUMNS, Resources, Workload, ceil_div
from exoshuffle.units import counted, format_bytes

#: Headers of slices may take this share of the rows, where blocks are spilled. Little memory for each task makes many
#: slices. Within 399 MB on 12 CPUs, 29.6 GB had 49 GB of headers, and within an eighth of that memory 5.7 GB.
MOST_HEADERS_PERCENT = 12
#: No shuffle needs more memory, so a strategy that proposes nothing within this never will.
MOST_BYTES = 1 << 80


def choose_plan(
    workload: Workload,
    resources: Resources,
    proposers: Sequence[Proposer],
    num_partitions: int | None = None,
) -> ShufflePlan:
    """Plans a shuffle.

    Args:
        workload: The rows to shuffle, in numbers.
        resources: Budget, CPUs, nodes and kind of disk.
        proposers: The one that was asked for, or several to choose from: the first unless another is worth it.
        num_partitions: R, if the caller wants a certain number.

    Raises:
        MemoryLimitError: No candidate fits; the message names the smallest budget that would do.
        OptionsError: The number of partitions cannot work, or there is no candidate, however much memory there is.
    """
    if num_partitions is not None:
        check_num_partitions(num_partitions)
    plan = _try_plan(workload, resources, proposers, num_partitions)
    if plan is not None:
        return plan
    what = (
        f" of {counted(workload.num_columns, 'column')}"
        if workload.num_columns > FREE_COLUMNS
        else ""
    )
    what += f" in {counted(num_partitions, 'partition')}" if num_partitions else ""
    limit = resources.budget_bytes + resources.other_bytes
    enough = smallest_limit(workload, resources, proposers, num_partitions)
    enough = max(enough, workload.reading_limit_bytes)
    raise MemoryLimitError(
        f"shuffling {format_bytes(workload.total_bytes)}{what} does not fit into a memory limit of "
        f"{format_bytes(limit)}; the smallest that works is {format_bytes(enough)}"
        + (f", or ask for {_other(num_partitions, resources)} partitions" if num_partitions else "")
    )


def _other(num_partitions: int, resources: Resources) -> str:
    """Returns whether more or fewer partitions would need less memory."""
    return "fewer" if num_partitions > most_partitions(resources) else "more"


def smallest_limit(
    workload: Workload,
    resources: Resources,
    proposers: Sequence[Proposer],
    num_partitions: int | None = None,
) -> int:
    """Returns a memory limit for which a shuffle can be planned, little above the smallest; see ``smallest_budget``."""
    limit = resources.budget_bytes + resources.other_bytes
    smallest = smallest_budget(workload, resources, proposers, num_partitions)
    return enough_bytes(limit, smallest - resources.budget_bytes)


def smallest_budget(
    workload: Workload,
    resources: Resources,
    proposers: Sequence[Proposer],
    num_partitions: int | None = None,
) -> int:
    """Returns, to a thousandth, the smallest budget for which a shuffle can be planned; ``resources`` has too little.

    Raises:
        OptionsError: There is no such budget.
    """

    def fits(budget: int) -> bool:
        given = replace(resources, budget_bytes=budget)
        return _try_plan(workload, given, proposers, num_partitions) is not None

    low = max(resources.budget_bytes, 0)
    high = 2 * low + 1
    while not fits(high):
        if high > MOST_BYTES:
            names = ", ".join(proposer.name for proposer in proposers)
            raise OptionsError(
                f"{names} proposed no way to run this shuffle, however much memory there is"
            )
        low, high = high, 2 * high
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _try_plan(
    workload: Workload,
    resources: Resources,
    proposers: Sequence[Proposer],
    num_partitions: int | None,
) -> ShufflePlan | None:
    """Returns the plan with a task on each CPU, or with half as many, a quarter …: see ``_fit_plans``."""
    plans = _fit_plans(workload, resources, proposers, num_partitions)
    if not plans:
        return None
    costs = [cost for plan in plans for cost in plan.costs]
    is_choice = len(proposers) > 1
    chosen = cheapest(costs) if is_choice else min(costs, key=lambda cost: cost.seconds)
    known = compared(chosen, costs)
    why = reason(chosen, known[1:]) if is_choice else "asked for"
    return replace(plans[costs.index(chosen)], why=why, costs=known)


def _fit_plans(
    workload: Workload,
    resources: Resources,
    proposers: Sequence[Proposer],
    num_partitions: int | None,
) -> list[ShufflePlan]:
    """Returns plans with as many tasks at once as memory has room for, without too many headers of slices.

    If no number of tasks does without these, it is the one with least of them.
    """
    running, best = resources, _plans(workload, resources, proposers, num_partitions)
    most, least = most_header_bytes(workload), _spilled_header_bytes(best)
    while running.num_cpus > 1 and (not best or least > most):
        running = running.halved()
        plans = _plans(workload, running, proposers, num_partitions)
        if plans and (not best or _spilled_header_bytes(plans) < least):
            best, least = plans, _spilled_header_bytes(plans)
    return best


def most_header_bytes(workload: Workload) -> int:
    """Returns how many bytes headers of slices may have before fewer tasks run at once for it."""
    return max(MIN_SPLIT_BYTES, workload.total_bytes * MOST_HEADERS_PERCENT // 100)


def _spilled_header_bytes(plans: Sequence[ShufflePlan]) -> int:
    """Returns the size of all headers of slices, of the plan with fewest; 0 where nothing is spilled."""
    sizes = (SLICE_BYTES * plan.num_splits * plan.num_partitions for plan in plans)
    return 0 if any(plan.spilled_bytes == 0 for plan in plans) else min(sizes, default=0)


def _plans(
    workload: Workload,
    resources: Resources,
    proposers: Sequence[Proposer],
    num_partitions: int | None,
) -> list[ShufflePlan]:
    """Returns a plan for each candidate of the proposers that have sizes which fit."""
    adapted = [proposer.adapted(workload) for proposer in proposers]
    # Most proposers leave the workload as it is, and share sizes.
    found = {each: choose_sizes(each, resources, num_partitions) for each in set(adapted)}
    plans: list[ShufflePlan] = []
    for proposer, each in zip(proposers, adapted, strict=True):
        sizes = found[each]
        if sizes is not None:
            basis = Basis(each, resources, sizes)
            candidates = proposer.candidates(basis)
            plans += [_plan(proposer.name, candidate, basis) for candidate in candidates]
    return plans


def _plan(strategy: str, candidate: Candidate, basis: Basis) -> ShufflePlan:
    """Makes the plan of a candidate, with its cost."""
    workload, resources, sizes = basis.workload, basis.resources, basis.sizes
    cpus = resources.num_cpus
    kept = workload.all_result_bytes if workload.results == "blocks" else 0
    blocks = basis.block_bytes * candidate.num_copies
    at_once = max(cpus, candidate.blocks_at_once) * sizes.split_bytes
    map_memory = map_memory_bytes(sizes, cpus, at_once)
    # Reduces make do with the memory that maps leave, since they pin the blocks in memory.
    room = max(0, unspilled_bytes(sizes, resources) - cpus * map_memory)
    held = min(workload.held_bytes, room)
    peak = max(sizes.reduce_peak_bytes, cpus * map_memory + at_once)
    spilled = max(0, blocks + kept + held - room)
    states = candidate.state_bytes
    plan = ShufflePlan(
        strategy=strategy,
        why="",
        num_splits=basis.num_splits,
        num_partitions=sizes.num_partitions,
        split_bytes=sizes.split_bytes,
        partition_bytes=ceil_div(basis.total_bytes, sizes.num_partitions),
        row_group_bytes=sizes.row_group_bytes,
        round_size=basis.num_splits if candidate.round_size is None else candidate.round_size,
        merge_factor=candidate.merge_factor,
        map_memory_bytes=map_memory,
        reduce_memory_bytes=sizes.reduce_memory_bytes,
        peak_bytes=min(resources.budget_bytes, peak + blocks + kept + held),
        # Memory has to hold the states of one round at a time: earlier states are let go.
        spilled_bytes=spilled + sum(max(0, size - room) for size in states[1:]),
        num_merges=candidate.num_merges,
        num_folds=candidate.num_folds,
        num_slices=candidate.num_slices,
        num_copies=candidate.num_copies,
        merge_memory_bytes=candidate.merge_memory_bytes,
        max_partition_bytes=sizes.max_partition_bytes,
        max_whole_bytes=sizes.max_whole_bytes,
        reduce_percent=sizes.reduce_percent,
        large_partition_bytes=sizes.large_partition_bytes,
        buffer_bytes=sizes.buffer_bytes,
        alone_bytes=sizes.alone_bytes,
        apart_bytes=sizes.apart_bytes,
        idle_cpus=resources.idle_cpus,
        limit_bytes=resources.budget_bytes + resources.other_bytes,
    )
    traffic = _traffic(plan, candidate, basis, blocks + kept + sum(states))
    return replace(plan, costs=(predict(traffic, resources),))


def _traffic(plan: ShufflePlan, candidate: Candidate, basis: Basis, made: int) -> Traffic:
    """Returns the traffic of a plan; ``made`` is the size of all blocks and states, any of which may be spilled."""
    total, workload = basis.total_bytes, basis.workload
    return Traffic(
        strategy=plan.strategy,
        merge_factor=plan.merge_factor,
        total_bytes=total,
        merged_bytes=candidate.merged_bytes,
        tail_bytes=candidate.tail_bytes,
        pushed_bytes=candidate.moved_again_bytes,
        pulled_bytes=total - candidate.local_bytes,
        written_bytes=plan.spilled_bytes,
        merge_read_bytes=candidate.reread_bytes * plan.spilled_bytes // made,
        num_merge_reads=candidate.merge_reads * plan.spilled_bytes // made,
        reduce_read_bytes=(total + sum(candidate.state_bytes)) * plan.spilled_bytes // made,
        touched_bytes=plan.peak_bytes,
        num_tasks=plan.num_splits + plan.num_merges + plan.num_folds + plan.num_partitions,
        num_slices=plan.num_slices,
        num_spilled_slices=plan.num_slices * plan.spilled_bytes // made,
        output_bytes=workload.all_result_bytes if workload.results == "files" else 0,
    )
