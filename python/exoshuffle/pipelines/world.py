"""The rules of simulated pipelines: how a state becomes the next one when a task begins or time passes.

The simulator and the solver go by the same rules, so a simulated schedule is never shorter than the optimum.

A task takes its partitions when it begins. Its partitions wait between stages if there is room. Otherwise the task
keeps its slots, and the next stage may take the partitions from it (Luan's dissertation, figure 2.4).

A state is a tuple, so that equal states are one in a set. Tasks of a stage are alike, and so are slots: a state holds
numbers of tasks, not tasks. Of these the solver's two reductions come for free: symmetry and temporal equivalence.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from exoshuffle.pipelines.pipeline import Pipeline

#: Times are whole numbers of milliseconds: sums of fractions would tell equal states apart.
TICKS = 1000


class State(NamedTuple):
    """A moment of a simulated pipeline.

    Attributes:
        left: Tasks of the source that have not begun.
        waiting: For each stage, partitions that it has made and that wait between stages.
        running: For each stage, the ticks that each of its running tasks has left, in ascending order.
        stalled: For each stage, the partitions that finished tasks could not put down, the oldest task first.
    """

    left: int
    waiting: tuple[int, ...]
    running: tuple[tuple[int, ...], ...]
    stalled: tuple[tuple[int, ...], ...]


class World:
    """The rules for one pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        stages = pipeline.stages
        self.num_stages = len(stages)
        self.ticks = [round(stage.seconds * TICKS) for stage in stages]
        self._takes = [stage.takes for stage in stages]
        self._makes = [stage.makes for stage in stages]
        self._needs = [
            [(name, amount) for name, amount in stage.needs.items() if amount > 0]
            for stage in stages
        ]
        #: For each stage, how much more a task makes than it takes.
        self.growth = [
            stage.makes - (stage.takes if index else 0) for index, stage in enumerate(stages)
        ]
        #: For each stage, the room that the stages behind it may need so that none waits for ever.
        self.reserve = [0] * len(stages)
        for index in range(len(stages) - 2, -1, -1):
            behind = max(0, self.growth[index + 1]) if index + 1 < len(stages) - 1 else 0
            self.reserve[index] = self.reserve[index + 1] + behind + stages[index + 1].takes - 1
        #: For each stage, the tasks that must be able to hold slots at once so that the next stage finds its input.
        self._feeding = [
            1 - (1 - behind.takes) // stage.makes for stage, behind in itertools.pairwise(stages)
        ] + [1]
        self._tails = [0] * (len(stages) + 1)
        for index in reversed(range(len(stages))):
            self._tails[index] = self._tails[index + 1] + self.ticks[index]
        self._amounts = {
            name: [
                (index, stage.needs[name])
                for index, stage in enumerate(stages)
                if stage.needs.get(name, 0) > 0
            ]
            for name in pipeline.slots
        }

    def start(self) -> State:
        """Returns the state before anything began."""
        nothing: tuple[tuple[int, ...], ...] = ((),) * self.num_stages
        return State(self.pipeline.num_tasks, (0,) * self.num_stages, nothing, nothing)

    def is_over(self, state: State, stage: int, *, waiting: bool = True) -> bool:
        """Whether no task of a stage, nor of one before, runs or can come; without ``waiting``, holds room either."""
        if state.left:
            return False
        for index in range(stage + 1):
            if state.running[index] or (waiting and state.stalled[index]):
                return False
            if index < stage and self.made(state, index):
                return False
        return True

    def is_done(self, state: State) -> bool:
        """Whether all work is done."""
        return self.is_over(state, self.num_stages - 1)

    def made(self, state: State, stage: int) -> int:
        """Returns the partitions that a stage has made and no task has taken."""
        return state.waiting[stage] + sum(state.stalled[stage])

    def has_input(self, state: State, stage: int) -> bool:
        """Whether a task of a stage would find its partitions, or the last ones that are left."""
        if stage == 0:
            return state.left > 0
        made = self.made(state, stage - 1)
        return made >= self._takes[stage] or (made > 0 and self._is_fed_no_more(state, stage))

    def _is_fed_no_more(self, state: State, stage: int) -> bool:
        """Whether what a stage finds is all that will ever come: tasks that wait to put it down have ended."""
        if state.left or any(state.running[index] for index in range(stage)):
            return False
        return not any(self.made(state, index) for index in range(stage - 1))

    def has_slot(self, state: State, stage: int) -> bool:
        """Whether a task of a stage has what it needs."""
        for name, amount in self._needs[stage]:
            used = amount
            for index, needed in self._amounts[name]:
                used += needed * (len(state.running[index]) + len(state.stalled[index]))
            if used > self.pipeline.slots[name] + 1e-9:
                return False
        return True

    def can_begin(self, state: State, stage: int) -> bool:
        """Whether a task of a stage has its input and its slots."""
        return self.has_input(state, stage) and self.has_slot(state, stage)

    def beginning(self, state: State) -> list[int]:
        """Returns the stages of which a task can begin, the last one first."""
        stages = reversed(range(self.num_stages))
        return [stage for stage in stages if self.can_begin(state, stage)]

    def num_busy(self, state: State, stage: int) -> int:
        """Returns how many tasks of a stage have slots."""
        return len(state.running[stage]) + len(state.stalled[stage])

    def num_slots(self, state: State, stage: int) -> int:
        """Returns how many tasks of a stage could run beside what other stages have now."""
        most = self.pipeline.slots_of(stage)
        for name, amount in self._needs[stage]:
            others = sum(
                needed * self.num_busy(state, index)
                for index, needed in self._amounts[name]
                if index != stage
            )
            most = min(most, int((self.pipeline.slots[name] - others + 1e-9) // amount))
        return max(0, most)

    def promised(self, state: State) -> int:
        """Returns the partitions that wait, that tasks hold, and that running tasks will make."""
        coming = sum(
            len(running) * makes for running, makes in zip(state.running, self._makes, strict=True)
        )
        return self.held(state) + coming

    def held(self, state: State) -> int:
        """Returns the partitions that wait, and those that tasks hold."""
        return sum(state.waiting) + sum(map(sum, state.stalled))

    def fits(self, stage: int, taken: float) -> bool:
        """Whether the output of a stage's next task has room beside what is ``taken``, and ``reserve`` with it."""
        kept = self.growth[stage] + self.reserve[stage]
        return stage == self.num_stages - 1 or taken + kept <= self.pipeline.memory

    def leaves_slots(self, state: State, stage: int) -> bool:
        """Whether beside a stage's next task those behind have slots enough to take what tasks of it hold.

        Then its output needs no room: if it finds none, its task waits until the next stage has taken all.
        """
        for name, amounts in self._amounts.items():
            used = 0.0
            for index, amount in amounts:
                busy = self.num_busy(state, index)
                kept = self._feeding[index] if index > stage else 0
                used += amount * (busy + 1 if index == stage else max(busy, kept))
            if used > self.pipeline.slots[name] + 1e-9:
                return False
        return True

    def begin(self, state: State, stage: int) -> State:
        """Returns the state after a task of a stage began; it must have its input and its slots."""
        running = list(state.running)
        running[stage] = tuple(sorted((*running[stage], self.ticks[stage])))
        if stage == 0:
            return state._replace(left=state.left - 1, running=tuple(running))
        waiting = list(state.waiting)
        stalled = [list(each) for each in state.stalled]
        missing = self._takes[stage] - waiting[stage - 1]
        waiting[stage - 1] = max(0, -missing)
        own = stalled[stage - 1]
        while own and missing > 0:
            given = min(missing, own[0])
            missing -= given
            own[0] -= given
            if not own[0]:
                own.pop(0)
        return self._settled(state.left, waiting, tuple(running), stalled)

    def advance(self, state: State) -> tuple[int, State]:
        """Returns how long it takes until the next tasks end, and the state then; some task must run."""
        passed = min(each[0] for each in state.running if each)
        waiting = list(state.waiting)
        stalled = [list(each) for each in state.stalled]
        running = []
        for stage, each in enumerate(state.running):
            ended = sum(1 for ticks in each if ticks == passed)
            running.append(tuple(ticks - passed for ticks in each[ended:]))
            if self._makes[stage]:
                stalled[stage].extend([self._makes[stage]] * ended)
        return passed, self._settled(state.left, waiting, tuple(running), stalled)

    def relieve(self, state: State) -> tuple[int, State]:
        """Puts down what the last stalled stage's oldest task holds, beyond the limit; returns how much that was."""
        stage = max(index for index, each in enumerate(state.stalled) if each)
        held, *others = state.stalled[stage]
        waiting, stalled = list(state.waiting), list(state.stalled)
        waiting[stage] += held
        stalled[stage] = tuple(others)
        return held, state._replace(waiting=tuple(waiting), stalled=tuple(stalled))

    def _settled(
        self,
        left: int,
        waiting: list[int],
        running: tuple[tuple[int, ...], ...],
        stalled: list[list[int]],
    ) -> State:
        """Puts down what tasks hold as far as there is room, that of the last stages first."""
        room = self.pipeline.memory - sum(waiting)
        for stage in reversed(range(self.num_stages)):
            own = stalled[stage]
            while own and room > 0:
                put = min(room, own[0])
                room -= put
                waiting[stage] += put
                own[0] -= put
                if not own[0]:
                    own.pop(0)
        return State(left, tuple(waiting), running, tuple(map(tuple, stalled)))

    def least_ticks(self, state: State) -> int:
        """Returns a time that no schedule from this state on undercuts.

        Each resource needs the time of its work. Before it begins, its first input has to come; after it, what its last
        task made goes through all later stages.
        """
        arrivals, tasks, tails = self._arrivals(state), self._tasks(state), self._tails
        best = 0
        for name, slots in self.pipeline.slots.items():
            work, head, tail = 0.0, math.inf, math.inf
            for stage, amount in self._amounts[name]:
                rests = state.running[stage]
                if rests or tasks[stage]:
                    work += amount * (tasks[stage] * self.ticks[stage] + sum(rests))
                    head = min(head, 0 if rests else arrivals[stage])
                    tail = min(tail, tails[stage + 1])
            if work:
                best = max(best, math.ceil(head + work / slots + tail - 1e-6))
        for stage, rests in enumerate(state.running):
            if tasks[stage]:
                best = max(best, arrivals[stage] + tails[stage])
            if rests:
                best = max(best, rests[-1] + tails[stage + 1])
        return best

    def _tasks(self, state: State) -> list[int]:
        """Returns how many tasks of each stage have not begun, at the least."""
        tasks = [state.left]
        for stage in range(self.num_stages - 1):
            coming = (tasks[stage] + len(state.running[stage])) * self._makes[stage]
            tasks.append(-(-(coming + self.made(state, stage)) // self._takes[stage + 1]))
        return tasks

    def _arrivals(self, state: State) -> list[int]:
        """Returns for each stage when its next input can be there at the earliest."""
        arrivals = [0]
        for stage in range(self.num_stages - 1):
            if self.made(state, stage):
                arrivals.append(0)
            elif state.running[stage]:
                arrivals.append(state.running[stage][0])
            else:
                arrivals.append(arrivals[-1] + self.ticks[stage])
        return arrivals
