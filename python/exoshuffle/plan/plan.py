"""How much: from sizes and a memory budget to numbers of splits, partitions and merges, and a strategy for them.

Guarantees (property-tested): the projected peak of every phase stays within the budget, or the plan is refused with the
smallest budget that would do; every row has a partition; rounds and merge groups are not larger than planned. Which
strategy ``auto`` takes depends on these numbers alone. What fits is in ``memory``, what it would take in ``cost``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from exoshuffle.arguments import is_whole
from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.plan.choice import cheapest, compared, reason
from exoshuffle.plan.cost import Cost, Traffic, predict
from exoshuffle.plan.memory import (
    MAX_PARTITIONS,
    PUSH_BLOCKS,
    USABLE_PERCENT,
    Sizes,
    choose_sizes,
    map_memory_bytes,
    map_scratch_bytes,
    merge_memory_bytes,
    most_merged,
)
from exoshuffle.plan.workload import FREE_COLUMNS, Resources, Workload, ceil_div
from exoshuffle.units import counted, format_bytes

__all__ = [
    "MAX_PARTITIONS",
    "Resources",
    "ShufflePlan",
    "Workload",
    "check_num_partitions",
    "plan_shuffle",
]

#: Those of the library, by name.
STRATEGIES = ("simple", "push", "pre_shuffle_merge", "streaming")
#: Riffle measured groups of 5 to 40 (§4.1).
MAX_MERGED = 40
#: What a slice takes beside its rows: the header that says whose they are, and its entry in the index of the block.
SLICE_BYTES = 56
#: Rounds of a streaming shuffle: each makes all states once more.
NUM_ROUNDS = 10
#: A fold that concatenates holds the state before and slices, and what it makes of them: the partition twice.
FOLD_PERCENT = 100


@dataclass(frozen=True)
class ShufflePlan:
    """The numbers of a shuffle, all of them decided before it starts.

    Attributes:
        strategy: ``simple``, ``push`` or ``pre_shuffle_merge``; ``streaming`` if it was asked for.
        why: One sentence: why this strategy.
        num_splits: M, map tasks, as planned (files and row groups may make it a little more).
        num_partitions: R, reduce tasks and slices per block.
        split_bytes: Size of a split.
        partition_bytes: Mean size of a partition.
        row_group_bytes: Rows that a writer collects before it writes them.
        round_size: Maps per round (push, streaming).
        merge_factor: Blocks per merge (push, pre_shuffle_merge), 1 if nothing is merged.
        map_memory_bytes: Working memory of a map.
        reduce_memory_bytes: Working memory of a reduce.
        peak_bytes: Projected peak of blocks and working memory.
        spilled_bytes: Bytes that will be written to spill files.
        merge_memory_bytes: For merges that run at once on a node (pre_shuffle_merge).
        costs: What the strategies that were compared are predicted to take, this one first.
        max_partition_bytes: Largest partition whose reduces can run at once; one that turns out larger is divided, if
            the task set can (``shuffle.reduces``).
        max_whole_bytes: Largest partition whose reduce can run while little else does.
        reduce_percent: Working memory of a reduce as a share of its partition, beside buffers.
        large_partition_bytes: Size that ``reduce_memory_bytes`` is for; some partitions are larger than the mean.
        buffer_bytes: What a reduce has beside its partition, however small that is.
        alone_bytes: What a reduce may take, beside that, that reads slices a run at a time while little else is done.
        limit_bytes: The memory limit that this was planned for.
    """

    strategy: str
    why: str
    num_splits: int
    num_partitions: int
    split_bytes: int
    partition_bytes: int
    row_group_bytes: int
    round_size: int
    merge_factor: int
    map_memory_bytes: int
    reduce_memory_bytes: int
    peak_bytes: int
    spilled_bytes: int
    merge_memory_bytes: int = 0
    costs: tuple[Cost, ...] = ()
    max_partition_bytes: int = 0
    max_whole_bytes: int = 0
    reduce_percent: int = 0
    large_partition_bytes: int = 0
    buffer_bytes: int = 0
    alone_bytes: int = 0
    limit_bytes: int = 0

    def map_memory(self, split_bytes: int) -> int:
        """Working memory of a map of a split of this size."""
        return max(self.map_memory_bytes, map_scratch_bytes(split_bytes))

    def reduce_memory(self, partition_bytes: int) -> int:
        """Working memory of a reduce of a partition of this size."""
        more = max(0, partition_bytes - self.large_partition_bytes) * self.reduce_percent // 100
        return self.reduce_memory_bytes + more

    def limit_for(self, needed_bytes: int, room_bytes: int) -> int:
        """A memory limit that would do, where a task needs more than the room that this one leaves it."""
        more = (needed_bytes - room_bytes) * 100 // USABLE_PERCENT
        return enough_bytes(self.limit_bytes, more)

    @property
    def num_rounds(self) -> int:
        """Rounds of maps."""
        in_rounds = self.strategy in ("push", "streaming")
        return ceil_div(self.num_splits, self.round_size) if in_rounds else 1

    @property
    def num_blocks(self) -> int:
        """Blocks that reduces, or folds, read slices of: map outputs, or merges of them."""
        if self.strategy != "push":
            return ceil_div(self.num_splits, self.merge_factor)
        full, rest = divmod(self.num_splits, self.round_size)
        per_round = ceil_div(self.round_size, self.merge_factor)
        return full * per_round + ceil_div(rest, self.merge_factor)

    @property
    def num_merges(self) -> int:
        """Merge tasks."""
        return self.num_blocks if self.merge_factor > 1 else 0

    @property
    def num_folds(self) -> int:
        """Fold tasks, each of which makes a state."""
        return self.num_rounds * self.num_partitions if self.strategy == "streaming" else 0

    @property
    def num_slices(self) -> int:
        """Slices that reduces read, M x R after merging; folds do so in their place, and each state is read once."""
        return self.num_blocks * self.num_partitions + self.num_folds


def enough_bytes(limit: int, more_bytes: int) -> int:
    """A memory limit that leaves tasks so much more than ``limit``.

    Of a larger limit the engine keeps a little more for itself; and the next run may take a little more.
    """
    return (limit * 100 + more_bytes * 103) * 102 // 10_000


def check_num_partitions(number: Any) -> None:
    """Raises ``OptionsError`` unless so many partitions can be asked for."""
    if not is_whole(number):
        raise OptionsError(f"num_partitions is {number!r}; it must be a whole number")
    if not 1 <= int(number) <= MAX_PARTITIONS:
        raise OptionsError(f"{number} partitions; choose between 1 and {MAX_PARTITIONS}")


def plan_shuffle(
    workload: Workload,
    resources: Resources,
    strategy: str = "auto",
    num_partitions: int | None = None,
    *,
    round_size: int | None = None,
) -> ShufflePlan:
    """Plans a shuffle.

    Args:
        workload: What there is to shuffle.
        resources: Budget, CPUs, nodes and kind of disk.
        strategy: ``auto``, or the name of a strategy.
        num_partitions: R, if the caller wants a certain number.
        round_size: Maps per round, if the strategy ``streaming`` was given a number.

    Raises:
        MemoryLimitError: It cannot fit; the message names the smallest budget that would do.
        OptionsError: A number of partitions that cannot work, or an unknown strategy.
    """
    if strategy not in ("auto", *STRATEGIES):
        raise OptionsError(
            f"unknown strategy {strategy!r}; known are {', '.join(('auto', *STRATEGIES))}"
        )
    if num_partitions is not None:
        check_num_partitions(num_partitions)
    plan = _try_plan(workload, resources, strategy, num_partitions, round_size)
    if plan is not None:
        return plan
    smallest = smallest_budget(workload, resources, strategy, num_partitions)
    what = (
        f" of {counted(workload.num_columns, 'column')}"
        if workload.num_columns > FREE_COLUMNS
        else ""
    )
    what += f" in {counted(num_partitions, 'partition')}" if num_partitions else ""
    limit = resources.budget_bytes + resources.other_bytes
    enough = enough_bytes(limit, smallest - resources.budget_bytes)
    raise MemoryLimitError(
        f"shuffling {format_bytes(workload.total_bytes)}{what} does not fit into a memory limit of "
        f"{format_bytes(limit)}; the smallest that works is {format_bytes(enough)}"
        + (", or ask for more partitions" if num_partitions else "")
    )


def _try_plan(
    workload: Workload,
    resources: Resources,
    strategy: str,
    num_partitions: int | None,
    round_size: int | None = None,
) -> ShufflePlan | None:
    if strategy == "streaming":
        percent = max(workload.reduce_percent, FOLD_PERCENT)
        workload = replace(workload, reduce_percent=percent, is_passed_on=False)
    sizes = choose_sizes(workload, resources, num_partitions)
    if sizes is None:
        return None
    names = ("simple", "push", "pre_shuffle_merge") if strategy == "auto" else (strategy,)
    plans = [
        _plan(name, factor, workload, resources, sizes, round_size)
        for name in names
        for factor in _merge_factors(name, sizes, resources)
    ]
    if not plans:
        return None
    costs = [cost for plan in plans for cost in plan.costs]
    chosen = cheapest(costs) if strategy == "auto" else min(costs, key=lambda cost: cost.seconds)
    known = compared(chosen, costs)
    why = reason(chosen, known[1:]) if strategy == "auto" else "asked for"
    return replace(plans[costs.index(chosen)], why=why, costs=known)


def _merge_factors(strategy: str, sizes: Sizes, resources: Resources) -> list[int]:
    """How many blocks a strategy could merge at once: powers of two as far as memory goes."""
    if strategy not in ("push", "pre_shuffle_merge"):
        return [1]
    most = min(most_merged(sizes, resources, strategy), MAX_MERGED)
    if most < 2:
        return []
    most = min(most, max(2, sizes.num_splits))
    return sorted({*(2**power for power in range(1, most.bit_length())), most})


def _plan(
    strategy: str,
    factor: int,
    workload: Workload,
    resources: Resources,
    sizes: Sizes,
    given_round: int | None,
) -> ShufflePlan:
    total = max(workload.total_bytes, 1)
    is_push = strategy == "push"
    splits = sizes.num_splits if workload.num_items is None else max(1, workload.num_items)
    kept = workload.all_result_bytes if workload.results == "blocks" else 0
    slices = SLICE_BYTES * splits * sizes.num_partitions
    blocks = (total + slices) * (2 if strategy == "pre_shuffle_merge" else 1)
    cpus = resources.num_cpus
    map_memory = map_memory_bytes(sizes, cpus, factor if is_push else 0)
    # Reduces make do with what maps leave: they pin what is in memory.
    room = max(0, _unspilled_bytes(sizes, resources) - cpus * map_memory)
    held = min(workload.held_bytes, room)
    at_once = max(cpus, PUSH_BLOCKS * factor if is_push else 0) * sizes.split_bytes
    peak = max(sizes.reduce_peak_bytes, cpus * map_memory + at_once)
    round_size = _round_size(strategy, factor, splits, given_round)
    states = _state_bytes(blocks, ceil_div(splits, round_size)) if strategy == "streaming" else []
    spilled = max(0, blocks + kept + held - room)
    plan = ShufflePlan(
        strategy=strategy,
        why="",
        num_splits=splits,
        num_partitions=sizes.num_partitions,
        split_bytes=sizes.split_bytes,
        partition_bytes=ceil_div(total, sizes.num_partitions),
        row_group_bytes=sizes.row_group_bytes,
        round_size=round_size,
        merge_factor=factor,
        map_memory_bytes=map_memory,
        reduce_memory_bytes=sizes.reduce_memory_bytes,
        peak_bytes=min(resources.budget_bytes, peak + blocks + kept + held),
        spilled_bytes=spilled + sum(max(0, size - room) for size in states[1:]),
        merge_memory_bytes=merge_memory_bytes(sizes, resources)
        if strategy == "pre_shuffle_merge"
        else 0,
        max_partition_bytes=sizes.max_partition_bytes,
        max_whole_bytes=sizes.max_whole_bytes,
        reduce_percent=sizes.reduce_percent,
        large_partition_bytes=sizes.large_partition_bytes,
        buffer_bytes=sizes.buffer_bytes,
        alone_bytes=sizes.alone_bytes,
        limit_bytes=resources.budget_bytes + resources.other_bytes,
    )
    traffic = _traffic(plan, workload, resources, sum(states), blocks + kept + sum(states))
    return replace(plan, costs=(predict(traffic, resources),))


def _unspilled_bytes(sizes: Sizes, resources: Resources) -> int:
    """What blocks and tasks may have before blocks are spilled.

    That begins when the whole budget is as full as a plan may fill its part of it; worker processes fill all of theirs.
    """
    return max(0, sizes.usable_bytes - resources.workers_bytes * (100 - USABLE_PERCENT) // 100)


def _round_size(strategy: str, factor: int, splits: int, given: int | None) -> int:
    if strategy == "streaming":
        return given or ceil_div(splits, NUM_ROUNDS)
    return factor if strategy == "push" else splits


def _state_bytes(blocks: int, rounds: int) -> list[int]:
    """Sizes of the states after each round.

    Those before are let go, so that memory has to hold one of these at a time, and beside it what the maps of the next
    round make, with which it is as large as the next one.
    Sorting 108 MB within 90 to 190 MB spilled 0.58 to 1.17 of what follows from that (19 runs).
    """
    return [blocks * number // rounds for number in range(1, rounds + 1)]


def _traffic(
    plan: ShufflePlan, workload: Workload, resources: Resources, states: int, made: int
) -> Traffic:
    """What moves by a plan; ``states`` is the size of all states, ``made`` that of all blocks, any may be spilled."""
    total = max(workload.total_bytes, 1)
    merged = total if plan.merge_factor > 1 else states
    last = plan.merge_factor * plan.split_bytes
    if states:  # The last folds find nothing beside them either, but run on all CPUs.
        last = ceil_div(total, resources.num_cpus)
    read_again = plan.strategy == "pre_shuffle_merge"
    return Traffic(
        strategy=plan.strategy,
        merge_factor=plan.merge_factor,
        total_bytes=total,
        merged_bytes=merged,
        tail_bytes=min(merged, last),
        moved_bytes=total + (0 if read_again else merged),
        written_bytes=plan.spilled_bytes,
        merge_read_bytes=total * plan.spilled_bytes // made if read_again else 0,
        reduce_read_bytes=(total + states) * plan.spilled_bytes // made,
        touched_bytes=plan.peak_bytes,
        num_tasks=plan.num_splits + plan.num_merges + plan.num_folds + plan.num_partitions,
        num_slices=plan.num_slices,
        num_spilled_slices=plan.num_slices * plan.spilled_bytes // made,
        output_bytes=workload.all_result_bytes if workload.results == "files" else 0,
    )


def smallest_budget(
    workload: Workload,
    resources: Resources,
    strategy: str = "auto",
    num_partitions: int | None = None,
) -> int:
    """The smallest budget that a shuffle can be planned for, to a thousandth; that of ``resources`` is too small."""

    def fits(budget: int) -> bool:
        given = replace(resources, budget_bytes=budget)
        return _try_plan(workload, given, strategy, num_partitions) is not None

    low = max(resources.budget_bytes, 0)
    high = 2 * low + 1
    while not fits(high):
        low, high = high, 2 * high
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
