"""Cuts merges into pieces, so that a merge of many blocks needs little memory: buffers of a fixed size.

Source: Riffle §4.1.2 ("Riffle: Optimized Shuffle Service for Large-Scale Data Analytics"). There a merger goes through
the partitions, with a buffer for each input and one for its output. Here a piece is a range of the partitions. A task
reads that range of each block, by few large requests, and its result is as large as what it read.

Guarantee: all groups of a shuffle are cut at the same partitions. So the reduces of a piece read the merges of that
piece, or inputs of those that failed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from exoshuffle.futures import Refs, slice_bytes
from exoshuffle.plan.workload import ceil_div
from exoshuffle.strategies.mechanisms.groups import Group, Source, merge_memory
from exoshuffle.strategies.mechanisms.node_ranges import NodeRange, Reading, node_ranges

#: No piece reads less of a block. Riffle's buffers have 4 MB; a turning disk reads 1.2 MB in the time of a request.
READ_BYTES = 1_000_000
#: Merges that should have room at once: one reads while the other writes.
AT_ONCE = 2
#: Share of the memory for a piece of mean size: some are larger, and one that has no room is not merged.
MEAN_PERCENT = 75


def num_pieces(group_bytes: int, block_bytes: int, num_partitions: int, memory_bytes: int) -> int:
    """Returns how many pieces make merges of a group small enough for the memory, or as small as is worth it.

    Args:
        group_bytes: The bytes of the blocks of a group.
        block_bytes: Those of one block.
        num_partitions: The number of its slices.
        memory_bytes: Memory for the merges that run at once.
    """
    wanted = ceil_div(AT_ONCE * merge_memory([group_bytes]), max(1, memory_bytes))
    return max(1, min(wanted, block_bytes // READ_BYTES, num_partitions))


def group_memory_bytes(pieces: int, memory_bytes: int) -> int:
    """Returns the memory that a group may take in all its pieces, if each has so much."""
    return memory_bytes if pieces == 1 else pieces * memory_bytes * MEAN_PERCENT // 100


def piece_ranges(num_partitions: int, count: int) -> list[range]:
    """Divides partitions into so many ranges of similar length."""
    bounds = [num_partitions * number // count for number in range(count + 1)]
    return list(itertools.starmap(range, itertools.pairwise(bounds)))


def in_pieces(group: Group, ranges: Sequence[range]) -> list[Group]:
    """Returns the group, or its pieces with their sizes; see ``piece_ranges``.

    Cost: as many additions as its blocks have slices, if there are several pieces.
    """
    if len(ranges) == 1:
        return [group]
    totals = [0] * len(ranges)
    for output in group.outputs:
        sizes = slice_bytes([output.block])[0]
        for number, each in enumerate(ranges):
            totals[number] += sum(sizes[each.start : each.stop])
    return [
        Group(group.outputs, partitions=each, num_bytes=total)
        for each, total in zip(ranges, totals, strict=True)
    ]


def piece_readings(
    ranges: Sequence[range], sources: Sequence[Sequence[Source]], num_partitions: int
) -> list[Reading]:
    """Returns what the reduces read, in the order of the partitions.

    Args:
        ranges: The partitions of each piece.
        sources: The blocks of each piece, in the order of the maps.
        num_partitions: The number of all partitions.
    """
    places = node_ranges(num_partitions)
    found: list[Reading] = []
    for mine, blocks in zip(ranges, sources, strict=True):
        refs = Refs((each.block for each in blocks), (each.first for each in blocks))
        num_merged = [each.num_maps for each in blocks]
        for place in places:
            start = max(mine.start, place.partitions.start)
            both = range(start, min(mine.stop, place.partitions.stop))
            if both:
                found.append(Reading(NodeRange(both, place.node), refs, num_merged))
    return found
