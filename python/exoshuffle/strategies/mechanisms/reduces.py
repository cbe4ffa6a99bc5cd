"""Submits the reduces of a shuffle, for every strategy: one per partition, and divides partitions that are too large.

A plan knows how large partitions are on average. A partition that is far larger (a hot key, a sample that misled) would
break the memory limit. So sizes are asked for once the blocks are there, and the task set chooses what to do about a
large partition (``division``). It shuffles the partition again on its own, and so on until its parts are small, or
streams it, or refuses it.

Source: Wang's dissertation, §3.3.2.5, listing 5. There the reduce itself cuts its list of inputs in half, which leaves
rows of equal key in different parts. Here rows are assigned anew, so the results are those of more partitions.

Guarantee: results come in the order of the partitions, from ``plan.first_partition`` on, and the results of a divided
partition in its place. For a task set that cannot divide, no sizes are asked for, and its reduces are submitted at
once. Otherwise the blocks are awaited first; no reduce could start before.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from exoshuffle.futures import Column, Ref, Refs, get, raise_errors, slice_bytes, wait
from exoshuffle.plan.division import (
    STUCK_PERCENT,
    DividingTaskSet,
    Division,
    Functions,
    Large,
    Pieces,
    Reduces,
    Rejoined,
    Reshuffle,
    Streamed,
)
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.task_set import TaskSet, functions_bytes, stage

#: A divided partition has so many parts that each holds a third of the limit. Then few have to be divided again, and a
#: key or two in a part of their own are seen to be such.
PARTS_PER_LIMIT = 3
MIN_PARTS = 8
MAX_PARTS = 256
#: Keys sampled for each part, from at most this many inputs, as for the whole shuffle.
SAMPLES_PER_PART = 400
SAMPLED_INPUTS = 16


def run_reduces(
    tasks: TaskSet, blocks: Refs, plan: ShufflePlan, num_merged: Sequence[int] = ()
) -> Iterator[Ref]:
    """Submits the reduces and yields the references to their results, partition by partition.

    Args:
        tasks: The task set; if it has ``divide`` (``DividingTaskSet``), that is asked about partitions larger than
            ``plan.max_partition_bytes``.
        blocks: The blocks that the maps or merges made, in their order.
        plan: The plan of the shuffle.
        num_merged: The number of maps of each block; default: one each, if there are as many blocks as maps. Where it
            is known, tasks that read a large partition in pieces can tell whether anything is missing.

    Raises:
        TaskError: A block has failed, if sizes are needed.
        LargeGroupError: A partition cannot be divided, nor reduced as it is.

    Cost: O(M x R) additions in the program, where sizes are asked for; the program holds O(M + R) sizes.
    """
    totals = partition_bytes(tasks, blocks, plan)
    large = _large(blocks, plan, totals, _maps(num_merged or [1] * len(blocks), plan))
    yield from _reduces(tasks, blocks, plan, totals, large)


def reduce_states(
    tasks: Functions, states: deque[Ref], sizes: Sequence[int], plan: ShufflePlan
) -> Iterator[Ref]:
    """Does as ``run_reduces`` with partitions in one piece each; takes the states, so that each ends with its reduce.

    Args:
        tasks: The task set that has put slices together to states.
        states: One state for each partition.
        sizes: Bytes of each state; zeros where nobody knows.
        plan: The plan of the shuffle.
    """
    run_reduce = stage(tasks, "reduce")
    more = functions_bytes(tasks, "reduce")
    for partition, num_bytes in enumerate(sizes):
        run = run_reduce.options(memory=plan.reduce_memory(num_bytes) + more)
        yield run.remote(partition, Refs([states.popleft()]).column(0))


def _reduces(
    tasks: Reduces,
    blocks: Refs,
    plan: ShufflePlan,
    totals: Sequence[int],
    large: Mapping[int, Large],
) -> Iterator[Ref]:
    run_reduce = stage(tasks, "reduce", memory=plan.reduce_memory_bytes)
    more = functions_bytes(tasks, "reduce")
    for partition, num_bytes in enumerate(totals):
        if partition < plan.first_partition:
            continue
        if partition in large:
            yield from _divided(tasks, large[partition])
            continue
        memory = plan.reduce_memory(num_bytes)
        run = run_reduce
        if memory > plan.reduce_memory_bytes:
            run = run_reduce.options(memory=memory + more)
        yield run.remote(partition, blocks.column(partition))


def _divided(tasks: Reduces, large: Large) -> Iterator[Ref]:
    """Yields the results that take the place of the result of a large partition."""
    assert isinstance(tasks, DividingTaskSet)  # since sizes were asked for
    division: Division = tasks.divide(large)
    memory = large.plan.reduce_memory
    if isinstance(division, Reshuffle):
        yield from _shuffled(division, large)
    elif isinstance(division, Rejoined):
        parts = Refs(_shuffled(division.again, large))
        run = stage(division.tasks, "rejoin", memory=large.plan.reduce_memory_bytes)
        yield run.remote(large.partition, parts.column(0))
    elif isinstance(division, Pieces):
        for number, piece in enumerate(division.pieces):
            needed = memory(sum(large.sizes[index] for index in piece))
            blocks = Refs(large.blocks[index] for index in piece)
            run = stage(division.tasks, "reduce", memory=needed)
            yield run.remote(number, blocks.column(large.partition))
    elif isinstance(division, Streamed):
        needed = division.memory_bytes or large.plan.reduce_memory_bytes
        run = stage(division.tasks, "stream", memory=needed)
        yield run.remote(large.partition, [large.slices(indices) for indices in division.runs])
    else:
        run = stage(tasks, "reduce", memory=memory(large.num_bytes))
        yield run.remote(large.partition, large.blocks.column(large.partition))


def _shuffled(again: Reshuffle, large: Large) -> Iterator[Ref]:
    """Shuffles one partition; the maps take runs of its slices.

    It goes by the simple strategy, for any strategy that made the partition: there are few parts, so slices are large.
    """
    runs = large.runs(large.plan.split_bytes)
    inputs = [_column(large, indices) for indices in runs] * again.num_sides
    plan = _plan(again, large, runs)
    samples = _samples(again, inputs, plan) if again.is_sampled else []
    tasks = again.tasks.assigned(samples, plan.num_partitions)
    run_map = stage(tasks, "map", num_returns=plan.num_partitions + 1, memory=plan.map_memory_bytes)
    blocks = Refs(run_map.remote(index, slices) for index, slices in enumerate(inputs))
    totals = partition_bytes(tasks, blocks, plan)
    again.tasks.check(get([block[plan.num_partitions] for block in blocks]))
    parts = {
        number: dataclasses.replace(
            part, level=large.level + 1, stuck=large.stuck + 1 if _is_whole(part, large) else 0
        )
        for number, part in _large(blocks, plan, totals, _maps([1] * len(blocks), plan)).items()
    }
    yield from _reduces(tasks, blocks, plan, totals, parts)


def _is_whole(part: Large, large: Large) -> bool:
    """Whether the division was in vain; a division that was meant to make one part is not."""
    is_most = 100 * part.num_bytes > STUCK_PERCENT * large.num_bytes
    return is_most and part.plan.num_partitions > 1


def _column(large: Large, indices: Sequence[int]) -> Column:
    return Refs(large.blocks[index] for index in indices).column(large.partition)


def _samples(again: Reshuffle, inputs: Sequence[Column], plan: ShufflePlan) -> list[bytes]:
    """Returns sampled keys; each input is numbered as the map that will get it."""
    run = stage(again.tasks, "sample", memory=plan.map_memory_bytes)
    step = max(1, len(inputs) // SAMPLED_INPUTS)
    chosen = range(0, len(inputs), step)
    num_rows = max(16, SAMPLES_PER_PART * plan.num_partitions // len(chosen))
    samples: list[bytes] = get([run.remote(index, inputs[index], num_rows) for index in chosen])
    return samples


def _plan(again: Reshuffle, large: Large, runs: Sequence[Sequence[int]]) -> ShufflePlan:
    """Returns the plan of a partition's own shuffle. A slice of a merged block may be larger than a split."""
    plan = large.plan
    wanted = PARTS_PER_LIMIT * large.num_bytes // max(plan.max_partition_bytes, 1)
    num_partitions = again.num_partitions or max(MIN_PARTS, min(wanted, MAX_PARTS))
    largest = max(sum(large.sizes[index] for index in indices) for indices in runs)
    return dataclasses.replace(
        plan,
        num_splits=len(runs) * again.num_sides,
        num_partitions=num_partitions,
        first_partition=0,
        map_memory_bytes=plan.map_memory(largest),
    )


def partition_bytes(tasks: object, blocks: Refs, plan: ShufflePlan) -> list[int]:
    """Returns the bytes of each partition; returns zeros, and awaits nothing, if the task set cannot divide.

    Raises:
        TaskError: A block has failed.
    """
    totals = [0] * plan.num_partitions
    if isinstance(tasks, DividingTaskSet):
        _await(blocks)
        for block in blocks:
            totals = list(map(operator.add, totals, slice_bytes([block])[0]))
    return totals


def _maps(num_merged: Sequence[int], plan: ShufflePlan) -> tuple[range, ...]:
    """Returns the maps that each block comes from; nothing if these are not all maps."""
    ends = list(itertools.accumulate(num_merged))
    starts = [0, *ends[:-1]]
    return tuple(map(range, starts, ends)) if ends[-1:] == [plan.num_splits] else ()


def _large(
    blocks: Refs, plan: ShufflePlan, totals: Sequence[int], maps: tuple[range, ...]
) -> dict[int, Large]:
    """Returns the large partitions by number."""
    limit = plan.max_partition_bytes
    sizes: dict[int, list[int]] = {
        number: [] for number, total in enumerate(totals) if total > limit
    }
    for block in blocks if sizes else ():
        of_block = slice_bytes([block])[0]
        for number, column in sizes.items():
            column.append(of_block[number])
    return {
        number: Large(number, blocks, tuple(column), plan, maps=maps)
        for number, column in sizes.items()
    }


def _await(blocks: Refs) -> None:
    """Waits for blocks; raises the error of a failed block at once, or soon."""
    pending = list(blocks)
    while pending:
        done, pending = wait(pending, num_ready=1 + len(pending) // 16)
        raise_errors(done)
