"""How a partition that is too large is shuffled again: its inputs, the sampled keys, and the plan.

Source: as of ``reduces``, which runs these shuffles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from exoshuffle.futures import Column, Refs, get
from exoshuffle.plan.division import STUCK_PERCENT, Large, Reshuffle
from exoshuffle.plan.memory import map_scratch_bytes
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.task_set import stage

#: A divided partition has so many parts that each holds a third of the limit. Then few have to be divided again, and a
#: key or two in a part of their own are seen to be such.
PARTS_PER_LIMIT = 3
MIN_PARTS = 8
MAX_PARTS = 256
#: Keys sampled for each part, from at most this many inputs, as for the whole shuffle.
SAMPLES_PER_PART = 400
SAMPLED_INPUTS = 16


def is_whole(part: Large, large: Large) -> bool:
    """Whether the division was in vain; a division that was meant to make one part is not."""
    is_most = 100 * part.num_bytes > STUCK_PERCENT * large.num_bytes
    return is_most and part.plan.num_partitions > 1


def column_of(large: Large, indices: Sequence[int]) -> Column:
    """Returns some of the slices of a large partition."""
    firsts = large.blocks.firsts
    blocks = Refs((large.blocks[i] for i in indices), (firsts[i] for i in indices))
    return blocks.column(large.partition)


def sampled_keys(again: Reshuffle, inputs: Sequence[Column], plan: ShufflePlan) -> list[bytes]:
    """Returns sampled keys; each input is numbered as the map that will get it."""
    run = stage(again.tasks, "sample", memory=plan.map_memory_bytes)
    step = max(1, len(inputs) // SAMPLED_INPUTS)
    chosen = range(0, len(inputs), step)
    num_rows = max(16, SAMPLES_PER_PART * plan.num_partitions // len(chosen))
    samples: list[bytes] = get([run.remote(index, inputs[index], num_rows) for index in chosen])
    return samples


def plan_of(again: Reshuffle, large: Large, runs: Sequence[Sequence[int]]) -> ShufflePlan:
    """Returns the plan of a partition's own shuffle. A slice of a merged block may be larger than a split."""
    plan = large.plan
    wanted = PARTS_PER_LIMIT * large.num_bytes // max(plan.max_partition_bytes, 1)
    num_partitions = again.num_partitions or max(MIN_PARTS, min(wanted, MAX_PARTS))
    largest = max(sum(large.sizes[index] for index in indices) for indices in runs)
    # The memory that a map of the whole shuffle set apart included the rows that it read; this one has them in its
    # arguments.
    memory = max(map_scratch_bytes(largest), plan.map_memory_bytes - largest)
    return dataclasses.replace(
        plan,
        num_splits=len(runs) * again.num_sides,
        num_partitions=num_partitions,
        first_partition=0,
        map_memory_bytes=memory,
    )
