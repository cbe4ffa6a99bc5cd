"""The outcomes of tasks: arguments come, attempts fail or succeed, results are lost and made again.

Guarantee: a task that fails, fails with all that depend on it. Lost objects that it was made from are made again, too,
as far back as it takes, step by step and not by recursion. ``max_retries=0`` means that nothing is tried or made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from exoshuffle.engines.sim.clock.routines import Stopped, current_routine
from exoshuffle.engines.sim.objects.arguments import Group
from exoshuffle.engines.sim.objects.state import Copy, State, Status
from exoshuffle.engines.sim.tasks.scheduler import NotReadyError, Scheduler
from exoshuffle.engines.sim.tasks.task import Attempt, Place, Task
from exoshuffle.engines.sim.tasks.world import World
from exoshuffle.errors import (
    ActorDiedError,
    BlockLostError,
    TaskCancelledError,
    TaskError,
    WorkerDiedError,
)
from exoshuffle.futures.events import Observer, TaskFinished
from exoshuffle.late_dataclasses import dataclass

#: Deaths that come from outside do not count as failures, up to so many of a task.
MAX_DEATHS = 16
#: Errors that pass through tasks as they are.
_AS_IT_IS = (TaskError, ActorDiedError, BlockLostError, TaskCancelledError)


@dataclass(frozen=True)
class Ran:
    """An attempt that has succeeded: its task, its node, and when it ran."""

    name: str
    node: str
    start: float
    end: float


class Outcomes:
    """See above.

    Args:
        world: Has the time.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.observers: list[Observer] = []
        self.ran: list[Ran] = []
        #: Tasks that have not ended, in the order in which they were submitted.
        self.unfinished: dict[Task, None] = {}
        self.scheduler: Scheduler
        #: Takes calls of actors that are ready, and actors whose node has died.
        self.call_ready: Callable[[Task], None]
        self.actor_died: Callable[[Task, BaseException], None]
        #: Takes constructors and calls that are over.
        self.actor_task_over: Callable[[Task, BaseException | None], None]

    # --- arguments ---------------------------------------------------------------------------------------------

    def await_arguments(self, task: Task) -> None:
        """Starts a task once its arguments are there."""
        self.unfinished[task] = None
        missing = self._missing(task)
        if not missing:
            self._arguments_came(task)
            return
        left = len(missing)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._world.clock.soon(lambda: self._arguments_came(task))

        for each in missing:
            each.when_over(one_less)

    def is_ready(self, task: Task) -> bool:
        """Whether all arguments of a task are there."""
        return not self._missing(task, remake=False)

    def _missing(self, task: Task, *, remake: bool = True) -> list[State | Group]:
        missing = [each for each in task.awaited if not each.is_over]
        for each in missing if remake else ():
            for state in each.to_ask_for() if isinstance(each, Group) else [each]:
                self.need(state)
        # Some fail at once, when nothing can make them again.
        return [each for each in missing if not each.is_over]

    def _arguments_came(self, task: Task) -> None:
        if task.is_over or task not in self.unfinished:
            return
        if self._missing(task):
            self.await_arguments(task)
            return
        errors = (each.error for each in task.awaited)
        error = next((each for each in errors if each is not None), None)
        if error is not None:
            self.fail(task, error)
        elif task.actor is not None and not task.is_constructor:
            self.call_ready(task)
        else:
            self.scheduler.add(task)

    # --- attempts ----------------------------------------------------------------------------------------------

    def failed(self, attempt: Attempt, error: BaseException) -> None:
        """Takes an attempt that has failed; the task is tried again, or has failed."""
        task = attempt.task
        self._world.clock.note(
            "failed", task.name, task.serial, task.attempt_number, type(error).__name__
        )
        self.scheduler.release(attempt)
        if task.is_over:
            return
        if isinstance(error, NotReadyError) or self._may_try_again(task, error):
            self.await_arguments(task)
            if task.actor is not None:
                self.actor_task_over(task, None)
        elif isinstance(error, _AS_IT_IS):
            self.fail(task, error)
        else:
            number = max(1, task.attempt_number)
            self.fail(task, TaskError.of(task.name, number, error, attempt.place.name))

    def _may_try_again(self, task: Task, error: BaseException) -> bool:
        if task.options.max_retries == 0 or not getattr(error, "retryable", False):
            return False
        if isinstance(error, WorkerDiedError):
            task.num_deaths += 1
            self._world.counts["num_deaths"] += 1
            return task.num_deaths <= MAX_DEATHS
        task.num_failures += 1
        return task.num_failures <= task.options.max_retries

    def succeeded(self, attempt: Attempt) -> None:
        """Takes an attempt whose results are kept."""
        task = attempt.task
        seconds = self._world.clock.now - (attempt.started or 0.0)
        self._world.counts["num_tasks"] += 1
        self._world.clock.note("done", task.name, task.serial, task.attempt_number)
        if not task.is_constructor:
            self.scheduler.release(attempt)
        self._end(task)
        if task.actor is not None:
            self.actor_task_over(task, None)
        now = self._world.clock.now
        self.ran.append(Ran(task.name, attempt.place.name, now - seconds, now))
        event = TaskFinished(task.name, task.attempt_number, seconds)
        for observer in list(self.observers):
            observer(event)

    def fail(self, task: Task, error: BaseException) -> None:
        """Ends a task with an error."""
        if task.is_over:
            return
        self._end(task)
        self.fail_objects(task, error)
        if task.actor is not None:
            self.actor_task_over(task, error)

    def forget(self, task: Task) -> None:
        """Ends a task that nobody can ask for; if what it makes is needed after all, it starts anew."""
        self._end(task)
        state = None if task.result is None else task.result()
        if state is not None and state.status is Status.PENDING:
            state.status = Status.LOST

    def fail_objects(self, task: Task, error: BaseException) -> None:
        """Gives the error of a task to those that wait for what it makes."""
        stream = None if task.stream is None else task.stream()
        if stream is not None:
            stream.end(error)
        states = [task.result, *(task.items[index] for index in sorted(task.wanted_items))]
        task.wanted_items.clear()
        for state in [None if each is None else each() for each in states]:
            if state is not None and not state.is_over:
                state.error = error
                state.end(Status.FAILED)

    def _end(self, task: Task) -> None:
        task.is_over = True
        self.unfinished.pop(task, None)
        task.rest()

    def stop(self, attempt: Attempt, error: BaseException) -> None:
        """Ends an attempt from outside: its node died, or its task was cancelled."""
        routine = attempt.routine
        self.failed(attempt, error)
        if routine is not None and not routine.is_over and routine is not current_routine():
            with contextlib.suppress(Stopped):
                routine.resume(Stopped())

    # --- objects -----------------------------------------------------------------------------------------------

    def need(self, state: State) -> None:
        """Has a lost object made again; does nothing for others."""
        if state.status is not Status.LOST:
            return
        task = state.task
        if not isinstance(task, Task) or task.options.max_retries == 0 or task.actor is not None:
            state.error = BlockLostError(
                f"object {state.number} was lost, and nothing can make it again; raise max_retries of its task, or put "
                "the value again"
            )
            state.end(Status.FAILED)
            return
        state.status = Status.PENDING
        self._world.clock.note("again", task.name, task.serial)
        self._world.counts["num_made_again"] += 1
        if state.item_index is not None:
            task.wanted_items.add(state.item_index)
        if task.is_over:
            task.is_over = False
            task.wake()
            self.unfinished[task] = None
            self._world.clock.soon(lambda: self.await_arguments(task))

    def lose(self, copies: Sequence[Copy]) -> None:
        """Notes that the bytes of objects are gone. Those that somebody waits for are made again."""
        for copy in copies:
            state = copy.state
            if state.copy is copy and state.status is Status.DONE:
                self._world.places[copy.node].store.drop(copy)
                state.lose()
                self._world.counts["num_lost"] += 1

    def node_died(self, place: Place) -> None:
        """Takes a node away, with all that was on it."""
        if not place.is_alive:
            return
        place.is_alive = False
        self._world.clock.note("died", place.name)
        self.lose(place.store.copies())
        place.store.clear()
        error = WorkerDiedError(f"{place.name} died")
        for attempt in list(place.attempts):
            if attempt.task.actor is not None:
                self.actor_died(attempt.task, error)
            else:
                self.stop(attempt, error)
        for other in self._world.alive():
            for attempt in [each for each in other.attempts if place.name in each.sources]:
                self.stop(attempt, NotReadyError())
        self.scheduler.look()
