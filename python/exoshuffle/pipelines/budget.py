"""Algorithm 2 of Luan's dissertation: how fast a pipeline takes new data in, by measured durations and sizes.

Two ways to count what the output of a source task costs. The algorithm as it is written adds the stages up
(``summed_seconds``). Stages overlap, however, so ours takes the slowest (``paced_seconds``). With 2 s of work on the
CPUs and 1 s on the GPUs, a source task may begin every 2 s, not every 3.
"""

from __future__ import annotations

import math

from exoshuffle.pipelines.pipeline import Pipeline
from exoshuffle.pipelines.world import State, World


def summed_seconds(world: World, state: State) -> float:
    """Returns Algorithm 2's P: the seconds of the output of a source task in all stages, each on the slots it has now.

    It is infinite while a stage has no slots: nothing leaves the pipeline then.
    """
    return sum(_costs(world, state))


def paced_seconds(world: World, state: State) -> float:
    """Returns the seconds of the output of a source task in the slowest stage, as above."""
    return max(_costs(world, state))


def _costs(world: World, state: State) -> list[float]:
    pipeline = world.pipeline
    costs = []
    for stage, tasks in enumerate(tasks_of_each(pipeline)):
        slots = world.num_slots(state, stage)
        costs.append(tasks * pipeline.stages[stage].seconds / slots if slots else math.inf)
    return costs


def tasks_of_each(pipeline: Pipeline) -> list[float]:
    """Returns how many tasks of each stage follow from one of the source: the ratios of what they make and take."""
    tasks, made = list[float](), 0.0
    for stage in pipeline.stages:
        tasks.append(made / stage.takes if stage.takes else 1.0)
        made = tasks[-1] * stage.makes
    return tasks


def work_of_each(pipeline: Pipeline) -> list[float]:
    """Returns the seconds of work in each stage that follow from one task of the source."""
    return [
        tasks * stage.seconds
        for tasks, stage in zip(tasks_of_each(pipeline), pipeline.stages, strict=True)
    ]


def ideal_seconds(pipeline: Pipeline) -> float:
    """Returns the seconds of the output of a source task where the scarcest resource is never idle."""
    works = list(zip(work_of_each(pipeline), pipeline.stages, strict=True))
    return max(
        sum(work * stage.needs.get(name, 0) for work, stage in works) / slots
        for name, slots in pipeline.slots.items()
    )


def credited(budget: float, made: float, elapsed: float, seconds: float, most: float) -> float:
    """Returns the budget after time has passed: it grows by the output of a source task in every ``seconds``.

    Args:
        budget: The budget before.
        made: Size of the output of a source task.
        elapsed: Seconds that have passed.
        seconds: Of ``summed_seconds`` or ``paced_seconds``.
        most: The budget grows no larger: time in which no source task could begin is no credit.
    """
    return min(most, budget + made * elapsed / seconds)
