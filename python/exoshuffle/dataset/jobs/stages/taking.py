"""Takes the blocks that tasks of a running pipeline have made, and notes how tasks ended."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.dataset.jobs.stages.calls import Calls
from exoshuffle.dataset.jobs.stages.parts import Work
from exoshuffle.dataset.jobs.stages.planning import StepsOfStage
from exoshuffle.dataset.jobs.stages.progress import Progress
from exoshuffle.dataset.jobs.stages.skipped import NotesOfTasks
from exoshuffle.errors import ActorDiedError, NondeterminismError
from exoshuffle.futures import Ref, get, slice_bytes

#: Seconds between looks at tasks, while the oldest has made nothing.
LOOK_SECONDS = 0.005


class Taking:
    """Takes what the tasks of a running pipeline have made.

    Args:
        stages: The stages behind the source.
        progress: Gets the blocks.
        calls: Makes calls again whose objects died.
        notes: Gets the notes of tasks.
    """

    def __init__(
        self,
        stages: Sequence[StepsOfStage],
        progress: Progress,
        calls: Calls,
        notes: NotesOfTasks,
    ) -> None:
        self._stages, self._progress, self._calls, self._notes = stages, progress, calls, notes

    def take(self) -> bool:
        """Takes what tasks have made, as far as there is room, the oldest first; returns whether there was anything."""
        progress, has_taken = self._progress, False
        # Asked once: a part that becomes the oldest below has not been refused a task yet.
        oldest_waits = progress.oldest_waits()
        for stage, work in progress.works():
            while progress.has_room() or progress.is_oldest(work.position) or oldest_waits:
                if not self._take_one(stage, work, 0):
                    break
                has_taken = True
                if work not in progress.lanes[stage].running:
                    break
        return has_taken

    def look_at_oldest(self) -> bool:
        """Waits a moment for the task that is to make the oldest part; returns whether it has made anything."""
        works = self._progress.works()
        if not works:
            return False
        stage, work = works[0]
        return self._take_one(stage, work, LOOK_SECONDS)

    def _take_one(self, stage: int, work: Work, timeout: float) -> bool:
        """Takes the next block of a task, or its end; returns whether there was one."""
        try:
            ref = work.stream.next(timeout)
        except TimeoutError:
            return False
        except ActorDiedError as error:
            # The frames of its traceback would keep the objects of classes, and so their GPUs.
            self._calls.begin_again(stage, work, error.with_traceback(None))
            return True
        if ref is None:
            if work.held is not None:
                self._notes.note(stage, work.key, get(work.held))
            self._end(stage, work)
        elif stage and self._stages[stage - 1].makes_notes:
            # Only the end of the stream tells that the last one is its notes.
            before, work.held = work.held, ref
            if before is not None:
                self._take_block(stage, work, before)
        else:
            self._take_block(stage, work, ref)
        return True

    def _take_block(self, stage: int, work: Work, ref: Ref) -> None:
        if work.skipped:
            work.skipped -= 1
            return
        [sizes] = slice_bytes([ref])
        self._progress.put(stage, work.made(ref, sum(sizes)))

    def _end(self, stage: int, work: Work) -> None:
        if work.skipped:
            raise NondeterminismError(
                f"{self._stages[stage - 1].name} made {work.num_made - work.skipped} blocks when it was called again, "
                f"and {work.num_made} before; it must return the same rows for the same batches"
            )
        if not work.num_made:
            # It returned its blocks as they were; see ``tasks``.
            for part in work.inputs:
                self._progress.put(stage, work.made(part.ref, part.num_bytes))
        now = self._progress.now()
        self._progress.lanes[stage].end(work, now)
        self._calls.end(stage, work, now)
