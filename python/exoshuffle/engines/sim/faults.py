"""The faults of a simulation: workers and nodes that die, slow tasks, lost objects, by script or by seed.

Guarantee: whether an attempt fails depends on the task's name, its number and the attempt, not on when it runs. So a
schedule that differs in one place does not change what else goes wrong.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

#: ``before``: the worker dies before the function has run; ``after``: it has run, and its result is gone.
Death = Literal["before", "after"]


@dataclass(frozen=True)
class Faults:
    """A script of faults. It names tasks by their name, their number under that name (from 0) and the attempt (from 1).

    Attributes:
        deaths: Attempts whose worker dies.
        slow: Attempts that take so many times as long.
        losses: Objects that are lost so many seconds after their task has made them, by its name and number.
        node_deaths: Nodes that die at a time, with what they have.
    """

    deaths: Mapping[tuple[str, int, int], Death] = field(default_factory=dict)
    slow: Mapping[tuple[str, int, int], float] = field(default_factory=dict)
    losses: Mapping[tuple[str, int], float] = field(default_factory=dict)
    node_deaths: Sequence[tuple[float, str]] = ()

    def death(self, name: str, number: int, attempt: int) -> Death | None:
        """Returns how the worker of an attempt dies; None if it lives."""
        return self.deaths.get((name, number, attempt))

    def slowness(self, name: str, number: int, attempt: int) -> float:
        """Returns how many times as long an attempt takes."""
        return self.slow.get((name, number, attempt), 1.0)

    def loss_seconds(self, name: str, number: int, attempt: int) -> float | None:
        """Returns after how many seconds the result of an attempt is lost; None if it stays."""
        return self.losses.get((name, number)) if attempt == 1 else None


@dataclass(frozen=True)
class SeededFaults(Faults):
    """Faults that a seed draws.

    Attributes:
        seed: Decides them all.
        death_percent: Attempts whose worker dies.
        slow_percent: Attempts that take up to ``slow_most`` times as long.
        slow_most: See there.
        loss_percent: Results that are lost within ``loss_seconds_most``.
        loss_seconds_most: See there.
        attempts: Later attempts do not fail: the search looks for wrong rows, not for tasks that never succeed.
    """

    seed: int = 0
    death_percent: float = 8
    slow_percent: float = 10
    slow_most: float = 20
    loss_percent: float = 8
    loss_seconds_most: float = 0.05
    attempts: int = 3

    def death(self, name: str, number: int, attempt: int) -> Death | None:
        """See ``Faults``."""
        drawn = self._draw("death", name, number, attempt)
        if attempt > self.attempts or 100 * drawn.random() >= self.death_percent:
            return super().death(name, number, attempt)
        return "before" if drawn.random() < 0.5 else "after"

    def slowness(self, name: str, number: int, attempt: int) -> float:
        """See ``Faults``."""
        drawn = self._draw("slow", name, number, attempt)
        if 100 * drawn.random() >= self.slow_percent:
            return super().slowness(name, number, attempt)
        return drawn.uniform(1, self.slow_most)

    def loss_seconds(self, name: str, number: int, attempt: int) -> float | None:
        """See ``Faults``."""
        drawn = self._draw("loss", name, number, attempt)
        if attempt > self.attempts or 100 * drawn.random() >= self.loss_percent:
            return super().loss_seconds(name, number, attempt)
        return drawn.uniform(0, self.loss_seconds_most)

    def _draw(self, what: str, name: str, number: int, attempt: int) -> random.Random:
        return random.Random(f"{self.seed} {what} {name} {number} {attempt}")
