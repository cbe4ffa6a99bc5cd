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
from collections.abc import Iterator, Mapping, Sequence

from exoshuffle.futures import Ref, Refs, get
from exoshuffle.plan.division import (
    DividingTaskSet,
    Division,
    Large,
    Pieces,
    Reduces,
    Rejoined,
    Reshuffle,
    Streamed,
)
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.mechanisms.node_ranges import Reading, by_node, node_ranges
from exoshuffle.strategies.mechanisms.partition_sizes import (
    large_partitions,
    maps_of,
    partition_bytes,
)
from exoshuffle.strategies.mechanisms.reduce_copies import (
    ANYWHERE,
    Home,
    ReduceCopies,
    submitted,
)
from exoshuffle.strategies.mechanisms.reduce_turns import copies_of, in_turn, makes_streams
from exoshuffle.strategies.mechanisms.reshuffles import column_of, is_whole, plan_of, sampled_keys
from exoshuffle.strategies.mechanisms.speculation import Speculation
from exoshuffle.strategies.task_set import TaskSet, functions_bytes, stage


def run_reduces(
    tasks: TaskSet,
    blocks: Refs,
    plan: ShufflePlan,
    num_merged: Sequence[int] = (),
    speculation: Speculation | None = None,
) -> Iterator[Ref]:
    """Submits the reduces and yields the references to their results, partition by partition.

    Args:
        tasks: The task set; if it has ``divide`` (``DividingTaskSet``), that is asked about partitions larger than
            ``plan.max_partition_bytes``.
        blocks: The blocks that the maps or merges made, in their order.
        plan: The plan of the shuffle.
        num_merged: The number of maps of each block; default: one each, if there are as many blocks as maps. Where it
            is known, tasks that read a large partition in pieces can tell whether anything is missing.
        speculation: When a slow reduce gets a copy; default: no copies. Results that are streams have none.

    Raises:
        TaskError: A block has failed, if sizes are needed. With speculation: a reduce has failed.
        LargeGroupError: A partition cannot be divided, nor reduced as it is.

    Cost: O(M x R) additions in the program, where sizes are asked for; the program holds O(M + R) sizes.
    """
    ranges = node_ranges(plan.num_partitions)
    readings = [Reading(each, blocks, num_merged) for each in ranges]
    yield from run_readings(tasks, readings, plan, speculation)


def run_readings(
    tasks: TaskSet,
    readings: Sequence[Reading],
    plan: ShufflePlan,
    speculation: Speculation | None = None,
) -> Iterator[Ref]:
    """Does as ``run_reduces``, where ranges of partitions have their own blocks; a node may have several in a row."""
    totals: list[int] = []
    for _, together in itertools.groupby(readings, key=lambda reading: id(reading.blocks)):
        same = list(together)
        partitions = range(same[0].partitions.start, same[-1].partitions.stop)
        totals += partition_bytes(tasks, same[0].blocks, partitions)
    copies = copies_of(tasks, plan, speculation)
    runs: list[Iterator[Ref]] = [
        _reduces_of(tasks, home, plan, totals) for home in _homes(tasks, by_node(readings), copies)
    ]
    if makes_streams(tasks):
        runs = [itertools.chain.from_iterable(runs)]
    yield from in_turn(runs, copies)


def _homes(
    tasks: object, nodes: Sequence[list[Reading]], copies: ReduceCopies | None
) -> Iterator[tuple[Home, list[Reading]]]:
    """Yields what the reduces of each node read, and how they are submitted; copies go to the next node."""
    for number, readings in enumerate(nodes):
        node = None if makes_streams(tasks) else readings[0].where.node
        elsewhere = nodes[(number + 1) % len(nodes)][0].where.node
        yield Home(node, submitted if copies is None else copies.submit_at(elsewhere)), readings


def _reduces_of(
    tasks: TaskSet, of_node: tuple[Home, list[Reading]], plan: ShufflePlan, totals: Sequence[int]
) -> Iterator[Ref]:
    """Submits the reduces of a node; ``totals`` has the bytes of all partitions."""
    home, readings = of_node
    for reading in readings:
        num_merged = reading.num_merged or [1] * len(reading.blocks)
        sizes = dict(zip(reading.partitions, totals[reading.partitions.start :], strict=False))
        large = large_partitions(reading.blocks, plan, sizes, maps_of(num_merged, plan))
        yield from _reduces(tasks, reading.blocks, plan, sizes, large, home)


def _reduces(
    tasks: Reduces,
    blocks: Refs,
    plan: ShufflePlan,
    sizes: Mapping[int, int],
    large: Mapping[int, Large],
    home: Home = ANYWHERE,
) -> Iterator[Ref]:
    """Submits the reduces of partitions of these sizes, in their order."""
    run_reduce = stage(tasks, "reduce", memory=plan.reduce_memory_bytes, node=home.node)
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
        yield home.submit(run, partition, blocks.column(partition))


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
            yield run.remote(number, column_of(large, piece))
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
    inputs = [column_of(large, indices) for indices in runs] * again.num_sides
    plan = plan_of(again, large, runs)
    samples = sampled_keys(again, inputs, plan) if again.is_sampled else []
    tasks = again.tasks.assigned(samples, plan.num_partitions)
    run_map = stage(tasks, "map", num_returns=plan.num_partitions + 1, memory=plan.map_memory_bytes)
    blocks = Refs(run_map.remote(index, slices) for index, slices in enumerate(inputs))
    sizes = dict(enumerate(partition_bytes(tasks, blocks, range(plan.num_partitions))))
    again.tasks.check(get([block[plan.num_partitions] for block in blocks]))
    parts = {
        number: dataclasses.replace(
            part, level=large.level + 1, stuck=large.stuck + 1 if is_whole(part, large) else 0
        )
        for number, part in large_partitions(
            blocks, plan, sizes, maps_of([1] * len(blocks), plan)
        ).items()
    }
    yield from _reduces(tasks, blocks, plan, sizes, parts)
