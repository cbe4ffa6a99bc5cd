"""Turns a running pipeline into the numbers that policies see.

A partition is a block, whatever its size: memory is counted in blocks of the mean size. Until a task of a stage has
ended, it is taken to last as long as those of other stages, and to make one block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exoshuffle.dataset.jobs.stages.parts import Lane
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.pipelines.pipeline import Pipeline, Stage
from exoshuffle.pipelines.world import TICKS, State, World

#: Stands for the seconds of a task before any has ended.
UNKNOWN_SECONDS = 1.0
#: Source tasks that are taken to be left, if nobody knows how many are.
UNKNOWN_TASKS = 8


@dataclass(frozen=True)
class Room:
    """The CPUs, GPUs and memory that a pipeline may use.

    Attributes:
        memory_bytes: Most that may wait between stages.
        block_bytes: Size of a block that is not known yet.
    """

    memory_bytes: int
    block_bytes: int


def world_of(
    lanes: Sequence[Lane],
    needs: Sequence[Mapping[str, float]],
    slots: Mapping[str, float],
    left: int,
    room: Room,
) -> World:
    """Returns the pipeline by what has been measured.

    Args:
        lanes: The stages, the source first.
        needs: The resources that a task of each needs.
        slots: The resources that there are.
        left: Tasks of the source that have not begun.
        room: The memory.
    """
    ended = sum(lane.num_ended for lane in lanes)
    mean = sum(lane.seconds for lane in lanes) / ended if ended else UNKNOWN_SECONDS
    last = len(lanes) - 1
    stages = tuple(
        Stage(
            str(index),
            max(0.001, lane.seconds / lane.num_ended if lane.num_ended else mean),
            takes=0 if index == 0 else 1,
            makes=0 if index == last else _makes(lane),
            needs=needs[index],
        )
        for index, lane in enumerate(lanes)
    )
    blocks = sum(lane.num_blocks for lane in lanes)
    block_bytes = sum(lane.num_bytes for lane in lanes) / blocks if blocks else room.block_bytes
    memory = max(1, round(room.memory_bytes / max(1.0, block_bytes)))
    return World(Pipeline(stages, left, slots, memory))


def _makes(lane: Lane) -> int:
    return max(1, round(lane.num_blocks / lane.num_ended)) if lane.num_ended else 1


def state_of(lanes: Sequence[Lane], world: World, left: int, now: float) -> State:
    """Returns how the pipeline stands; a task that lasts longer than expected is taken to end at once."""
    waiting = (*(len(lane.waiting) for lane in lanes[1:]), 0)
    running = tuple(
        tuple(sorted(max(1, ticks - round((now - work.begun) * TICKS)) for work in lane.running))
        for lane, ticks in zip(lanes, world.ticks, strict=True)
    )
    return State(left, waiting, running, ((),) * len(lanes))
