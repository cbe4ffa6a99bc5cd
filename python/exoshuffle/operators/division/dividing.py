"""What operators on tables do about a partition that is larger than planned, by what finishes it.

| Finish | Large partition |
| --- | --- |
| sorting | shuffled again by ranges of keys sampled in it; positions divide equal keys |
| grouping, distinct, joining | shuffled again by other bits of the hash (``hash_assignment`` with the next level) |
| grouping, of rows that could be combined | combined, run by run of its slices, and finished as one |
| none (``repartition``) | into a file: streamed, as it must stay one; into blocks: finished run by run |

What no hash divides is one key. A join cuts the larger side and joins each piece with all of the smaller one, where the
kind of join allows it. Rows that aggregates can combine travel as they are only where keys hardly repeat; if one does
all the same, its rows are combined now, and the groups are those of a shuffle whose maps combine. What needs a group
whole (``list``, ``median``, ``map_groups`` …) gets it if it fits into memory alone: as Arrow data, read a run of slices
at a time, which are let go again. If it does not, it is refused by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from exoshuffle.errors import LargeGroupError
from exoshuffle.futures import get, remote
from exoshuffle.operators.core.finishes import (
    Alone,
    Combined,
    Finish,
    Gathered,
    Joined,
    Recounted,
    Sorted,
)
from exoshuffle.operators.core.order import RowsConfig
from exoshuffle.operators.core.sinks import TableSink
from exoshuffle.operators.core.tasks import TableTasks
from exoshuffle.operators.division.inputs import CombinedInput, SliceInput
from exoshuffle.operators.division.tasks import DividedTasks, PieceTasks, key_columns
from exoshuffle.shuffle.division import (
    MAX_LEVEL,
    Again,
    Division,
    Large,
    Pieces,
    Rejoined,
    Streamed,
    Whole,
)
from exoshuffle.units import format_bytes

#: Sides of which a join must see all rows to know what matches nothing; the other one can be cut.
_NEEDS_WHOLE = {
    "inner": "",
    "left": "right",
    "semi": "right",
    "anti": "right",
    "right": "left",
    "full": "left right",
}


def divide(tasks: TableTasks, large: Large) -> Division:
    """What to do about a large partition; see ``DividingTaskSet``.

    Raises:
        LargeGroupError: Nothing can be done within the memory limit.
    """
    finish = tasks.finish
    if isinstance(finish, Sorted):
        return Whole() if large.is_indivisible else Again(_again(tasks, large, finish.config), True)
    if isinstance(finish, Gathered) and not finish.steps:
        return _passed_on(tasks, large, finish)
    if isinstance(finish, Gathered) and finish.combined:
        return Again(_combining(tasks, large, finish.config, finish.combined), num_partitions=1)
    configs = (finish.left, finish.right) if isinstance(finish, Joined) else _only_config(finish)
    if key_columns(configs[0]) and not large.is_indivisible:
        return Again(_again(tasks, large, *configs), num_sides=len(configs))
    if isinstance(finish, Joined):
        pieces = _join_pieces(finish.join.how, tasks.starts[1], large)
        if pieces:
            return _in_pieces(tasks, large, configs, pieces)
        found = _one_key_pieces(tasks, large, finish)
        if found is not None:
            return found
        if large.level < MAX_LEVEL:
            return Again(_again(tasks, large, *configs), num_sides=len(configs))
    if isinstance(finish, Gathered):
        if finish.recounted:
            return _recounting(tasks, large, finish.config, finish.recounted)
        return _alone(tasks, large, finish)
    plan = large.plan
    if large.num_bytes <= plan.max_whole_bytes:
        return Whole()
    percent = 100 + plan.reduce_percent
    needed, room = (size * percent // 100 for size in (large.num_bytes, plan.max_whole_bytes))
    raise _too_large(_again(tasks, large, *configs), large, needed, room)


def _only_config(finish: Finish) -> tuple[RowsConfig]:
    if not isinstance(finish, Gathered):
        raise TypeError(f"nothing is known of how {type(finish).__name__} divides; add it here")
    return (finish.config,)


def _again(tasks: TableTasks, large: Large, *configs: RowsConfig) -> DividedTasks:
    """The task set for the rows of a partition."""
    inputs = tuple(SliceInput(config, tag, large.partition) for tag, config in enumerate(configs))
    num_runs = len(large.runs(large.plan.split_bytes))
    num_maps = num_runs * len(configs)
    return DividedTasks(
        tasks.name,
        inputs,
        tuple(range(0, num_maps, num_runs)),
        num_maps,
        b"",
        tasks.finish,
        tasks.sink.within(large.partition),
        tasks.executor,
        large.level + 1,
        large.partition,
        tasks.num_maps,
    )


def _combining(
    tasks: TableTasks, large: Large, config: RowsConfig, combined: Combined
) -> DividedTasks:
    """The task set that combines the rows of a partition, which remains one and may still be large then."""
    made = _again(tasks, large, config)
    inputs = (CombinedInput(config, large.partition, combined),)
    return dataclasses.replace(made, inputs=inputs, finish=combined.finish)


def _recounting(
    tasks: TableTasks, large: Large, config: RowsConfig, recounted: Recounted
) -> Rejoined:
    """The task sets that deal the rows of a key out by the values that are counted, and put the counts together."""
    made = _again(tasks, large, config)
    inputs = (CombinedInput(config, large.partition, recounted.spread),)
    parts = dataclasses.replace(
        made, inputs=inputs, finish=recounted.spread.finish, sink=TableSink()
    )
    return Rejoined(Again(parts), dataclasses.replace(made, finish=recounted.last, sink=tasks.sink))


def _alone(tasks: TableTasks, large: Large, finish: Gathered) -> Streamed:
    """A group that is needed whole, if it fits."""
    made, runs = _streaming(tasks, large, finish)
    alone, num_rows = _cost_alone(made, large, runs, finish.alone)
    needed, room = alone.memory(large.num_bytes, num_rows), _room_alone(large)
    if needed > room:
        raise _too_large(_again(tasks, large, finish.config), large, needed, room)
    # What the function has declared is added where the task is submitted.
    needed += large.plan.buffer_bytes - finish.alone.more_bytes
    return Streamed(made, runs, needed)


def _room_alone(large: Large) -> int:
    """What is left for a group beside one run of its slices, which may be one slice."""
    return large.plan.alone_bytes - max(0, max(large.sizes) - large.plan.split_bytes)


def _cost_alone(
    made: DividedTasks, large: Large, runs: list[range], alone: Alone
) -> tuple[Alone, int]:
    """What finishing a partition takes, by whether it is one key where that matters; and how many rows it has."""
    slices = [large.slices(indices) for indices in runs]
    memory = large.plan.map_memory_bytes
    if alone.sole is not None:
        look = remote(made.sole_key, name="sole_key", executor="thread", memory=memory)
        is_one, _, counts = get(look.remote(slices))
        if is_one:
            return alone.sole, sum(counts[0])
    count = remote(made.count_rows, name="count_rows", executor="thread", memory=memory)
    return alone, get(count.remote(large.partition, slices))


def _streaming(
    tasks: TableTasks, large: Large, finish: Gathered
) -> tuple[DividedTasks, list[range]]:
    """The task set that reads a partition run by run, whose result stays in its place; and the runs."""
    made = _again(tasks, large, finish.config)
    made = dataclasses.replace(made, sink=tasks.sink, num_maps=tasks.num_maps)
    return made, large.runs(large.plan.split_bytes)


def _passed_on(tasks: TableTasks, large: Large, finish: Gathered) -> Division:
    """Rows stay as they come: nothing has to be seen as a whole, so nothing is moved again."""
    if tasks.sink.keeps_partitions:
        return Streamed(*_streaming(tasks, large, finish))
    return _in_pieces(tasks, large, (finish.config,), large.runs(large.plan.max_partition_bytes))


def _in_pieces(
    tasks: TableTasks, large: Large, configs: Sequence[RowsConfig], pieces: Sequence[Sequence[int]]
) -> Pieces:
    """Reduces that get some of the slices each."""
    maps = [tuple(large.maps[index] for index in piece) for piece in pieces] if large.maps else ()
    made = _again(tasks, large, *configs)
    return Pieces(PieceTasks(**vars(made), pieces=tuple(maps)), pieces)


def _join_pieces(how: str, num_left: int, large: Large) -> list[list[int]]:
    """Which slices to join at a time, left ones first; none if that cannot be done.

    The blocks are those of a divided partition, unmerged: first those of the left side, then those of the right one.
    """
    sides = {"left": range(num_left), "right": range(num_left, len(large.sizes))}
    sizes = {side: sum(large.sizes[i] for i in indices) for side, indices in sides.items()}
    whole = [side for side in sides if side in _NEEDS_WHOLE[how]]
    # Small pieces, which can be joined at the same time, if the side that stays whole leaves room in them.
    limits = (large.plan.max_partition_bytes, large.plan.max_whole_bytes)
    fitting = [limit for limit in limits if all(2 * sizes[side] <= limit for side in whole)]
    if len(whole) == 2 or not fitting:
        return []
    limit = fitting[0]
    # Each side that may be cut gets half of the room; or all that the other one, which may not, leaves.
    rooms = dict.fromkeys(sides, limit - sizes[whole[0]] if whole else limit // 2)
    runs = {
        side: [indices] if side in whole else large.runs(rooms[side], indices.start, indices.stop)
        for side, indices in sides.items()
    }
    return [[*left, *right] for left in runs["left"] for right in runs["right"]]


def _one_key_pieces(tasks: TableTasks, large: Large, finish: Joined) -> Pieces | None:
    """What joins a partition that is one key: every row of one side matches every row of the other, or none does.

    So neither side has to be seen whole. None if it has several keys.
    """
    num_left, how = tasks.starts[1], finish.join.how
    room = large.plan.max_partition_bytes // 2
    lefts = large.runs(room, 0, num_left)
    rights = large.runs(room, num_left)
    made = _again(tasks, large, finish.left, finish.right)
    run = remote(made.sole_key, name="sole_key", memory=large.plan.map_memory(room))
    found = run.options(executor="thread").remote([large.slices(run) for run in (*lefts, *rights)])
    is_one, is_null, counts = get(found)
    if not is_one:
        return None
    matching = [run for run, rows in zip((*lefts, *rights), counts[1], strict=True) if rows]
    if is_null or not any(counts[0]) or not matching:
        pieces = [list(run) for run in (*lefts, *rights)]
    else:
        if how in ("semi", "anti"):
            rights = matching[:1]
        elif how != "inner":
            finish = dataclasses.replace(finish, join=dataclasses.replace(finish.join, how="inner"))
        pieces = [[*left, *right] for left in lefts for right in rights]
    joining = dataclasses.replace(tasks, finish=finish)
    return _in_pieces(joining, large, (finish.left, finish.right), pieces)


def _too_large(tasks: DividedTasks, large: Large, needed: int, room: int) -> LargeGroupError:
    """The error that names the group, what it needs of memory together, and what there is room for."""
    runs = [large.slices(indices) for indices in large.runs(large.plan.split_bytes)]
    run = remote(
        tasks.largest_group,
        name="largest_group",
        executor=tasks.executor,
        memory=large.plan.map_memory_bytes,
    )
    key, share = get(run.remote(runs))
    finish = tasks.finish
    if isinstance(finish, Joined):
        remedy = f"a join with how={finish.join.how!r} needs it whole; swap the sides, filter it"
    else:
        remedy = (
            "its function needs it whole; use one that does not (approx_quantile for median and quantile, "
            "approx_count_distinct for count_distinct), filter it"
        )
    which = f"the rows of key {key}" if key else "all rows, which are one group,"
    return LargeGroupError(
        f"{which} take about {format_bytes(int(share * large.num_bytes))} and need {format_bytes(needed)} of memory "
        f"together, and the memory limit leaves {format_bytes(room)} for one group: {remedy}, or raise memory_limit "
        f"to {format_bytes(large.plan.limit_for(needed, room))}"
    )
