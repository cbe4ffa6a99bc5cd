"""The resources of a running pipeline: how much tasks need, how much there is, and which stage lacks some.

Objects of classes keep what they hold, whether they are busy or not. Tasks of other stages have the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.dataset.jobs.learning import totals
from exoshuffle.dataset.jobs.stages.estimating import Room
from exoshuffle.dataset.jobs.stages.parts import Lane
from exoshuffle.dataset.jobs.stages.planning import StepsOfStage, stage_memory_bytes
from exoshuffle.dataset.jobs.stages.pool import MEMORY, Pool
from exoshuffle.dataset.jobs.unshuffled import task_memory_bytes
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Engine
from exoshuffle.futures.options import CPU


def tasks_bytes(engine: Engine, handing_bytes: int) -> int:
    """Returns the memory for tasks of the source and of stages, and for the blocks that wait between them."""
    taken = engine.workers_bytes("process") + handing_bytes
    return engine.budget_bytes - taken


class Resources:
    """The resources of a running pipeline.

    Args:
        engine: The engine that runs the tasks.
        stages: The stages behind the source.
        pools: For each stage its objects, if it is one of a class.
        room: How much may wait between stages.
        handing_bytes: The working memory of a task that takes a block of the last stage; 0 if no task does.
    """

    def __init__(
        self,
        engine: Engine,
        stages: Sequence[StepsOfStage],
        pools: Sequence[Pool | None],
        room: Room,
        handing_bytes: int,
    ) -> None:
        self._engine, self._stages, self.pools = engine, stages, pools
        self._room, self._handing_bytes = room, handing_bytes
        self._total = totals(engine)

    def check_held(self) -> None:
        """Raises ``OptionsError`` if objects that stay alive leave another stage without what it needs."""
        kept = dict[str, float]()
        wanted = dict[str, float]()
        for stage, pool in zip(self._stages, self.pools, strict=True):
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
                    f"theirs, and the engine has {has:g}. Write concurrency=(0, n) for classes that may take turns, or "
                    "declare more in init()"
                )

    def slots(self, lanes: Sequence[Lane]) -> tuple[list[dict[str, float]], dict[str, float]]:
        """Returns the needs of each stage, and what there is.

        The bound of a stage is a resource of its own. Half a slot is none now, and lets the policy count with the
        stage.
        """
        memory = tasks_bytes(self._engine, self._handing_bytes) - self._room.memory_bytes
        slots = self._total | {MEMORY: float(memory)}
        for each in filter(None, self.pools):
            for name, amount in each.held.items():
                slots[name] = slots.get(name, 0) - each.num_workers * amount
        free = self._free(lanes, slots)
        needs = [{CPU: 1.0, MEMORY: float(task_memory_bytes(self._engine, "thread"))}]
        for index, (stage, pool) in enumerate(zip(self._stages, self.pools, strict=True), 1):
            amounts, most = self._needs(stage, pool, free)
            if most is not None:
                bound = f"stage {index}"
                amounts[bound], slots[bound] = 1.0, most
            needs.append(amounts)
        return needs, {name: max(0.5, amount) for name, amount in slots.items()}

    def _needs(
        self, stage: StepsOfStage, pool: Pool | None, free: dict[str, float]
    ) -> tuple[dict[str, float], float | None]:
        """Returns the needs of a task of a stage, and how many there may be at once; None if its needs tell that."""
        amounts = dict(stage.needs.amounts)
        amounts[MEMORY] = float(stage_memory_bytes(self._engine, stage))
        if pool is not None:
            rest = {name: amount for name, amount in amounts.items() if name not in pool.held}
            return rest, pool.num_workers + _growth(pool, free)
        most = stage.needs.concurrency.most
        if most or not stage.needs.amounts:
            return amounts, most or max(1, self._engine.num_cpus)
        return amounts, None

    def _free(self, lanes: Sequence[Lane], slots: dict[str, float]) -> dict[str, float]:
        """Returns what tasks that are no calls of objects leave of the resources."""
        free = dict(slots)
        free[MEMORY] -= len(lanes[0].running) * task_memory_bytes(self._engine, "thread")
        for stage, pool, lane in zip(self._stages, self.pools, lanes[1:], strict=True):
            if pool is None:
                for name, amount in stage.needs.amounts:
                    free[name] = free.get(name, 0) - amount * len(lane.running)
                free[MEMORY] -= len(lane.running) * stage_memory_bytes(self._engine, stage)
        return free

    def lacking(self, lanes: Sequence[Lane], left: int) -> set[str]:
        """Returns the resources for want of which a stage with work has no task, where objects of a class are idle.

        Args:
            lanes: The source, and the stages behind it.
            left: Tasks of the source that have not begun.
        """
        if all(pool is None or not pool.num_idle for pool in self.pools):
            return set()
        needs, slots = self.slots(lanes)
        free = self._free(lanes, slots)
        lacking = set[str]()
        for stage, lane in enumerate(lanes):
            if lane.running or not (lane.waiting if stage else left):
                continue
            pool = self.pools[stage - 1] if stage else None
            wanted = needs[stage] if pool is None else pool.wanted
            lacking |= {name for name, amount in wanted.items() if amount > free.get(name, 0)}
        return lacking


def _growth(pool: Pool, free: dict[str, float]) -> int:
    """Returns how many more objects a pool may have now."""
    by_resource = [int((free.get(name, 0) + 1e-9) // held) for name, held in pool.held.items()]
    return max(0, min([pool.most - pool.num_workers, *by_resource]))
