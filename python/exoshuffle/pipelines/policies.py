"""Policies: which stage of a pipeline begins its next task, by measured durations and sizes.

Guarantee: a policy sees numbers only (``world``), and has no clock. So the same policy schedules tasks that run and
tasks that are simulated. The stage that it chooses can begin: it has its input and its slots.

``Foresight`` is the one that pipelines run under, and ``Balanced`` where tasks are too short for it. They are compared
with the others. ``Budgeted`` is Algorithm 1 of Luan's dissertation with the budget of Algorithm 2, and ``Conservative``
its policy that never spills. ``Static`` and ``Staged`` do what stream and batch processors do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from exoshuffle.pipelines.budget import (
    credited,
    ideal_seconds,
    paced_seconds,
    tasks_of_each,
    work_of_each,
)
from exoshuffle.pipelines.pipeline import Pipeline
from exoshuffle.pipelines.world import State, World


class Policy(Protocol):
    """Chooses stages. A policy may remember what it chose, so each pipeline needs a new one."""

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """Returns the stage whose next task begins now; None to wait until something changes.

        Args:
            world: The pipeline, with what is known of durations and sizes.
            state: How it stands.
            seconds: Time since its start.
        """


class Budgeted:
    """Algorithm 1: equalizes the rates of stages, and lets source tasks in as Algorithm 2 grants them.

    Args:
        pace: How Algorithm 2 counts the time of a source task: ``paced_seconds``, or ``summed_seconds`` as written.
    """

    def __init__(self, pace: Callable[[World, State], float] = paced_seconds) -> None:
        self._pace = pace
        self._budget: float | None = None
        self._credited_at = 0.0

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """See ``Policy``. The source goes first while the budget has its output; then the stage with least output."""
        pipeline = world.pipeline
        made = pipeline.stages[0].makes
        if self._budget is None:
            self._budget = float(pipeline.memory)
        passed, self._credited_at = seconds - self._credited_at, seconds
        pace, most = self._pace(world, state), float(max(0, pipeline.memory - world.held(state)))
        self._budget = credited(self._budget, made, passed, pace, most)
        if world.can_begin(state, 0) and self._budget >= made:
            self._budget -= made
            return 0
        taken = world.promised(state)
        fitting = [stage for stage in world.beginning(state) if world.fits(stage, taken)]
        return min(fitting, key=lambda stage: (world.made(state, stage), -stage), default=None)


class Conservative:
    """Begins the last stage whose output surely has room, beside that of all tasks that run.

    Guarantee: nothing is spilled if the memory has the output of a source task and ``reserve`` of the source.
    """

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """See ``Policy``."""
        del seconds
        taken = world.promised(state)
        for stage in world.beginning(state):
            if world.fits(stage, taken):
                return stage
        return None


class Balanced:
    """Keeps the slots that stages have in the proportion of their work, and counts on what is taken meanwhile.

    A task begins if its output surely has room. It also begins if it will have room at its end, by the pace at which
    the stages behind take partitions. The guess may be wrong, so they must have slots enough to take all from it then.

    Guarantee: nothing is spilled if the memory has the output of a source task and ``reserve`` of the source.

    Why: ``Conservative`` counts on nothing. With 5 partitions between stages it takes 6.3 times as long as it must for
    Luan's pipeline (figure 2.11), and this one 1.08 times.
    """

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """See ``Policy``. Of stages that are as far behind, the last goes first: it frees most."""
        del seconds
        taken, work = world.promised(state), work_of_each(world.pipeline)
        return min(
            (
                stage
                for stage in world.beginning(state)
                if self._finds_room(world, state, stage, taken)
            ),
            key=lambda stage: (world.num_busy(state, stage) / work[stage], -stage),
            default=None,
        )

    def _finds_room(self, world: World, state: State, stage: int, taken: int) -> bool:
        """Whether the output of a stage's next task has room, or will have it and can wait for it."""
        if world.fits(stage, taken):
            return True
        if not world.leaves_slots(state, stage):
            return False
        if world.growth[stage] <= 0:  # more room is there at its end than now
            return True
        pipeline = world.pipeline
        made = tasks_of_each(pipeline)[stage] * pipeline.stages[stage].makes
        passed = pipeline.stages[stage].seconds / ideal_seconds(pipeline)
        return world.fits(stage, taken - made * passed)


class Eager:
    """Begins the last stage that can begin, whether its output has room or not; its tasks then wait for room."""

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """See ``Policy``."""
        del seconds
        return next(iter(world.beginning(state)), None)


class Broad:
    """Begins the first stage whose output has room: sources run ahead as far as memory lets them."""

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """See ``Policy``."""
        del seconds
        taken = world.promised(state)
        for stage in reversed(world.beginning(state)):
            if world.fits(stage, taken - world.reserve[stage]):
                return stage
        return None


class Static:
    """Gives each stage a number of tasks that run at once, as stream processors do.

    Args:
        parallelism: That number, for each stage.
    """

    def __init__(self, parallelism: Sequence[int]) -> None:
        self._parallelism = tuple(parallelism)

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """See ``Policy``."""
        del seconds
        for stage in world.beginning(state):
            if world.num_busy(state, stage) < self._parallelism[stage]:
                return stage
        return None


class Shared(Static):
    """Gives each stage the share of its resource that its work has of all the work there, in whole tasks."""

    def __init__(self, pipeline: Pipeline) -> None:
        works = work_of_each(pipeline)
        shares = []
        for index, stage in enumerate(pipeline.stages):
            beside = sum(
                work
                for work, other in zip(works, pipeline.stages, strict=True)
                if other.needs.keys() & stage.needs.keys()
            )
            shares.append(max(1, round(pipeline.slots_of(index) * works[index] / beside)))
        super().__init__(shares)


class Staged:
    """Ends each stage before the next one begins, as batch processors do. Blocks that do not fit are spilled."""

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """See ``Policy``."""
        del seconds
        for stage in reversed(world.beginning(state)):
            if stage == 0 or world.is_over(state, stage - 1, waiting=False):
                return stage
        return None


class Foresight:
    """Follows ``Balanced``, unless another choice promises an earlier end when all are played out for a while.

    Choices are the stages that can begin, and waiting for the next end of a task. Each is played out under several
    policies. The rest then counts by the least time that it can take.

    Why: Algorithm 1 takes no account of slots that tasks keep while they wait for room. Of 10,000 random pipelines its
    worst hundredth took more than twice as long as the optimum; see ``docs/how-the-scheduler-decides.md``.

    Args:
        horizon: Ends of tasks that are played out. Cost: about 0.1 ms for each, choice and policy.
    """

    def __init__(self, horizon: int = 12) -> None:
        self._horizon = horizon
        self._own = Balanced()
        self._played: tuple[Policy, ...] = (self._own, Conservative(), Eager(), Broad())

    def choose(self, world: World, state: State, seconds: float) -> int | None:
        """See ``Policy``."""
        stages = world.beginning(state)
        later: dict[int | None, tuple[int, State]] = {
            stage: (0, world.begin(state, stage)) for stage in stages
        }
        if stages and any(state.running):
            later[None] = world.advance(state)
        if len(later) <= 1:
            return next(iter(later), None)
        played = (*self._played, Shared(world.pipeline))
        ends = {
            choice: min(passed + self._played_out(world, after, policy) for policy in played)
            for choice, (passed, after) in later.items()
        }
        own, best = self._own.choose(world, state, seconds), min(ends, key=lambda one: ends[one])
        gained = ends.get(own, NEVER) - ends[best]
        return best if gained > GAIN * min(world.ticks) else own

    def _played_out(self, world: World, state: State, policy: Policy) -> int:
        """Returns the ticks until all is done, as far as can be told after ``horizon`` ends of tasks."""
        ticks = 0
        for _ in range(self._horizon):
            state = _begun(world, state, policy)
            if any(state.running):
                passed, state = world.advance(state)
                ticks += passed
            elif any(state.stalled):
                return NEVER
            else:
                break
        return ticks + world.least_ticks(state)


#: A choice that gains less than this part of the shortest task is no better: what lies behind the horizon is a guess.
#: Without it, half of Luan's pipeline with 5 partitions between stages took 88.5 s, and not 85.
GAIN = 0.25
#: Ticks of a choice behind which nothing can go on without spilling.
NEVER = 10**12


def _begun(world: World, state: State, policy: Policy) -> State:
    """Returns the state after all tasks began that a policy would begin; at least one, if nothing runs."""
    while (stage := policy.choose(world, state, 0.0)) is not None:
        state = world.begin(state, stage)
    if not any(state.running):
        for stage in world.beginning(state)[:1]:
            state = world.begin(state, stage)
    return state
