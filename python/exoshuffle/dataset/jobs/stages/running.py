"""The loop of a pipeline: takes what tasks have made, and begins the tasks that the policy chooses.

Guarantee: the rows come out as they would if all steps ran in one task. Parts come in order, unless the last stage was
told otherwise. What waits between stages stays within a part of the budget: beyond it nothing is taken from tasks,
which then wait, except from the one that makes the oldest part. After an error, or when nobody takes parts any more,
no task runs on.

The loop runs whenever somebody asks for the next part; tasks go on meanwhile. Why no thread of its own: each slot has
its task, so a caller who is slower than these is what the pipeline waits for anyhow.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import time
from collections.abc import Iterator, Sequence
from operator import attrgetter

from exoshuffle.dataset.jobs.learning import totals
from exoshuffle.dataset.jobs.stages.estimating import UNKNOWN_TASKS, Room, state_of, world_of
from exoshuffle.dataset.jobs.stages.parts import Key, Lane, Part, Work
from exoshuffle.dataset.jobs.stages.planning import (
    StepsOfStage,
    check_room,
    most_of_tasks,
    stage_memory_bytes,
    waiting_bytes,
)
from exoshuffle.dataset.jobs.stages.pool import MEMORY, Pool, keep_what_fits
from exoshuffle.dataset.jobs.stages.skipped import NotesOfTasks, SkippedRows
from exoshuffle.dataset.jobs.stages.tasks import run_stage
from exoshuffle.dataset.jobs.unshuffled import task_memory_bytes
from exoshuffle.errors import ActorDiedError, NondeterminismError, OptionsError
from exoshuffle.futures import ActorHandle, Engine, Ref, RefStream, cancel, get, remote
from exoshuffle.futures.options import CPU, GPU
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.steps.step import executor_of
from exoshuffle.pipelines.policies import Conservative, Foresight
from exoshuffle.pipelines.world import World

#: Blocks that a task may be ahead of the loop.
AHEAD = 4
#: Seconds between looks at tasks, while the oldest has made nothing.
LOOK_SECONDS = 0.005
#: Foresight takes about 5 ms for a task: where tasks end more often than this, the conservative policy has to do.
FORESIGHT_SECONDS = 0.1
#: Small blocks go to one task while they would not keep it busy for so long.
TOGETHER_SECONDS = 0.1
#: Attempts of a call whose object died.
MAX_ATTEMPTS = 3


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
        self._stages, self._source, self._sink, self._engine = stages, source, sink, engine
        self._num_source_tasks = num_source_tasks
        self._num_begun = 0
        self._source_is_over = False
        self._lanes = [Lane() for _ in range(len(stages) + 1)]
        self._made: list[tuple[Key, Part]] = []
        self._made_bytes = 0
        self._handing_bytes = handing_bytes
        # Two blocks at least, so that stages overlap.
        room = self._task_bytes() - task_memory_bytes(engine, "thread")
        least = 2 * sink.piece_bytes
        most = room - max(stage_memory_bytes(engine, stage) for stage in stages)
        self._room = Room(max(least, min(most, waiting_bytes(engine))), sink.piece_bytes)
        room -= self._room.memory_bytes
        check_room(engine, stages, room)
        self._total = totals(engine)
        self._pools = [
            Pool(stage, stage_memory_bytes(engine, stage)) if stage.is_class else None
            for stage in stages
        ]
        self._check_held()
        keep_what_fits(self._pools, room - most_of_tasks(engine, stages))
        self._notes = NotesOfTasks()
        self._index = itertools.count()
        self._foresight, self._careful = Foresight(), Conservative()
        self._begun_at = time.monotonic()

    def parts(self) -> Iterator[Ref]:
        """Yields the blocks of the last stage."""
        for pool in filter(None, self._pools):
            pool.begin(self._now())
        while True:
            has_taken = self._take()
            while self._made and self._may_go(self._made[0][0]):
                _, part = heapq.heappop(self._made)
                self._made_bytes -= part.num_bytes
                yield part.ref
                del part
            if self._is_done():
                return
            if not self._begin() and not has_taken:
                self._look_at_oldest()

    def skipped(self) -> SkippedRows:
        """Returns the rows that functions have skipped."""
        return self._notes.found()

    def stop(self) -> None:
        """Cancels what runs, and ends the objects of classes."""
        for lane in self._lanes:
            for work in lane.running:
                cancel(work.stream)
            lane.running.clear()
            lane.waiting.clear()
        self._made.clear()
        self._pools = []

    # --- taking ------------------------------------------------------------------------------------------------

    def _take(self) -> bool:
        """Takes what tasks have made, as far as there is room, the oldest first; returns whether there was anything."""
        has_taken = False
        works = [
            (work.position, stage, work)
            for stage, lane in enumerate(self._lanes)
            for work in lane.running
        ]
        for _, stage, work in sorted(works, key=lambda one: one[0]):
            while self._has_room() or self._is_oldest(work.position) or self._oldest_waits():
                if not self._take_one(stage, work, 0):
                    break
                has_taken = True
                if work not in self._lanes[stage].running:
                    break
        return has_taken

    def _take_one(self, stage: int, work: Work, timeout: float) -> bool:
        """Takes the next block of a task, or its end; returns whether there was one."""
        try:
            ref = work.stream.next(timeout)
        except TimeoutError:
            return False
        except ActorDiedError as error:
            # The frames of its traceback would keep the objects of classes, and so their GPUs.
            self._again(stage, work, error.with_traceback(None))
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
        part = Part.of(work.position, ref)
        work.num_made += 1
        work.made_bytes += part.num_bytes
        self._put(stage, part)

    def _put(self, stage: int, part: Part) -> None:
        if stage < len(self._stages):
            bisect.insort(self._lanes[stage + 1].waiting, part, key=attrgetter("key"))
        else:
            heapq.heappush(self._made, (part.key, part))
            self._made_bytes += part.num_bytes

    def _end(self, stage: int, work: Work) -> None:
        if work.skipped:
            raise NondeterminismError(
                f"{self._stages[stage - 1].name} made {work.num_made - work.skipped} blocks when it was called again, "
                f"and {work.num_made} before; it must return the same rows for the same batches"
            )
        lane, now = self._lanes[stage], self._now()
        lane.running.remove(work)
        lane.num_ended += 1
        lane.seconds += now - work.begun
        lane.num_blocks += work.num_made
        lane.num_bytes += work.made_bytes
        pool = self._pools[stage - 1] if stage else None
        if pool is not None and work.worker is not None:
            pool.give_back(work.worker, now)
            work.worker = None

    def _again(self, stage: int, work: Work, error: ActorDiedError) -> None:
        """Calls another object with the same blocks, if the object of the class died."""
        pool = self._pools[stage - 1] if stage else None
        if pool is None:  # it is of a user's function that has actors of its own
            raise error
        pool.forget()
        if work.attempt == MAX_ATTEMPTS:
            raise error
        work.attempt += 1
        work.skipped, work.held = work.num_made, None
        work.worker, work.stream = self._called(pool, work.inputs)

    # --- beginning ---------------------------------------------------------------------------------------------

    def _begin(self) -> bool:
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

    def _chosen(self) -> int | None:
        left, now = self._left(), self._now()
        world = world_of(self._lanes, *self._slots(), left, self._room)
        state = state_of(self._lanes, world, left, now)
        able = world.beginning(state)
        if not able:
            return self._forced()
        if not self._has_room():
            # Only the oldest part goes on: later ones would fill the memory before it.
            oldest = (
                stage
                for stage in able
                if stage and self._is_oldest(self._lanes[stage].waiting[0].key)
            )
            return next(oldest, None) or self._forced()
        policy = self._careful if self._pace(world) < FORESIGHT_SECONDS else self._foresight
        stage = policy.choose(world, state, now)
        if stage is None and not any(lane.running for lane in self._lanes):
            return able[0]
        return stage

    def _forced(self) -> int | None:
        """Returns the stage of the oldest part if nothing runs, and so nothing would ever: the engine says why not."""
        if any(lane.running for lane in self._lanes):
            return None
        waiting = [
            (lane.waiting[0].key, stage) for stage, lane in enumerate(self._lanes) if lane.waiting
        ]
        return min(waiting)[1] if waiting else (0 if self._left() else None)

    def _pace(self, world: World) -> float:
        """Returns the seconds between two ends of tasks, about."""
        running = sum(len(lane.running) for lane in self._lanes)
        return min(world.ticks) / 1000 / max(1, running)

    def _slots(self) -> tuple[list[dict[str, float]], dict[str, float]]:
        """Returns the needs of each stage, and what there is.

        The bound of a stage is a resource of its own. Objects of classes keep what they hold, whether they are busy or
        not, so tasks of others have the rest. Half a slot is none now, and lets the policy count with the stage.
        """
        slots = self._total | {MEMORY: float(self._task_bytes() - self._room.memory_bytes)}
        needs = [{CPU: 1.0, MEMORY: float(task_memory_bytes(self._engine, "thread"))}]
        for each in filter(None, self._pools):
            for name, amount in each.held.items():
                slots[name] = slots.get(name, 0) - each.num_workers * amount
        free = self._free(slots)
        for index, stage in enumerate(self._stages, 1):
            pool = self._pools[index - 1]
            bound, amounts = f"stage {index}", dict(stage.needs.amounts)
            amounts[MEMORY] = float(stage_memory_bytes(self._engine, stage))
            most = stage.needs.concurrency.most or max(1, self._engine.num_cpus)
            if pool is not None:
                growing = [
                    int((free.get(name, 0) + 1e-9) // held) for name, held in pool.held.items()
                ]
                most = pool.num_workers + max(0, min([pool.most - pool.num_workers, *growing]))
                amounts = {
                    name: amount for name, amount in amounts.items() if name not in pool.held
                }
            if pool is not None or stage.needs.concurrency.most or not stage.needs.amounts:
                amounts[bound], slots[bound] = 1.0, most
            needs.append(amounts)
        return needs, {name: max(0.5, amount) for name, amount in slots.items()}

    def _free(self, slots: dict[str, float]) -> dict[str, float]:
        """Returns what tasks that are no calls of objects leave of the resources."""
        free = dict(slots)
        free[MEMORY] -= len(self._lanes[0].running) * task_memory_bytes(self._engine, "thread")
        for stage, pool, lane in zip(self._stages, self._pools, self._lanes[1:], strict=True):
            if pool is None:
                for name, amount in stage.needs.amounts:
                    free[name] = free.get(name, 0) - amount * len(lane.running)
                free[MEMORY] -= len(lane.running) * stage_memory_bytes(self._engine, stage)
        return free

    def _task_bytes(self) -> int:
        """Returns the memory for tasks of the source and of stages, and for what waits between them."""
        taken = self._engine.workers_bytes("process") + self._handing_bytes
        return self._engine.budget_bytes - taken

    def _begin_source(self) -> None:
        made = next(self._source, None)
        if made is None:
            self._source_is_over = True
            return
        assert isinstance(made, RefStream)
        made.limit_ahead(AHEAD)
        self._lanes[0].running.append(Work((self._num_begun,), self._now(), made))
        self._num_begun += 1

    def _begin_stage(self, stage: int) -> None:
        inputs = self._inputs(stage)
        pool = self._pools[stage - 1]
        if pool is None:
            worker, stream = None, self._submitted(self._stages[stage - 1], inputs)
        else:
            worker, stream = self._called(pool, inputs)
        self._lanes[stage].running.append(Work(inputs[0].key, self._now(), stream, inputs, worker))

    def _submitted(self, stage: StepsOfStage, inputs: tuple[Part, ...]) -> RefStream:
        amounts = dict(stage.needs.amounts)
        run = remote(
            run_stage,
            num_returns="streaming",
            num_cpus=amounts.pop(CPU, 0.0),
            num_gpus=amounts.pop(GPU, 0.0),
            resources=amounts,
            memory=stage_memory_bytes(self._engine, stage),
            name=stage.name,
            executor=executor_of("thread", stage.steps),
        )
        refs = (part.ref for part in inputs)
        stream = run.remote(stage.steps, next(self._index), self._sink, *refs)
        stream.limit_ahead(AHEAD)
        return stream

    def _called(self, pool: Pool, inputs: tuple[Part, ...]) -> tuple[ActorHandle, RefStream]:
        worker = pool.take()
        run = worker.run.options(num_returns="streaming")
        stream = run.remote(next(self._index), self._sink, *(part.ref for part in inputs))
        stream.limit_ahead(AHEAD)
        return worker, stream

    def _inputs(self, stage: int) -> tuple[Part, ...]:
        """Takes the oldest part that waits, and small neighbours of it."""
        lane = self._lanes[stage]
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
            and taken + lane.waiting[0].num_bytes <= self._sink.piece_bytes
            and self._are_neighbours(parts[-1].key, lane.waiting[0].key)
        ):
            parts.append(lane.waiting.pop(0))
            taken += parts[-1].num_bytes
        return tuple(parts)

    def _check_held(self) -> None:
        """Raises ``OptionsError`` if objects that stay alive leave another stage without what it needs."""
        kept = dict[str, float]()
        wanted = dict[str, float]()
        for stage, pool in zip(self._stages, self._pools, strict=True):
            for name, amount in stage.needs.amounts if pool is None else pool.held.items():
                if name == MEMORY:
                    continue
                least = 0 if pool is None else pool.least
                kept[name] = kept.get(name, 0) + least * amount
                if not least:
                    wanted[name] = max(wanted.get(name, 0), amount)
        for name, amount in kept.items():
            most, has = amount + wanted.get(name, 0), self._total.get(name, 0)
            if amount and most > has * (1 + 1e-9):
                raise OptionsError(
                    f"the stages of this pipeline need {most:g} {name} at once, since objects of classes keep "
                    f"theirs, and the engine has {has:g}; write concurrency=(0, n) for classes that may take turns, or "
                    "declare more in init()"
                )

    def _shrink(self) -> None:
        """Ends objects of classes that have nothing to do, where others lack what they hold."""
        now, lacking = self._now(), self._lacking()
        is_over = self._left() == 0 and not self._lanes[0].running
        for stage, pool in enumerate(self._pools, 1):
            lane = self._lanes[stage]
            is_over = is_over and not lane.waiting and not lane.running
            if pool is not None and pool.num_idle:
                # Where nothing more may wait, only the stage of the oldest part goes on.
                may_wait = self._has_room() or (
                    bool(lane.waiting) and self._is_oldest(lane.waiting[0].key)
                )
                wanted = not (lane.waiting and may_wait) and not lacking.isdisjoint(pool.held)
                pool.shrink(now, wanted=wanted, is_over=is_over)

    def _lacking(self) -> set[str]:
        """Returns the resources for want of which a stage with work has no task."""
        if all(pool is None or not pool.num_idle for pool in self._pools):
            return set()
        needs, slots = self._slots()
        free = self._free(slots)
        lacking = set[str]()
        for stage, lane in enumerate(self._lanes):
            if lane.running or not (lane.waiting if stage else self._left()):
                continue
            pool = self._pools[stage - 1] if stage else None
            wanted = needs[stage] if pool is None else pool.wanted
            lacking |= {name for name, amount in wanted.items() if amount > free.get(name, 0)}
        return lacking

    # --- order and memory --------------------------------------------------------------------------------------

    def _left(self) -> int:
        """Returns how many tasks of the source have not begun, or a guess above 0 if nobody knows."""
        if self._source_is_over:
            return 0
        if self._num_source_tasks is None:
            return UNKNOWN_TASKS
        return self._num_source_tasks - self._num_begun

    def _places(self) -> Iterator[Key]:
        """Yields the places of all that is not behind the last stage yet."""
        if self._left():
            yield (self._num_begun,)
        for lane in self._lanes:
            yield from lane.places()

    def _may_go(self, key: Key) -> bool:
        """Whether a part of the last stage is the next one."""
        if not self._stages[-1].needs.is_ordered:
            return True
        return all(key <= place for place in self._places())

    def _is_oldest(self, place: Key) -> bool:
        return all(place <= other for other in self._places())

    def _oldest_waits(self) -> bool:
        """Whether the oldest part waits for a task: those that wait for room may have the memory that it needs."""
        running = [work.position for lane in self._lanes for work in lane.running]
        waiting = [lane.waiting[0].key for lane in self._lanes if lane.waiting]
        return bool(running and waiting) and min(waiting) < min(running)

    def _are_neighbours(self, first: Key, second: Key) -> bool:
        made = (key for key, _ in self._made)
        return not any(first < place < second for place in itertools.chain(self._places(), made))

    def _has_room(self) -> bool:
        waiting = sum(lane.waiting_bytes for lane in self._lanes)
        return waiting + self._made_bytes < self._room.memory_bytes

    def _is_done(self) -> bool:
        return not self._left() and not self._made and not any(True for _ in self._places())

    def _look_at_oldest(self) -> None:
        """Waits a moment for the task that is to make the oldest part."""
        works = [
            (work.position, stage, work)
            for stage, lane in enumerate(self._lanes)
            for work in lane.running
        ]
        if works:
            _, stage, work = min(works, key=lambda one: one[0])
            self._take_one(stage, work, LOOK_SECONDS)

    def _now(self) -> float:
        return time.monotonic() - self._begun_at
