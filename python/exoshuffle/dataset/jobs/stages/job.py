"""The job of a pipeline: a source, stages behind it, and the sink of whoever asks for the result."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator

from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.stages.planning import StepsOfStage
from exoshuffle.dataset.jobs.stages.running import Running
from exoshuffle.dataset.jobs.stages.skipped import SkippedRows
from exoshuffle.dataset.jobs.stages.tasks import hand_part
from exoshuffle.dataset.jobs.unshuffled import ScanJob, piece_bytes, task_memory_bytes
from exoshuffle.dataset.jobs.windows import WindowJob
from exoshuffle.futures import Engine, Ref, RefStream, remote, wait
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.sink import Sink
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.steps.step import executor_of, functions_bytes
from exoshuffle.plan.plan import ShufflePlan


@dataclass
class StagedJob:
    """Stages behind another job.

    Attributes:
        source: The other job: its tasks are those of the first stage.
        stages: The stages behind it.
        engine: The engine that runs them.
        skipped: Is told of rows that are skipped because functions failed for them.
    """

    source: Job
    stages: tuple[StepsOfStage, ...]
    engine: Engine
    skipped: SkippedRows

    @property
    def plan(self) -> ShufflePlan | None:
        """See ``Job``."""
        return self.source.plan

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``. A part is a block of the last stage; its work goes on while parts are taken."""
        num_tasks = self.source.num_tasks if isinstance(self.source, ScanJob | WindowJob) else None
        piece = BlocksSink(piece_bytes(self.engine))
        is_handed = not isinstance(sink, BlocksSink)
        handing_bytes = self._handing_bytes(sink) if is_handed else 0
        source = self.source.run(piece)
        running = Running(self.stages, source, num_tasks, piece, self.engine, handing_bytes)
        try:
            if not is_handed:
                yield from (RefStream(Made(ref)) for ref in running.parts())
            else:
                yield from self._handed(running, sink)
        finally:
            running.stop()
            self.skipped.add(running.skipped())

    def _handing_bytes(self, sink: Sink) -> int:
        """Returns the working memory of a task that hands a part to a sink."""
        executor = executor_of("thread", sink.all_steps)
        return task_memory_bytes(self.engine, executor) + functions_bytes(sink.all_steps)

    def _handed(self, running: Running, sink: Sink) -> Iterator[Ref | RefStream]:
        """Hands each part to the sink in a task; few of these wait, so that blocks do not heap up behind the stages."""
        hand = remote(
            functools.partial(hand_part, sink),
            num_returns=sink.num_returns,
            memory=self._handing_bytes(sink),
            name="hand on",
            executor=executor_of("thread", sink.all_steps),
        )
        ahead = deque[Ref]()
        for index, ref in enumerate(running.parts()):
            handed = hand.remote(index, ref)
            del ref
            if isinstance(handed, Ref):
                ahead.append(handed)
                if len(ahead) > self.engine.num_cpus:
                    wait([ahead.popleft()])
            yield handed


class Made:
    """The stream of a part that is there: a ``StreamHandle`` of one item."""

    def __init__(self, ref: Ref) -> None:
        self._ref: Ref | None = ref

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        del timeout
        ref, self._ref = self._ref, None
        return ref if index == 0 else None

    def limit_ahead(self, count: int) -> None:
        """See ``StreamHandle``: nothing is ahead."""

    def cancel(self) -> bool:
        """See ``StreamHandle``: the task is done."""
        return False

    def drop(self) -> None:
        """See ``StreamHandle``."""
        self._ref = None
