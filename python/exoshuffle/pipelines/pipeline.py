"""Pipelines as numbers: chains of stages with what their tasks take, make, need and last, for simulation.

Sizes are in partitions, as in Luan's dissertation (§2.5.4). Data is cut into partitions of one size, and a task takes
and makes a whole number of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.errors import OptionsError, shown


@dataclass(frozen=True)
class Stage:
    """One operator of a pipeline.

    Attributes:
        name: Its name in pictures.
        seconds: How long a task runs.
        takes: Partitions that a task takes; the last task may find fewer. 0 for the source, the first stage.
        makes: Partitions that a task makes, all at its end; 0 for the last stage, whose results leave the pipeline.
        needs: The amount that a task occupies of each resource.

    Raises:
        OptionsError: A value that cannot work.
    """

    name: str
    seconds: float
    takes: int = 1
    makes: int = 1
    needs: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1})

    def __post_init__(self) -> None:
        if not (is_number(self.seconds) and 0.001 <= self.seconds < math.inf):
            raise OptionsError(
                f"seconds of stage {self.name!r} is {shown(self.seconds)}; it must be a number from 0.001 on"
            )
        for name, count in (("takes", self.takes), ("makes", self.makes)):
            if not is_whole(count) or count < 0:
                raise OptionsError(
                    f"{name} of stage {self.name!r} is {shown(count)}; it must be a whole number from 0 on"
                )


@dataclass(frozen=True)
class Pipeline:
    """Stages, the work, and what they share.

    Attributes:
        stages: The stages, the source first.
        num_tasks: Tasks of the source.
        slots: The amount of each resource that tasks may occupy in all.
        memory: Most partitions that wait between stages. A running task's own do not count.

    Raises:
        OptionsError: No stage, or one that takes or makes what its place forbids.
    """

    stages: tuple[Stage, ...]
    num_tasks: int
    slots: Mapping[str, float]
    memory: int

    def __post_init__(self) -> None:
        if not self.stages:
            raise OptionsError("a pipeline has no stage; give at least one")
        for name, count in (("num_tasks", self.num_tasks), ("memory", self.memory)):
            if not is_whole(count) or count < 0:
                raise OptionsError(f"{name} is {shown(count)}; it must be a whole number from 0 on")
        for index, stage in enumerate(self.stages):
            if (stage.takes > 0) != (index > 0):
                raise OptionsError(
                    f"stage {stage.name!r} takes {stage.takes} partitions; the first takes 0, others 1 or more"
                )
            if (stage.makes > 0) != (index < len(self.stages) - 1):
                raise OptionsError(
                    f"stage {stage.name!r} makes {stage.makes} partitions; the last makes 0, others 1 or more"
                )

    def check_slots(self) -> None:
        """Raises ``OptionsError`` if a stage can never run a task."""
        for index, stage in enumerate(self.stages):
            if self.slots_of(index) < 1:
                raise OptionsError(
                    f"a task of stage {stage.name!r} needs {dict(stage.needs)}, and there is {dict(self.slots)}; "
                    "declare more slots"
                )

    def slots_of(self, stage: int) -> int:
        """Returns how many tasks of a stage could run at once, were it alone."""
        fitting = [
            math.floor(self.slots.get(name, 0) / amount)
            for name, amount in self.stages[stage].needs.items()
            if amount > 0
        ]
        return min(fitting, default=max(1, self.num_tasks))
