"""Runs a pipeline in virtual time under a policy, and returns the schedule that comes of it."""

from __future__ import annotations

from dataclasses import dataclass

from exoshuffle.pipelines.pipeline import Pipeline
from exoshuffle.pipelines.policies import Foresight, Policy
from exoshuffle.pipelines.world import TICKS, State, World


@dataclass(frozen=True)
class Run:
    """A task of a schedule.

    Attributes:
        stage: Its stage, by number.
        begun: When it began, in seconds.
        ended: When it ended.
        freed: When it gave its slots back: later than it ended if it had to wait for room.
    """

    stage: int
    begun: float
    ended: float
    freed: float


@dataclass(frozen=True)
class Schedule:
    """The tasks of a pipeline as they ran.

    Attributes:
        pipeline: The pipeline.
        runs: Its tasks, in the order in which they began.
        seconds: When the last one ended.
        most_waiting: Most partitions that waited between stages at once.
        spilled: Partitions that were put down beyond the limit because nothing could go on otherwise.
    """

    pipeline: Pipeline
    runs: tuple[Run, ...]
    seconds: float
    most_waiting: int
    spilled: int


def simulate(pipeline: Pipeline, policy: Policy | None = None) -> Schedule:
    """Returns the schedule of a pipeline under a policy, which knows the exact durations and sizes.

    Args:
        pipeline: The pipeline.
        policy: A new policy, since those that keep a budget remember it; default: ``Foresight``.

    Raises:
        OptionsError: A stage needs more than there is.

    Cost: 0.05 ms for a task; with ``Foresight`` 5 ms.
    """
    pipeline.check_slots()
    return _Simulation(pipeline, Foresight() if policy is None else policy).schedule()


class _Simulation:
    def __init__(self, pipeline: Pipeline, policy: Policy) -> None:
        self._world = World(pipeline)
        self._policy = policy
        self._now = 0
        self._spilled = self._most_waiting = 0
        stages = range(self._world.num_stages)
        self._begun: list[list[int]] = [[] for _ in stages]
        self._freed: list[list[int]] = [[] for _ in stages]
        self._order: list[int] = []

    def schedule(self) -> Schedule:
        world, state = self._world, self._world.start()
        while not world.is_done(state):
            state = self._begin_tasks(state)
            if any(state.running):
                passed, state = world.advance(state)
                self._now += passed
            else:
                spilled, state = world.relieve(state)
                self._spilled += spilled
            self._look_at(state)
        return Schedule(
            world.pipeline, self._runs(), self._now / TICKS, self._most_waiting, self._spilled
        )

    def _begin_tasks(self, state: State) -> State:
        world = self._world
        while (stage := self._policy.choose(world, state, self._now / TICKS)) is not None:
            state = self._begin(state, stage)
        if any(state.running) or any(state.stalled):
            return state
        # A policy that waits while nothing runs would wait for ever.
        for stage in world.beginning(state)[:1]:
            state = self._begin(state, stage)
        return state

    def _begin(self, state: State, stage: int) -> State:
        self._begun[stage].append(self._now)
        self._order.append(stage)
        state = self._world.begin(state, stage)
        self._look_at(state)
        return state

    def _look_at(self, state: State) -> None:
        self._most_waiting = max(self._most_waiting, sum(state.waiting))
        for stage, freed in enumerate(self._freed):
            busy = len(state.running[stage]) + len(state.stalled[stage])
            freed.extend([self._now] * (len(self._begun[stage]) - busy - len(freed)))

    def _runs(self) -> tuple[Run, ...]:
        # The tasks of a stage end, and give their slots back, in the order in which they began.
        times = [
            iter(zip(begun, freed, strict=True))
            for begun, freed in zip(self._begun, self._freed, strict=True)
        ]
        runs = []
        for stage in self._order:
            begun, freed = next(times[stage])
            ended = begun + self._world.ticks[stage]
            runs.append(Run(stage, begun / TICKS, ended / TICKS, freed / TICKS))
        return tuple(runs)
