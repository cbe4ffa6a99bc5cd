"""Cuts a chain of steps into stages: steps of equal needs are one stage, so that their rows are not stored between."""

from __future__ import annotations

import math
from collections.abc import Sequence

from exoshuffle.dataset.jobs.unshuffled import SCAN_PART, piece_bytes
from exoshuffle.dataset.tree.nodes import StageNode
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures import Engine
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.needs import Needs
from exoshuffle.operators.steps.step import Step, executor_of, functions_bytes
from exoshuffle.plan.plan import enough_bytes
from exoshuffle.plan.workload import BUFFER_BYTES
from exoshuffle.units import format_bytes

#: Share of the budget, less worker processes, that may wait between stages; the rest is for their tasks.
WAITING_SHARE = 4


@dataclass(frozen=True)
class StepsOfStage:
    """The steps of a stage.

    Attributes:
        steps: The steps: functions of equal needs, or one class, and steps of ours behind them.
        needs: The resources that a task of it needs.
    """

    steps: tuple[Step, ...]
    needs: Needs

    @property
    def is_class(self) -> bool:
        """Whether its tasks are calls of objects that live longer than a task."""
        return any(isinstance(step, MapBatches) and step.is_class for step in self.steps)

    @property
    def makes_notes(self) -> bool:
        """Whether its tasks tell what they skip."""
        return any(isinstance(step, MapBatches) and step.on_error == "skip" for step in self.steps)

    @property
    def name(self) -> str:
        """Names of its functions, for people."""
        return " + ".join(step.name for step in self.steps if isinstance(step, MapBatches))

    def __str__(self) -> str:
        return f"{self.name} [{self.needs}]"


def fused(parts: Sequence[tuple[StageNode, tuple[Step, ...]]]) -> tuple[StepsOfStage, ...]:
    """Returns the stages of steps with needs of their own, each with the steps behind it that have none."""
    stages = list[StepsOfStage]()
    for piped, behind in parts:
        _append(stages, piped.step, piped.needs)
        for step in behind:
            # Steps of ours run wherever the rows are; functions without needs take a CPU.
            _append(stages, step, Needs() if step.is_function else stages[-1].needs)
    return tuple(stages)


def _append(stages: list[StepsOfStage], step: Step, needs: Needs) -> None:
    last = stages[-1] if stages else None
    starts_class = isinstance(step, MapBatches) and step.is_class
    joins_class = last is not None and last.is_class and step.is_function
    if last is None or last.needs != needs or starts_class or joins_class:
        stages.append(StepsOfStage((step,), needs))
    else:
        stages[-1] = StepsOfStage((*last.steps, step), needs)


def stage_memory_bytes(engine: Engine, stage: StepsOfStage) -> int:
    """Returns the working memory of a task of a stage, with what its functions declare.

    Its process has buffers of its own, and batches in hand: less of small blocks.
    """
    piece = piece_bytes(engine)
    buffers = min(BUFFER_BYTES, piece) if executor_of("thread", stage.steps) == "process" else 0
    return 2 * piece + buffers + functions_bytes(stage.steps)


def waiting_bytes(engine: Engine) -> int:
    """Returns how much may wait between the stages of a pipeline, where memory has room for that."""
    return (engine.budget_bytes - engine.workers_bytes("process")) // WAITING_SHARE


def most_of_tasks(engine: Engine, stages: Sequence[StepsOfStage]) -> int:
    """Returns the working memory of the largest task of stages that are no classes."""
    sizes = (stage_memory_bytes(engine, stage) for stage in stages if not stage.is_class)
    return max(sizes, default=0)


def check_room(engine: Engine, stages: Sequence[StepsOfStage], room: int) -> None:
    """Raises ``MemoryLimitError`` if a stage has no room for a single task."""
    largest = max(stages, key=lambda stage: stage_memory_bytes(engine, stage))
    needed, limit = stage_memory_bytes(engine, largest), engine.memory_limit
    if needed > room:
        # Of more memory, blocks between stages take their share. Blocks grow, and of these the task needs up to three,
        # and one of the source two.
        left = 1 - 1 / WAITING_SHARE - 5 / (SCAN_PART * engine.num_cpus)
        missing = math.ceil((needed - room) / left)
        raise MemoryLimitError(
            f"a task of {largest.name} needs {format_bytes(needed)}, and beside what waits between stages the memory "
            f"limit of {format_bytes(limit)} leaves {format_bytes(max(0, room))}; raise memory_limit to "
            f"{format_bytes(enough_bytes(limit, missing))}"
        )
