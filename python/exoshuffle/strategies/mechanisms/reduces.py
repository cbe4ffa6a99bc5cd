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

On several nodes each has a range of the partitions (``node_ranges``), whose reduces run there if that is possible. So a
node fetches no slices of others. Reduces whose results are streams run anywhere: their consumer takes one partition
after the other, and the nodes would work one after the other, too.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from exoshuffle.futures import Column, Ref, Refs, get
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
from exoshuffle.plan.memory import map_scratch_bytes
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.mechanisms.dealing import dealt, max_ahead
from exoshuffle.strategies.mechanisms.node_ranges import Reading, by_node, node_ranges
from exoshuffle.strategies.mechanisms.partition_sizes import (
    large_partitions,
    maps_of,
    partition_bytes,
)
from exoshuffle.strategies.mechanisms.speculation import num_cpus
from exoshuffle.strategies.task_set import ManyResults, TaskSet, functions_bytes, stage

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
    ranges = node_ranges(plan.num_partitions)
    yield from run_readings(tasks, [Reading(each, blocks, num_merged) for each in ranges], plan)


def run_readings(tasks: TaskSet, readings: Sequence[Reading], plan: ShufflePlan) -> Iterator[Ref]:
    """Does as ``run_reduces``, where ranges of partitions have their own blocks; a node may have several in a row."""
    totals: list[int] = []
    for _, together in itertools.groupby(readings, key=lambda reading: id(reading.blocks)):
        same = list(together)
        partitions = range(same[0].partitions.start, same[-1].partitions.stop)
        totals += partition_bytes(tasks, same[0].blocks, partitions)
    runs = [
        itertools.chain.from_iterable(
            _reduces_at(tasks, reading, plan, totals) for reading in of_node
        )
        for of_node in by_node(readings)
    ]
    if len(runs) == 1 or _makes_streams(tasks):
        yield from itertools.chain.from_iterable(runs)
    else:
        yield from dealt(runs, max_ahead(num_cpus()))


def _reduces_at(
    tasks: TaskSet, reading: Reading, plan: ShufflePlan, totals: Sequence[int]
) -> Iterator[Ref]:
    """Submits the reduces of a node; ``totals`` has the bytes of all partitions."""
    num_merged = reading.num_merged or [1] * len(reading.blocks)
    sizes = dict(zip(reading.partitions, totals[reading.partitions.start :], strict=False))
    large = large_partitions(reading.blocks, plan, sizes, maps_of(num_merged, plan))
    node = None if _makes_streams(tasks) else reading.where.node
    yield from _reduces(tasks, reading.blocks, plan, sizes, large, node)


def _makes_streams(tasks: object) -> bool:
    return isinstance(tasks, ManyResults) and tasks.reduce_returns == "streaming"


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
    sizes: Mapping[int, int],
    large: Mapping[int, Large],
    node: str | None = None,
) -> Iterator[Ref]:
    """Submits the reduces of partitions of these sizes, in their order."""
    run_reduce = stage(tasks, "reduce", memory=plan.reduce_memory_bytes, node=node)
    more = functions_bytes(tasks, "reduce")
    for partition, num_bytes in sizes.items():
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
            run = stage(division.tasks, "reduce", memory=needed)
            yield run.remote(number, _column(large, piece))
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
    sizes = dict(enumerate(partition_bytes(tasks, blocks, range(plan.num_partitions))))
    again.tasks.check(get([block[plan.num_partitions] for block in blocks]))
    parts = {
        number: dataclasses.replace(
            part, level=large.level + 1, stuck=large.stuck + 1 if _is_whole(part, large) else 0
        )
        for number, part in large_partitions(
            blocks, plan, sizes, maps_of([1] * len(blocks), plan)
        ).items()
    }
    yield from _reduces(tasks, blocks, plan, sizes, parts)


def _is_whole(part: Large, large: Large) -> bool:
    """Whether the division was in vain; a division that was meant to make one part is not."""
    is_most = 100 * part.num_bytes > STUCK_PERCENT * large.num_bytes
    return is_most and part.plan.num_partitions > 1


def _column(large: Large, indices: Sequence[int]) -> Column:
    """Returns some of the slices of a large partition."""
    firsts = large.blocks.firsts
    blocks = Refs((large.blocks[i] for i in indices), (firsts[i] for i in indices))
    return blocks.column(large.partition)


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
