"""Ways to divide a partition that is larger than planned, from which finishes choose.

No hash divides the rows of one key. A group that does not fit into memory, and cannot be divided, is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.errors import LargeGroupError
from exoshuffle.futures import get, remote
from exoshuffle.operators.core.tasks import TableTasks
from exoshuffle.operators.division.inputs import SliceInput
from exoshuffle.operators.division.tasks import DividedTasks, PieceTasks
from exoshuffle.plan.division import Large, Pieces
from exoshuffle.units import format_bytes


def again(tasks: TableTasks, large: Large) -> DividedTasks:
    """Returns the task set that shuffles the rows of a partition once more."""
    configs = tasks.finish.configs
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


def in_pieces(tasks: TableTasks, large: Large, pieces: Sequence[Sequence[int]]) -> Pieces:
    """Returns reduces that get some of the slices each."""
    maps = [tuple(large.maps[index] for index in piece) for piece in pieces] if large.maps else ()
    made = again(tasks, large)
    return Pieces(PieceTasks(**vars(made), pieces=tuple(maps)), pieces)


def too_large(tasks: DividedTasks, large: Large, needed: int, room: int) -> LargeGroupError:
    """Returns the error that names the group, the memory that it needs, and the room that there is."""
    runs = [large.slices(indices) for indices in large.runs(large.plan.split_bytes)]
    run = remote(
        tasks.largest_group,
        name="largest_group",
        executor=tasks.executor,
        memory=large.plan.map_memory_bytes,
    )
    key, share = get(run.remote(runs))
    which = f"the rows of key {key}" if key else "all rows, which are one group,"
    return LargeGroupError(
        f"{which} take about {format_bytes(int(share * large.num_bytes))} and need {format_bytes(needed)} of memory "
        f"together, and the memory limit leaves {format_bytes(room)} for one group: {tasks.finish.remedy}, or raise "
        f"memory_limit to {format_bytes(large.plan.limit_for(needed, room))}"
    )
