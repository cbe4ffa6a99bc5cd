"""Decides how large splits and partitions may be: the memory model of a plan, by integer arithmetic alone.

The model. c tasks run at once; blocks and working memory share one budget, of which a plan uses T.

* A map of a split of q bytes works in ``MAP_SCRATCH`` · q (decoded columns, read windows, partition numbers) and makes
  a block of q. Running maps take c · q · (1 + MAP_SCRATCH); everything else in T may hold finished blocks, unspilled.
  Where pages are so large, or columns so many, that reading itself takes much memory, fewer maps run at once: each sets
  its memory apart.
* ``reduce_memory`` has the memory of reduces: c run, and the slices of c more are prefetched.
* Where that does not fit, because single rows are large, c is less than the number of CPUs (``planner``). Then tasks
  set so much apart that no more than c have room, and no slices are prefetched.
* Reduces pin the map outputs that are still in memory, so their other memory is there only if maps have left it free.
  So maps set as much apart as the reduces will need. Without that, results that become blocks were spilled in the place
  of map outputs. It was 5.7 GB instead of 3.2 GB for 4 GB taken as batches within 2 GB. And reduces that take much
  memory ran one at a time.
"""

from __future__ import annotations

import bisect
import functools
import math
import sys

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.plan.reduce_memory import (
    largest_at_once,
    largest_partition,
    reduce_buffers,
    reduce_memory,
    reduce_peak,
    reduce_percent,
)
from exoshuffle.plan.workload import (
    BUFFER_BYTES,
    FREE_COLUMNS,
    Resources,
    Workload,
    ceil_div,
)

#: Working memory of a map as a share of its split.
MAP_SCRATCH_PERCENT = 160
#: Share of the budget that a plan may fill; the rest absorbs estimates that are too low.
USABLE_PERCENT = 80
#: Share of the budget for one task that finishes a large group while little else is done. Its memory is known well; the
#: rest of the budget is for a few blocks of its result.
ALONE_PERCENT = 90
MAX_SPLIT_BYTES = 32_000_000
MIN_SPLIT_BYTES = 1_000_000
#: A task should have at least so many bytes of each of many columns, where there is memory for it. Sorting 100 rows of
#: 10,000 columns in eight splits decoded all pages eight times.
WIDE_COLUMN_BYTES = 1_000
#: Sorting 4 GB within 2 GB took 14.9-15.9 s with partitions of 64 MB, and 11.6-13.1 s with this size (3 runs each).
MAX_PARTITION_BYTES = 32_000_000
#: DuckDB makes row groups of about this size of 100-byte rows. While one is written the next is encoded; 32 MB stalled
#: the encoder.
MAX_ROW_GROUP_BYTES = 12_000_000
MIN_ROW_GROUP_BYTES = 2_000_000
#: The bytes of a slice beside its rows: the header that says whose rows they are, and its entry in the block's index.
SLICE_BYTES = 56
#: Share of the memory for the headers of slices in the blocks of maps that run. It bounds the number of partitions.
HEADERS_PERCENT = 25
#: The bytes that the program holds for each map: 20,000 maps of 100 tiny slices took 50 MB of its heap. A reduce, of
#: which few are awaited at a time, takes a tenth.
TASK_BYTES = 2_500
#: Share of a node's memory that the program may take for tasks. Beyond that splits and partitions grow. 1 PB on 400
#: nodes of 82 GB would be 31 million maps of ``MAX_SPLIT_BYTES``, for which the program had no memory.
TASKS_PERCENT = 1
#: A slice of a map should have a page: the disk reads no less. From 250 GB on, splits and partitions grow for that.
PAGE_BYTES = 4096
#: Where buffers of many columns are most of a reduce's memory: all of its memory, with rows, as a share of the buffers.
WIDE_PERCENT = 125
#: The same where partitions are finished as tables: two of 10,000 columns at once had 605 MB within 600.
TABLES_PERCENT = 150
#: Where rounds of maps are merged, a round holds the outputs of its maps, and inputs and outputs of the merges before.
ROUND_BLOCKS = 3
#: A plan leaves some of the budget. Reduces may count on this share of that, by where results go. The store spares the
#: newest blocks up to half of that. So 4 GB taken as batches spilled 3.1 GB instead of 3.3, in 0.97 of the time (six
#: pairs).
HEADROOM_PERCENT = {"files": 100, "file": 50, "batches": 50, "blocks": 0}


@dataclass(frozen=True)
class Sizes:
    """The sizes that fit, for all strategies.

    Attributes:
        usable_bytes: The bytes that the plan may fill.
        num_splits: M.
        num_partitions: R.
        split_bytes: Size of a split.
        row_group_bytes: Rows that a writer collects before it writes them.
        large_partition_bytes: The largest size that a partition is assumed to have.
        map_memory_bytes: Working memory of a map.
        reduce_memory_bytes: Working memory of a reduce.
        map_peak_bytes: Memory of all maps that run at once, with their blocks.
        reduce_peak_bytes: Memory of all reduces that run at once, with their slices and results that nobody took yet.
        left_free_bytes: Memory that maps should leave free for these reduces.
        max_partition_bytes: Largest partition whose reduces can run at once.
        max_whole_bytes: Largest partition whose reduce can run while little else does.
        reduce_percent: Working memory of a reduce as a share of its partition, beside buffers.
        buffer_bytes: Memory of a reduce beside its partition, however small that is.
        alone_bytes: Memory, beside these buffers, of a reduce that reads slices a run at a time while little else runs.
        apart_bytes: Memory that a task with its rows sets apart at least, so that no more run than planned.
    """

    usable_bytes: int
    num_splits: int
    num_partitions: int
    split_bytes: int
    row_group_bytes: int
    large_partition_bytes: int
    map_memory_bytes: int
    reduce_memory_bytes: int
    map_peak_bytes: int
    reduce_peak_bytes: int
    left_free_bytes: int
    max_partition_bytes: int
    max_whole_bytes: int
    reduce_percent: int
    buffer_bytes: int
    alone_bytes: int
    apart_bytes: int


def choose_sizes(
    workload: Workload, resources: Resources, num_partitions: int | None
) -> Sizes | None:
    """Returns sizes with which maps and reduces fit; None if there are none."""
    usable = resources.budget_bytes * USABLE_PERCENT // 100
    cpus = resources.num_cpus
    total = max(workload.total_bytes, 1)
    row_group = _clamp(usable // (16 * cpus), MIN_ROW_GROUP_BYTES, MAX_ROW_GROUP_BYTES)
    buffers = reduce_buffers(workload, row_group)
    reducing = _reduces_at_once(workload, usable, cpus, buffers)
    fewest = _fewest_partitions(workload, resources, reducing, row_group)
    partitions = num_partitions or fewest
    if partitions > most_partitions(resources):
        return None
    # Larger partitions than these are read a run of slices at a time.
    held = max(partitions, fewest) if workload.is_passed_on else partitions
    split = _choose_split(workload, usable, cpus, _grown_bytes(total, resources))
    map_memory = map_scratch_bytes(split) + _extra_bytes(workload)
    maps_at_once = _maps_at_once(workload, usable, cpus, split + map_memory)
    if workload.num_items is not None:
        maps_at_once = max(1, min(maps_at_once, workload.num_items))
    ahead = min(reducing, resources.num_ahead)
    at_once = largest_at_once(workload, usable - reducing * buffers, reducing, ahead)
    peak_bytes = reduce_peak(workload, held, reducing, row_group, ahead)
    headroom = (resources.budget_bytes - usable) * HEADROOM_PERCENT[workload.results] // 100
    sizes = Sizes(
        usable_bytes=usable,
        num_splits=max(1, ceil_div(max(total, workload.read_bytes), split)),
        num_partitions=partitions,
        split_bytes=split,
        row_group_bytes=row_group,
        large_partition_bytes=largest_partition(workload, held),
        map_memory_bytes=map_memory,
        reduce_memory_bytes=reduce_memory(workload, held, row_group),
        map_peak_bytes=maps_at_once * (split + map_memory),
        reduce_peak_bytes=peak_bytes,
        left_free_bytes=max(0, peak_bytes - headroom),
        max_partition_bytes=max(largest_partition(workload, held), at_once),
        max_whole_bytes=largest_at_once(workload, usable - buffers, 1, 0),
        reduce_percent=reduce_percent(workload),
        buffer_bytes=buffers,
        alone_bytes=max(0, resources.budget_bytes * ALONE_PERCENT // 100 - buffers - split),
        apart_bytes=resources.apart_bytes,
    )
    return sizes if max(sizes.map_peak_bytes, sizes.reduce_peak_bytes) <= usable else None


def budget_alone(num_bytes: int) -> int:
    """Returns the budget that leaves one group so many bytes while little else is done; see ``Sizes.alone_bytes``."""
    buffers = MAX_ROW_GROUP_BYTES + BUFFER_BYTES
    return ceil_div((num_bytes + buffers) * 100, ALONE_PERCENT)


def _grown_bytes(total: int, resources: Resources) -> int:
    """Returns the size of splits and partitions with which slices have a page, and the program has memory for tasks."""
    room = max(0, resources.budget_bytes) // resources.num_nodes * TASKS_PERCENT // 100
    return max(math.isqrt(total * PAGE_BYTES), ceil_div(total, max(1, room // TASK_BYTES)))


def most_partitions(resources: Resources) -> int:
    """Returns how many slices the blocks of maps that run at once can have; no more than numbers of a range."""
    usable, cpus = resources.budget_bytes * USABLE_PERCENT // 100, resources.num_cpus
    return _clamp(usable * HEADERS_PERCENT // 100 // (cpus * SLICE_BYTES), 1, sys.maxsize)


def _worthwhile_bytes(workload: Workload) -> int:
    """Returns the size that is worth a task: more for many columns, each of which costs a task some microseconds."""
    wide = max(0, workload.num_columns - FREE_COLUMNS) * WIDE_COLUMN_BYTES
    return max(MIN_SPLIT_BYTES, wide)


def map_scratch_bytes(split_bytes: int) -> int:
    """Returns the working memory of a map of a split of this size."""
    return split_bytes * MAP_SCRATCH_PERCENT // 100 + BUFFER_BYTES


def _extra_bytes(workload: Workload) -> int:
    """Returns the memory of a map that its input causes: large pages, or many columns."""
    return workload.decoding_bytes + workload.buffer_bytes - BUFFER_BYTES


def _maps_at_once(workload: Workload, usable: int, cpus: int, each: int) -> int:
    """Returns how many maps run at once: one per CPU, or fewer where reading takes much memory for any split."""
    return cpus if _extra_bytes(workload) == 0 else max(1, min(cpus, usable // each))


def _reduces_at_once(workload: Workload, usable: int, cpus: int, buffers: int) -> int:
    """Returns how many reduces run at once: one per CPU, or fewer where the buffers of many columns fill the memory."""
    if workload.num_columns <= FREE_COLUMNS:
        return cpus
    percent = TABLES_PERCENT if workload.needs_tables else WIDE_PERCENT
    return max(1, min(cpus, usable * 100 // (percent * buffers)))


def map_memory_bytes(sizes: Sizes, cpus: int, held_bytes: int) -> int:
    """Returns the memory that a map sets apart: its working memory, or its part of the memory to be left free, if more.

    Where fewer maps are to run than there are CPUs, it is so much that others have no room.

    ``held_bytes`` is the size of the blocks that all tasks hold while maps run.
    """
    left_free = min(sizes.left_free_bytes, sizes.usable_bytes - held_bytes)
    apart = min(cpus * sizes.apart_bytes, sizes.usable_bytes - held_bytes)
    return max(sizes.map_memory_bytes, left_free // cpus, apart // cpus)


def unspilled_bytes(sizes: Sizes, resources: Resources) -> int:
    """Returns the bytes that blocks and tasks may have before blocks are spilled.

    Spilling begins when the whole budget is as full as a plan may fill its part; worker processes fill all of theirs.
    """
    return max(0, sizes.usable_bytes - resources.workers_bytes * (100 - USABLE_PERCENT) // 100)


def _fewest_partitions(workload: Workload, resources: Resources, cpus: int, row_group: int) -> int:
    """Returns the fewest partitions whose reduces fit, ``cpus`` at once, and two per CPU where the data is worth it.

    It is up to twice as many where map outputs in memory would leave no room for reduces to run at once. Without that,
    a reduce took a third of the budget. Then grouping 40 million rows within 2 GB used one of two CPUs for 12 s (now
    8).
    """
    usable = resources.budget_bytes * USABLE_PERCENT // 100
    total, most = max(workload.total_bytes, 1), most_partitions(resources)
    large = max(MAX_PARTITION_BYTES, _grown_bytes(total, resources), workload.max_row_bytes)
    worthwhile = ceil_div(total, _worthwhile_bytes(workload))
    least = min(max(min(2 * cpus, worthwhile), ceil_div(total, large)), most)
    counts = range(least, most)
    ahead = resources.num_ahead
    peak = functools.partial(reduce_peak, workload, cpus=cpus, row_group=row_group, ahead=ahead)
    fit, half = (
        # Negated, since peaks fall and bisection needs ascending numbers.
        least + bisect.bisect_left(counts, -room, key=lambda count: -peak(count))
        for room in (usable, usable // 2)
    )
    return max(fit, min(half, 2 * fit, worthwhile, most))


def _choose_split(workload: Workload, usable: int, cpus: int, grown: int) -> int:
    """Returns the largest split with which maps take half of the memory, and a round of two merges all of it.

    It is not larger than ``MAX_SPLIT_BYTES``, or more if ``grown`` is, or if readers decode more at once.
    """
    # Where reading takes much memory, fewer maps of larger splits run: each decodes the whole page that its rows are
    # in. A page of 130 MB in splits of 1 MB, sorted within 512 MB, was decoded 200 times.
    buffers = BUFFER_BYTES + _extra_bytes(workload)
    running = _maps_at_once(workload, usable, cpus, 2 * buffers)
    room = max(0, usable - running * buffers)
    for_maps = room * 100 // (2 * running * (100 + MAP_SCRATCH_PERCENT))
    for_merges = room * 100 // (running * MAP_SCRATCH_PERCENT + 2 * 100 * ROUND_BLOCKS)
    # A map that leaves little of its input, such as one that aggregates, is not cut smaller for that.
    for_parallelism = ceil_div(max(workload.total_bytes, workload.read_bytes, 1), 4 * cpus)
    for_parallelism = max(for_parallelism, _worthwhile_bytes(workload), workload.decoded_bytes)
    whole = max(workload.max_row_bytes, workload.max_item_bytes)  # a map holds it, however large
    least = max(MIN_SPLIT_BYTES, whole)
    most = max(MAX_SPLIT_BYTES, grown, whole, workload.decoded_bytes)
    return _clamp(min(for_maps, for_merges, for_parallelism), least, most)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
