"""Computes the memory of reduces, by integer arithmetic alone; ``memory`` has the memory that maps leave for them.

The model. Some partitions are larger than the mean. A reduce of a partition holds its slices, sort entries of
``ENTRY_BYTES`` per row and a writer. If the result becomes a block, the reduce may have to make it as an Arrow stream
first. And finished blocks wait in the store until somebody takes them.
"""

from __future__ import annotations

import math

from exoshuffle.plan.workload import BUFFER_BYTES, Workload, ceil_div, table_bytes

#: A partition may be this large, as a share of the mean: boundaries come from a sample.
SKEW_PERCENT = 130
#: A partition that is larger by chance is so by less than so many standard deviations. That, and knowing which results
#: are made in their place, leaves blocks more memory. 4 GB in random order within 2 GB took 0.98 of the time.
DEVIATIONS = 6
#: Bytes per row while sorting: a prefix of 8 or 16 and a location of 8, sorted in place.
ENTRY_BYTES = 24
#: Size of the Arrow stream of a result that is copied into its block: of dictionaries, nested columns or records.
STREAM_PERCENT = 100
#: Buffers beside the stream, where nothing is written to files.
STREAM_BUFFER_BYTES = 8_000_000


def reduce_peak(workload: Workload, partitions: int, cpus: int, row_group: int, ahead: int) -> int:
    """Returns the peak of all reduces that run at once, with their slices and results that nobody took yet.

    Args:
        workload: The rows to shuffle, in numbers.
        partitions: Number of partitions.
        cpus: Reduces that run at once.
        row_group: Rows that a writer collects before it writes them.
        ahead: Reduces whose slices are prefetched while others run.
    """
    if workload.results != "files":
        writer = row_group + workload.buffer_bytes if workload.results == "file" else 0
        return _blocks_peak(workload, partitions, cpus, ahead) + writer
    running = min(cpus, partitions)
    prefetched = min(ahead, partitions - running)
    slices = (running + prefetched) * largest_partition(workload, partitions)
    return slices + running * reduce_memory(workload, partitions, row_group)


def _blocks_peak(workload: Workload, partitions: int, cpus: int, ahead: int) -> int:
    """Returns the peak of reduces whose results are blocks.

    It counts reduces that run or are prefetched, and results that cannot be spilled. A program that takes results one
    by one has one reduce more than CPUs submitted, and two results in hand.
    """
    is_taken = workload.results in ("batches", "file")
    submitted = min(cpus + (min(ahead, 1) if is_taken else ahead), partitions)
    results = min(cpus + 2 + min(ahead, 1) if is_taken else cpus, partitions)
    reducing = largest_partition(workload, partitions) + reduce_memory(workload, partitions, 0)
    return submitted * reducing + results * _skewed(workload, workload.all_result_bytes, partitions)


def reduce_memory(workload: Workload, partitions: int, row_group: int) -> int:
    """Returns the working memory of the reduce of a large partition."""
    rows = _skewed(workload, workload.num_rows, partitions)
    finishing = largest_partition(workload, partitions) * workload.reduce_percent // 100
    finishing += rows * (ENTRY_BYTES + workload.reduce_row_bytes)
    finishing += _skewed(workload, _streamed_bytes(workload), partitions) * STREAM_PERCENT // 100
    finishing = max(finishing, workload.lone_row_bytes - workload.max_row_bytes)
    return finishing + reduce_buffers(workload, row_group)


def reduce_buffers(workload: Workload, row_group: int) -> int:
    """Returns the memory of a reduce beside its partition, however small that is."""
    table = table_bytes(workload.num_columns) if workload.needs_tables else 0
    buffers = workload.buffer_bytes + table
    if workload.results == "files":
        return row_group + buffers
    return STREAM_BUFFER_BYTES + buffers - BUFFER_BYTES


def reduce_percent(workload: Workload) -> int:
    """Returns the working memory of a reduce as a share of its partition, for rows of average size."""
    total = max(workload.total_bytes, 1)
    row_bytes = max(workload.num_rows, 1) * (ENTRY_BYTES + workload.reduce_row_bytes)
    streams = STREAM_PERCENT * _streamed_bytes(workload)
    return workload.reduce_percent + ceil_div(100 * row_bytes + streams, total)


def _streamed_bytes(workload: Workload) -> int:
    """Returns the size of the results that are made as streams before they are copied into blocks."""
    in_place = workload.results == "files" or workload.streams_in_place
    return 0 if in_place else workload.all_result_bytes


def largest_at_once(workload: Workload, room: int, running: int, prefetched: int) -> int:
    """Returns the largest partition that so many reduces can have at once, in memory beside their buffers."""
    results = 0 if workload.results == "files" else 100 * workload.all_result_bytes
    percent = reduce_percent(workload) + ceil_div(results, max(workload.total_bytes, 1))
    return max(0, room) * 100 // (100 * (running + prefetched) + running * percent)


def largest_partition(workload: Workload, partitions: int) -> int:
    """Returns the largest size that a partition is assumed to have."""
    pair_bytes = workload.max_row_bytes + workload.other_row_bytes
    return max(_skewed(workload, workload.total_bytes, partitions), pair_bytes, 1)


def _skewed(workload: Workload, amount: int, partitions: int) -> int:
    """Returns how much of all rows, or of all bytes, a large partition has.

    Partitions differ by chance: the variance of the size of n rows is at most n times their mean size times
    the largest size.
    """
    percent: float = SKEW_PERCENT if partitions > 1 else 100
    if workload.is_even and partitions > 1:
        row = max(1, workload.max_row_bytes)
        deviation = math.sqrt(row * partitions / max(row, workload.total_bytes))
        percent = min(percent, 100 + 100 * DEVIATIONS * deviation)
    return math.ceil(amount * percent / (100 * partitions))
