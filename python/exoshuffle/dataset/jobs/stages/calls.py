"""The tasks of stages: submits them, and makes the calls of an object that died again with another one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from exoshuffle.dataset.jobs.stages.parts import Part, Work
from exoshuffle.dataset.jobs.stages.planning import StepsOfStage, stage_memory_bytes
from exoshuffle.dataset.jobs.stages.pool import Pool
from exoshuffle.dataset.jobs.stages.tasks import run_stage
from exoshuffle.errors import ActorDiedError
from exoshuffle.futures import ActorHandle, Engine, RefStream, remote
from exoshuffle.futures.api import RemoteGenerator
from exoshuffle.futures.options import CPU, GPU
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.steps.step import executor_of

#: Blocks that a task may be ahead of the loop.
AHEAD = 4
#: Attempts of a call whose object died.
MAX_ATTEMPTS = 3


class Calls:
    """The tasks of the stages of a running pipeline.

    Args:
        stages: The stages behind the source.
        pools: For each stage its objects, if it is one of a class.
        sink: Makes the blocks between stages.
        engine: The engine that runs the tasks.
    """

    def __init__(
        self,
        stages: Sequence[StepsOfStage],
        pools: Sequence[Pool | None],
        sink: BlocksSink,
        engine: Engine,
    ) -> None:
        self._pools, self._sink, self._engine = pools, sink, engine
        self._index = itertools.count()
        self._tasks = {
            index: self._task_of(stage)
            for index, (stage, pool) in enumerate(zip(stages, pools, strict=True), 1)
            if pool is None
        }

    def begin(self, stage: int, inputs: tuple[Part, ...], now: float) -> Work:
        """Begins a task of a stage."""
        pool = self._pools[stage - 1]
        if pool is None:
            worker, stream = None, self._submitted(stage, inputs)
        else:
            worker, stream = self._called(pool, inputs)
        return Work(inputs[0].key, now, stream, inputs, worker)

    def begin_again(self, stage: int, work: Work, error: ActorDiedError) -> None:
        """Calls another object with the same blocks, if the object of the class died; otherwise raises the error."""
        pool = self._pools[stage - 1] if stage else None
        if pool is None:  # it is of a user's function that has actors of its own
            raise error
        pool.forget()
        if work.attempt == MAX_ATTEMPTS:
            raise error
        work.attempt += 1
        work.skipped, work.held = work.num_made, None
        work.worker, work.stream = self._called(pool, work.inputs)

    def end(self, stage: int, work: Work, now: float) -> None:
        """Gives the object that a task called back."""
        pool = self._pools[stage - 1] if stage else None
        if pool is not None and work.worker is not None:
            pool.give_back(work.worker, now)
            work.worker = None

    def _task_of(self, stage: StepsOfStage) -> RemoteGenerator:
        """Returns the task of a stage. It has the steps, so that they are pickled once, and not for each task."""
        amounts = dict(stage.needs.amounts)
        return remote(
            functools.partial(run_stage, stage.steps),
            num_returns="streaming",
            num_cpus=amounts.pop(CPU, 0.0),
            num_gpus=amounts.pop(GPU, 0.0),
            resources=amounts,
            memory=stage_memory_bytes(self._engine, stage),
            name=stage.name,
            executor=executor_of("thread", stage.steps),
        )

    def _submitted(self, stage: int, inputs: tuple[Part, ...]) -> RefStream:
        refs = (part.ref for part in inputs)
        stream = self._tasks[stage].remote(next(self._index), self._sink, *refs)
        stream.limit_ahead(AHEAD)
        return stream

    def _called(self, pool: Pool, inputs: tuple[Part, ...]) -> tuple[ActorHandle, RefStream]:
        worker = pool.take()
        run = worker.run.options(num_returns="streaming")
        stream = run.remote(next(self._index), self._sink, *(part.ref for part in inputs))
        stream.limit_ahead(AHEAD)
        return worker, stream
