"""Begins the tasks of a running pipeline that the policy chooses, and ends objects of classes that others wait for."""

from __future__ import annotations

from collections.abc import Iterator

from exoshuffle.dataset.jobs.stages.calls import AHEAD, Calls
from exoshuffle.dataset.jobs.stages.estimating import Room, state_of, world_of
from exoshuffle.dataset.jobs.stages.parts import Part
from exoshuffle.dataset.jobs.stages.progress import Progress
from exoshuffle.dataset.jobs.stages.resources import Resources
from exoshuffle.futures import Engine, Ref, RefStream
from exoshuffle.pipelines.policies import Balanced, Foresight
from exoshuffle.pipelines.world import World

#: Foresight takes about 5 ms for a task: where tasks end more often than this, the balanced policy has to do.
FORESIGHT_SECONDS = 0.1
#: Small blocks go to one task while they would not keep it busy for so long.
TOGETHER_SECONDS = 0.1


class Beginning:
    """Begins the tasks of a running pipeline.

    Args:
        progress: The parts and tasks of the pipeline.
        resources: Tells the policy what tasks need and what there is.
        calls: Begins the tasks of stages.
        source: Submits a task of the source whenever its next item is taken.
        engine: The engine that runs the tasks.
        room: How much may wait between stages, and the size of a block.
    """

    def __init__(
        self,
        progress: Progress,
        resources: Resources,
        calls: Calls,
        source: Iterator[Ref | RefStream],
        engine: Engine,
        room: Room,
    ) -> None:
        self._progress, self._resources, self._calls = progress, resources, calls
        self._source, self._engine, self._room = source, engine, room
        self._foresight, self._quick = Foresight(), Balanced()

    def begin(self) -> bool:
        """Begins tasks as the policy chooses; returns whether any began."""
        has_begun = False
        while True:
            self._shrink()
            stage = self._chosen()
            if stage is None:
                return has_begun
            has_begun = True
            if stage == 0:
                self._begin_source()
            else:
                self._begin_stage(stage)

    def _begin_source(self) -> None:
        made = next(self._source, None)
        if made is None:
            self._progress.end_source()
            return
        assert isinstance(made, RefStream)
        made.limit_ahead(AHEAD)
        self._progress.begin_source(made)

    def _begin_stage(self, stage: int) -> None:
        work = self._calls.begin(stage, self._inputs(stage), self._progress.now())
        self._progress.lanes[stage].running.append(work)

    def _inputs(self, stage: int) -> tuple[Part, ...]:
        """Takes the oldest part that waits, and small neighbours of it."""
        lane = self._progress.lanes[stage]
        parts = [lane.waiting.pop(0)]
        taken = parts[0].num_bytes
        seconds = lane.seconds / lane.num_ended if lane.num_ended else TOGETHER_SECONDS
        if seconds >= TOGETHER_SECONDS:
            return tuple(parts)
        # As many as leave work for the others.
        most = max(1, len(lane.waiting) // max(1, self._engine.num_cpus))
        while (
            lane.waiting
            and len(parts) < most
            and taken + lane.waiting[0].num_bytes <= self._room.block_bytes
            and self._progress.are_neighbours(parts[-1].key, lane.waiting[0].key)
        ):
            parts.append(lane.waiting.pop(0))
            taken += parts[-1].num_bytes
        return tuple(parts)

    # --- choosing ----------------------------------------------------------------------------------------------

    def _chosen(self) -> int | None:
        """Returns the stage that begins the next task, 0 for the source; None if no task is to begin."""
        progress = self._progress
        left, now = progress.left(), progress.now()
        world = world_of(progress.lanes, *self._resources.slots(progress.lanes), left, self._room)
        state = state_of(progress.lanes, world, left, now)
        able = world.beginning(state)
        if not able:
            return self._forced()
        if not progress.has_room():
            going_on = (stage for stage in able if stage and self._may_go_on(stage))
            return next(going_on, None) or self._forced()
        # A schedule by guesses is not worth its time.
        is_known = all(lane.num_ended for lane in progress.lanes)
        is_slow = is_known and self._pace(world) >= FORESIGHT_SECONDS
        policy = self._foresight if is_slow else self._quick
        stage = policy.choose(world, state, now)
        if stage is None and not progress.any_runs():
            return able[0]
        return stage

    def _forced(self) -> int | None:
        """Returns the stage of the oldest part if nothing runs, and so nothing would ever: the engine says why not."""
        if self._progress.any_runs():
            return None
        waiting = [
            (lane.waiting[0].key, stage)
            for stage, lane in enumerate(self._progress.lanes)
            if lane.waiting
        ]
        return min(waiting)[1] if waiting else (0 if self._progress.left() else None)

    def _may_go_on(self, stage: int) -> bool:
        """Whether a stage takes parts where there is no room for more: the oldest, or those that it makes no larger.

        Others would fill the memory before the oldest.
        """
        return self._has_oldest(stage) or self._progress.lanes[stage].makes_no_more

    def _has_oldest(self, stage: int) -> bool:
        """Whether the oldest part of all waits for a stage."""
        waiting = self._progress.lanes[stage].waiting
        return bool(waiting) and self._progress.is_oldest(waiting[0].key)

    def _pace(self, world: World) -> float:
        """Returns the seconds between two ends of tasks, about."""
        running = sum(len(lane.running) for lane in self._progress.lanes)
        return min(world.ticks) / 1000 / max(1, running)

    # --- objects of classes ------------------------------------------------------------------------------------

    def _shrink(self) -> None:
        """Ends objects of classes that have nothing to do, where others lack what they hold."""
        progress = self._progress
        now, left = progress.now(), progress.left()
        lacking = self._resources.lacking(progress.lanes, left)
        is_over = left == 0 and not progress.lanes[0].running
        for stage, pool in enumerate(self._resources.pools, 1):
            lane = progress.lanes[stage]
            is_over = is_over and not lane.waiting and not lane.running
            if pool is not None and pool.num_idle:
                goes_on = bool(lane.waiting) and (progress.has_room() or self._may_go_on(stage))
                wanted = not goes_on and not lacking.isdisjoint(pool.held)
                pool.shrink(now, wanted=wanted, is_over=is_over)
