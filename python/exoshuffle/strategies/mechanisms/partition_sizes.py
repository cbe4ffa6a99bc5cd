"""Asks how large partitions are, and which of them are larger than planned.

Sizes are those of slices as they are kept; no slice is moved. Cost: O(M x R) additions in the program.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence

from exoshuffle.futures import Refs, raise_errors, slice_bytes, wait
from exoshuffle.plan.division import DividingTaskSet, Large
from exoshuffle.plan.plan import ShufflePlan


def partition_bytes(tasks: object, blocks: Refs, partitions: range) -> list[int]:
    """Returns the bytes of these partitions; returns zeros, and awaits nothing, if the task set cannot divide.

    Raises:
        TaskError: A block has failed.
    """
    totals = [0] * len(partitions)
    if isinstance(tasks, DividingTaskSet):
        _await(blocks)
        for block, first in zip(blocks, blocks.firsts, strict=True):
            sizes = slice_bytes([block])[0][partitions.start - first : partitions.stop - first]
            totals = list(map(operator.add, totals, sizes))
    return totals


def maps_of(num_merged: Sequence[int], plan: ShufflePlan) -> tuple[range, ...]:
    """Returns the maps that each block comes from; nothing if these are not all maps."""
    ends = list(itertools.accumulate(num_merged))
    starts = [0, *ends[:-1]]
    return tuple(map(range, starts, ends)) if ends[-1:] == [plan.num_splits] else ()


def large_partitions(
    blocks: Refs, plan: ShufflePlan, sizes: Mapping[int, int], maps: tuple[range, ...]
) -> dict[int, Large]:
    """Returns the large ones among partitions of these sizes, by number."""
    limit = plan.max_partition_bytes
    columns: dict[int, list[int]] = {number: [] for number, size in sizes.items() if size > limit}
    for block, first in zip(blocks, blocks.firsts, strict=True) if columns else ():
        of_block = slice_bytes([block])[0]
        for number, column in columns.items():
            column.append(of_block[number - first])
    return {
        number: Large(number, blocks, tuple(column), plan, maps=maps)
        for number, column in columns.items()
    }


def _await(blocks: Refs) -> None:
    """Waits for blocks; raises the error of a failed block at once, or soon."""
    pending = list(blocks)
    while pending:
        done, pending = wait(pending, num_ready=1 + len(pending) // 16)
        raise_errors(done)
