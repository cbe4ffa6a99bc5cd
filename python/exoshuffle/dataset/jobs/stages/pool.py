"""The objects of a user's class: actors, of which there are as many as the work wants, between two bounds.

An object is made when there is work for it and its resources are free. One that has been idle for a while ends, and so
does every one when its stage has nothing left to do. So another stage gets the resources.
"""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.dataset.jobs.stages.planning import StepsOfStage
from exoshuffle.dataset.jobs.stages.tasks import StageWorker
from exoshuffle.futures import remote
from exoshuffle.futures.actors import ActorHandle
from exoshuffle.futures.options import CPU, GPU
from exoshuffle.operators.steps.functions import MapBatches

#: The resource that stands for the working memory of tasks.
MEMORY = "memory of tasks"
#: An object that has been idle for so long ends; making one may take as long again.
IDLE_SECONDS = 10.0


class Pool:
    """The objects of one stage."""

    def __init__(self, stage: StepsOfStage, memory: int) -> None:
        self._stage = stage
        #: So many are kept, where memory has room for them.
        self.least, most = stage.needs.concurrency
        self.most = most or 1
        #: Resources that an object keeps as long as it lives. Idle ones leave CPUs to others: these are for calls.
        self.held = {name: amount for name, amount in stage.needs.amounts if name != CPU}
        amounts = dict(self.held)
        self.held[MEMORY] = float(memory)
        name = next(step.name for step in stage.steps if isinstance(step, MapBatches))
        self._made = remote(StageWorker.of(stage.steps)).options(
            num_cpus=0,
            num_gpus=amounts.pop(GPU, 0.0),
            resources=amounts,
            memory=memory,
            name=name,
        )
        #: Idle ones, each with the time since when.
        self._idle: list[tuple[ActorHandle, float]] = []
        self.num_workers = 0

    def begin(self, now: float) -> None:
        """Makes the objects that are always there."""
        taken = [self.take() for _ in range(self.least)]
        for worker in taken:
            self.give_back(worker, now)

    @property
    def num_idle(self) -> int:
        """The number of objects that have nothing to do."""
        return len(self._idle)

    @property
    def wanted(self) -> dict[str, float]:
        """The resources that are missing before an object is idle, or may be made."""
        return {} if self._idle or self.num_workers == self.most else self.held

    def take(self) -> ActorHandle:
        """Returns the object that was idle last, or a new one."""
        if self._idle:
            return self._idle.pop()[0]
        self.num_workers += 1
        return self._made.remote()

    def give_back(self, worker: ActorHandle, now: float) -> None:
        """Ends ``take``."""
        self._idle.append((worker, now))

    def forget(self) -> None:
        """Ends ``take`` for an object that has died."""
        self.num_workers -= 1

    def end(self) -> None:
        """Ends all idle objects. A traceback that somebody keeps may keep this pool, but not these."""
        self._idle.clear()

    def shrink(self, now: float, *, wanted: bool, is_over: bool) -> None:
        """Ends idle objects: all when the stage is over; those above the least that are idle for long, or ``wanted``.

        Args:
            now: The time.
            wanted: Whether another stage waits for resources.
            is_over: Whether the stage has nothing left to do.
        """
        least = 0 if is_over else self.least
        while (
            self._idle
            and self.num_workers > least
            and (is_over or wanted or now - self._idle[0][1] > IDLE_SECONDS)
        ):
            del self._idle[0]
            self.num_workers -= 1


def keep_what_fits(pools: Sequence[Pool | None], room: int) -> None:
    """Has pools keep no more objects than leave memory for one of each other class; none, where classes take turns."""
    kept = [pool for pool in pools if pool is not None]
    while kept and _kept_bytes(kept) > room:
        largest = max(kept, key=lambda pool: pool.least)
        if not largest.least:
            return
        largest.least -= 1


def _kept_bytes(pools: Sequence[Pool]) -> float:
    """Returns the memory of the objects that are kept, and of the largest one that comes and goes beside them."""
    others = (pool.held[MEMORY] for pool in pools if not pool.least)
    return sum(pool.least * pool.held[MEMORY] for pool in pools) + max(others, default=0.0)
