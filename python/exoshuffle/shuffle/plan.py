"""How much: from sizes and a memory budget to numbers of splits, partitions and merges, by integer arithmetic alone.

Guarantees (property-tested): the projected peak of every phase stays within the budget, or the plan is refused with the
smallest budget that would do; every row has a partition; rounds and merge groups are not larger than planned.

The model. c tasks run at once; blocks and working memory share one budget T.

* A map of a split of q bytes works in ``MAP_SCRATCH`` · q (decoded columns, read windows, partition numbers) and makes
  a block of q. Running maps take c · q · (1 + MAP_SCRATCH); everything else in T may hold finished blocks, unspilled.
* A reduce of a partition of p bytes (sampling makes some larger: ``SKEW``) holds its slices, sort entries of
  ``ENTRY_BYTES`` per row and a writer. c run, and the slices of c more are prefetched.
* A push round holds the outputs of its maps, the inputs of the merges of the round before and their outputs.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.units import format_bytes

#: Working memory of a map as a share of its split.
MAP_SCRATCH_PERCENT = 160
#: A partition may be this much larger than the mean: boundaries come from a sample.
SKEW_PERCENT = 130
#: Bytes per row while sorting: a prefix of 8 or 16 and a location of 8, sorted in place.
ENTRY_BYTES = 24
#: Share of the budget that a plan may fill; the rest absorbs estimates that are too low.
USABLE_PERCENT = 80
#: Read and write buffers of one task beside its data.
BUFFER_BYTES = 24_000_000
MAX_SPLIT_BYTES = 32_000_000
MIN_SPLIT_BYTES = 1_000_000
#: Sorting 4 GB within 2 GB took 14.9-15.9 s with partitions of 64 MB and 11.6-13.1 s with these (3 runs each).
MAX_PARTITION_BYTES = 32_000_000
#: About what DuckDB makes of 100-byte rows. While one is written the next is encoded; 32 MB stalled the encoder.
MAX_ROW_GROUP_BYTES = 12_000_000
MIN_ROW_GROUP_BYTES = 2_000_000
#: Slices at least this large are read from an SSD at nearly its full rate (256 KiB at random: 0.8 of it here), so that
#: merging costs more than it saves: 4 GB within 2 GB in slices of 246 kB took 12.2 s read one by one, 13.0 s merged
#: (medians of four runs in turn). How much smaller they may be was not measured.
GOOD_SLICE_BYTES = 128 * 1024
MAX_PARTITIONS = 100_000
#: A push round holds the outputs of its maps, the inputs of the merges of the round before and their outputs.
_PUSH_BLOCKS = 3


@dataclass(frozen=True)
class Workload:
    """What there is to shuffle.

    Attributes:
        total_bytes: Size of all rows in blocks.
        num_rows: Number of rows, or an estimate.
        max_row_bytes: Size of the largest row that is known of.
        max_item_bytes: Size of the largest piece of the input that cannot be cut further.
        read_bytes: Size of what maps read, if that is more.
        reduce_percent: Memory that finishing a partition takes beside it and its sort entries, as a share of it,
        reduce_row_bytes: and further, per row of it.
    """

    total_bytes: int
    num_rows: int
    max_row_bytes: int = 0
    max_item_bytes: int = 0
    read_bytes: int = 0
    reduce_percent: int = 0
    reduce_row_bytes: int = 0


@dataclass(frozen=True)
class Resources:
    """What there is to do it with.

    Attributes:
        budget_bytes: For blocks and the working memory of tasks together.
        num_cpus: Tasks that run at once.
        other_bytes: What the program takes of the memory limit beside the budget; for messages.
    """

    budget_bytes: int
    num_cpus: int
    other_bytes: int = 0


@dataclass(frozen=True)
class ShufflePlan:
    """The numbers of a shuffle, all of them decided before it starts.

    Attributes:
        strategy: ``simple`` or ``push``.
        why: One sentence: why this strategy.
        num_splits: M, map tasks, as planned (files and row groups may make it a little more).
        num_partitions: R, reduce tasks and slices per block.
        split_bytes: Size of a split.
        partition_bytes: Mean size of a partition.
        row_group_bytes: Rows that a writer collects before it writes them.
        round_size: Maps per round (push).
        merge_factor: Blocks per merge (push).
        map_memory_bytes: Working memory of a map.
        reduce_memory_bytes: Working memory of a reduce.
        peak_bytes: Projected peak of blocks and working memory.
        spilled_bytes: Bytes that will be written to spill files.
        max_partition_bytes: Largest partition whose reduces can run at once; one that turns out larger is divided, if
            the task set can (``shuffle.reduces``).
        max_whole_bytes: Largest partition whose reduce can run while little else does.
        reduce_percent: Working memory of a reduce as a share of its partition, beside buffers.
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
    max_partition_bytes: int = 0
    max_whole_bytes: int = 0
    reduce_percent: int = 0

    def map_memory(self, split_bytes: int) -> int:
        """Working memory of a map of a split of this size."""
        return max(self.map_memory_bytes, _map_memory(split_bytes))

    def reduce_memory(self, partition_bytes: int) -> int:
        """Working memory of a reduce of a partition of this size."""
        planned = self.partition_bytes * SKEW_PERCENT // 100
        more = max(0, partition_bytes - planned) * self.reduce_percent // 100
        return self.reduce_memory_bytes + more

    @property
    def num_rounds(self) -> int:
        """Rounds of maps."""
        return _ceil_div(self.num_splits, self.round_size) if self.strategy == "push" else 1

    @property
    def num_slices(self) -> int:
        """Slices that the reduces read, M x R after merging."""
        blocks = self.num_splits
        if self.strategy == "push":
            full, rest = divmod(self.num_splits, self.round_size)
            blocks = full * _ceil_div(self.round_size, self.merge_factor)
            blocks += _ceil_div(rest, self.merge_factor)
        return blocks * self.num_partitions


def plan_shuffle(
    workload: Workload,
    resources: Resources,
    strategy: str = "auto",
    num_partitions: int | None = None,
) -> ShufflePlan:
    """Plans a shuffle.

    Args:
        workload: What there is to shuffle.
        resources: Budget and CPUs.
        strategy: ``auto``, ``simple`` or ``push``.
        num_partitions: R, if the caller wants a certain number.

    Raises:
        MemoryLimitError: It cannot fit; the message names the smallest budget that would do.
        OptionsError: A number of partitions that cannot work.
    """
    if num_partitions is not None and not 1 <= num_partitions <= MAX_PARTITIONS:
        raise OptionsError(f"{num_partitions} partitions; choose between 1 and {MAX_PARTITIONS}")
    plan = _try_plan(workload, resources, strategy, num_partitions)
    if plan is not None:
        return plan
    smallest = _smallest_budget(workload, resources, strategy, num_partitions)
    with_partitions = f" in {num_partitions} partitions" if num_partitions else ""
    raise MemoryLimitError(
        f"shuffling {format_bytes(workload.total_bytes)}{with_partitions} does not fit into a memory limit of "
        f"{format_bytes(resources.budget_bytes + resources.other_bytes)}; the smallest that works is "
        f"{format_bytes((smallest + resources.other_bytes) * 1.01)}"
        + (", or ask for more partitions" if num_partitions else "")
    )


def _try_plan(
    workload: Workload, resources: Resources, strategy: str, num_partitions: int | None
) -> ShufflePlan | None:
    usable = resources.budget_bytes * USABLE_PERCENT // 100
    cpus = resources.num_cpus
    total = max(workload.total_bytes, 1)
    row_group = _clamp(usable // (16 * cpus), MIN_ROW_GROUP_BYTES, MAX_ROW_GROUP_BYTES)

    partitions = num_partitions or _fewest_partitions(workload, usable, cpus, row_group)
    reduce_peak = _reduce_peak(workload, partitions, cpus, row_group)
    split = _choose_split(workload, usable, cpus)
    map_memory = _map_memory(split)
    map_peak = cpus * (split + map_memory)
    if max(reduce_peak, map_peak) > usable:
        return None

    splits = max(1, _ceil_div(total, split))
    wanted_factor = _clamp(_ceil_div(GOOD_SLICE_BYTES * partitions, split), 2, max(2, splits))
    factor = min(wanted_factor, (usable - cpus * map_memory) // (_PUSH_BLOCKS * split))
    spilled = max(0, total + cpus * map_memory - usable)
    chosen, why = _choose_strategy(strategy, split // partitions, spilled, factor)
    if chosen == "push" and factor < 2:
        return None
    push_peak = cpus * map_memory + _PUSH_BLOCKS * factor * split if chosen == "push" else 0
    return ShufflePlan(
        strategy=chosen,
        why=why,
        num_splits=splits,
        num_partitions=partitions,
        split_bytes=split,
        partition_bytes=_ceil_div(total, partitions),
        row_group_bytes=row_group,
        round_size=factor if chosen == "push" else splits,
        merge_factor=factor if chosen == "push" else 1,
        map_memory_bytes=map_memory,
        reduce_memory_bytes=_reduce_memory(workload, partitions, row_group),
        peak_bytes=min(resources.budget_bytes, max(map_peak, reduce_peak, push_peak) + total),
        spilled_bytes=spilled,
        max_partition_bytes=max(
            _skewed(workload, partitions),
            workload.max_row_bytes,
            _largest_partition(workload, usable - cpus * (row_group + BUFFER_BYTES), cpus, cpus),
        ),
        max_whole_bytes=_largest_partition(workload, usable - row_group - BUFFER_BYTES, 1, 0),
        reduce_percent=_reduce_percent(workload),
    )


def _choose_strategy(strategy: str, slice_bytes: int, spilled: int, factor: int) -> tuple[str, str]:
    if strategy != "auto":
        return strategy, "asked for"
    if spilled == 0:
        return "simple", "everything stays in memory, so merging would only copy"
    if slice_bytes >= GOOD_SLICE_BYTES:
        return "simple", f"slices of {format_bytes(slice_bytes)} are read from disk at full rate"
    if factor < 2:
        return "simple", "no memory to merge in"
    return "push", f"slices of {format_bytes(slice_bytes)} are too small to read one by one"


def _fewest_partitions(workload: Workload, usable: int, cpus: int, row_group: int) -> int:
    """The fewest partitions whose reduces fit, and at least two per CPU where the data is worth it."""
    total = max(workload.total_bytes, 1)
    for_parallelism = min(2 * cpus, _ceil_div(total, MIN_SPLIT_BYTES))
    for_size = _ceil_div(total, max(MAX_PARTITION_BYTES, workload.max_row_bytes))
    least = min(max(for_parallelism, for_size), MAX_PARTITIONS)
    return least + bisect.bisect_left(
        range(least, MAX_PARTITIONS),
        True,
        key=lambda count: _reduce_peak(workload, count, cpus, row_group) <= usable,
    )


def _choose_split(workload: Workload, usable: int, cpus: int) -> int:
    """The largest split with which maps take half of the memory, and a round of two merges all of it."""
    room = usable - cpus * BUFFER_BYTES
    for_maps = room * 100 // (2 * cpus * (100 + MAP_SCRATCH_PERCENT))
    for_merges = room * 100 // (cpus * MAP_SCRATCH_PERCENT + 2 * 100 * _PUSH_BLOCKS)
    for_parallelism = _ceil_div(max(workload.total_bytes, 1), 4 * cpus)
    # A map holds a row as a whole, however large it is.
    whole = max(workload.max_row_bytes, workload.max_item_bytes)
    least, most = max(MIN_SPLIT_BYTES, whole), max(MAX_SPLIT_BYTES, whole)
    return _clamp(min(for_maps, for_merges, for_parallelism), least, most)


def _map_memory(split: int) -> int:
    return split * MAP_SCRATCH_PERCENT // 100 + BUFFER_BYTES


def _reduce_peak(workload: Workload, partitions: int, cpus: int, row_group: int) -> int:
    slices = max(_skewed(workload, partitions), workload.max_row_bytes)
    running = min(cpus, partitions)
    prefetched = min(cpus, partitions - running)
    return (running + prefetched) * slices + running * _reduce_memory(
        workload, partitions, row_group
    )


def _reduce_memory(workload: Workload, partitions: int, row_group: int) -> int:
    rows = _ceil_div(max(workload.num_rows, 1) * SKEW_PERCENT, 100 * partitions)
    finishing = _skewed(workload, partitions) * workload.reduce_percent // 100
    return rows * (ENTRY_BYTES + workload.reduce_row_bytes) + finishing + row_group + BUFFER_BYTES


def _reduce_percent(workload: Workload) -> int:
    """Working memory of a reduce as a share of its partition: the rows are taken to be as large as on average."""
    row_bytes = max(workload.num_rows, 1) * (ENTRY_BYTES + workload.reduce_row_bytes)
    return workload.reduce_percent + _ceil_div(100 * row_bytes, max(workload.total_bytes, 1))


def _largest_partition(workload: Workload, room: int, running: int, prefetched: int) -> int:
    """The largest partition that so many reduces can have at once, in memory beside their buffers."""
    return (
        max(0, room) * 100 // (100 * (running + prefetched) + running * _reduce_percent(workload))
    )


def _skewed(workload: Workload, partitions: int) -> int:
    return _ceil_div(max(workload.total_bytes, 1) * SKEW_PERCENT, 100 * partitions)


def _smallest_budget(
    workload: Workload, resources: Resources, strategy: str, num_partitions: int | None
) -> int:
    low, high = resources.budget_bytes, 2 * resources.budget_bytes + 1
    while (
        _try_plan(workload, Resources(high, resources.num_cpus), strategy, num_partitions) is None
    ):
        low, high = high, 2 * high
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        fits = _try_plan(workload, Resources(middle, resources.num_cpus), strategy, num_partitions)
        low, high = (low, middle) if fits is not None else (middle, high)
    return high


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
