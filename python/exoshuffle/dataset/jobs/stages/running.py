"""The loop of a pipeline: takes what tasks have made, and begins the tasks that the policy chooses.

Guarantee: the rows come out as they would if all steps ran in one task. Parts come in order, unless the last stage was
told otherwise. Blocks between stages stay within a part of the budget. Beyond it, nothing is taken from tasks,
which then wait, except from the one that makes the oldest part. After an error, or when nobody takes parts any more,
no task runs on.

The loop runs whenever somebody asks for the next part; tasks go on meanwhile. Why no thread of its own: each slot has
its task. So the pipeline would wait for a caller who is slower than these anyhow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from exoshuffle.dataset.jobs.stages.beginning import Beginning
from exoshuffle.dataset.jobs.stages.calls import Calls
from exoshuffle.dataset.jobs.stages.estimating import Room
from exoshuffle.dataset.jobs.stages.planning import (
    StepsOfStage,
    check_room,
    most_of_tasks,
    stage_memory_bytes,
    waiting_bytes,
)
from exoshuffle.dataset.jobs.stages.pool import Pool, keep_what_fits
from exoshuffle.dataset.jobs.stages.progress import Progress
from exoshuffle.dataset.jobs.stages.resources import Resources, tasks_bytes
from exoshuffle.dataset.jobs.stages.skipped import NotesOfTasks, SkippedRows
from exoshuffle.dataset.jobs.stages.taking import Taking
from exoshuffle.dataset.jobs.unshuffled import task_memory_bytes
from exoshuffle.futures import Engine, Ref, RefStream, cancel
from exoshuffle.operators.core.sinks import BlocksSink

#: The policy is asked again after so long if nothing has happened but time. Asked every 5 ms, it took 5 % of the time
#: of a scan of 1 GB with a stage that does nothing. That was 0.4 of 8 s, on a busy machine.
ASK_SECONDS = 0.05


class Running:
    """A pipeline that runs.

    Args:
        stages: The stages behind the source.
        source: Submits a task of the source whenever its next item is taken.
        num_source_tasks: How many there will be; None if nobody knows.
        sink: Makes the blocks between stages.
        engine: The engine that runs the tasks.
        handing_bytes: The working memory of a task that takes a block of the last stage; 0 if no task does.
    """

    def __init__(
        self,
        stages: Sequence[StepsOfStage],
        source: Iterator[Ref | RefStream],
        num_source_tasks: int | None,
        sink: BlocksSink,
        engine: Engine,
        handing_bytes: int,
    ) -> None:
        memory = tasks_bytes(engine, handing_bytes)
        room = _room(engine, stages, memory, sink.piece_bytes)
        self._pools = [
            Pool(stage, stage_memory_bytes(engine, stage)) if stage.is_class else None
            for stage in stages
        ]
        resources = Resources(engine, stages, self._pools, room, handing_bytes)
        resources.check_held()
        memory -= task_memory_bytes(engine, "thread") + room.memory_bytes
        keep_what_fits(self._pools, memory - most_of_tasks(engine, stages))
        self._notes = NotesOfTasks()
        is_ordered = stages[-1].needs.is_ordered
        self._progress = Progress(len(stages), num_source_tasks, room, is_ordered=is_ordered)
        calls = Calls(stages, self._pools, sink, engine)
        self._taking = Taking(stages, self._progress, calls, self._notes)
        self._beginning = Beginning(self._progress, resources, calls, source, engine, room)

    def parts(self) -> Iterator[Ref]:
        """Yields the blocks of the last stage."""
        for pool in filter(None, self._pools):
            pool.begin(self._progress.now())
        asked_at, has_seen = -math.inf, False
        while True:
            # The oldest part may begin after a change. Only if it cannot, more is taken than there is room for.
            has_changed = has_seen or self._taking.take()
            while (part := self._progress.next_part()) is not None:
                has_changed = True
                yield part.ref
                del part
            if self._progress.is_done():
                return
            now = self._progress.now()
            if has_changed or now - asked_at > ASK_SECONDS:
                asked_at = now
                has_changed = self._beginning.begin() or has_changed
            has_seen = not has_changed and self._taking.look_at_oldest()

    def skipped(self) -> SkippedRows:
        """Returns the rows that functions have skipped."""
        return self._notes.found()

    def stop(self) -> None:
        """Cancels what runs, and ends the objects of classes."""
        for _, work in self._progress.works():
            cancel(work.stream)
            work.worker = None
        self._progress.clear()
        for pool in filter(None, self._pools):
            pool.end()


def _room(engine: Engine, stages: Sequence[StepsOfStage], memory: int, block_bytes: int) -> Room:
    """Returns how much may wait between stages: two blocks at least, so that stages overlap.

    Args:
        engine: The engine that runs the tasks.
        stages: The stages.
        memory: The memory for tasks, and for the blocks that wait.
        block_bytes: Size of a block.

    Raises:
        MemoryLimitError: A stage has no room for a single task.
    """
    memory -= task_memory_bytes(engine, "thread")
    most = memory - max(stage_memory_bytes(engine, stage) for stage in stages)
    room = Room(max(2 * block_bytes, min(most, waiting_bytes(engine))), block_bytes)
    check_room(engine, stages, memory - room.memory_bytes)
    return room
