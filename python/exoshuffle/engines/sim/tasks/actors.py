"""Actors: objects with state, whose calls run one at a time and in the order of each caller.

An actor is made by a task of its own, which holds the actor's resources until the actor ends. Its calls wait for their
arguments like any task, and then for the calls that the same caller made before.
"""

from __future__ import annotations

import collections

from exoshuffle.engines.sim.clock.routines import Stopped, current_routine
from exoshuffle.engines.sim.objects.arguments import state_of
from exoshuffle.engines.sim.objects.store import Priority
from exoshuffle.engines.sim.tasks.outcomes import Outcomes
from exoshuffle.engines.sim.tasks.running import Running
from exoshuffle.engines.sim.tasks.scheduler import Scheduler, fetched
from exoshuffle.engines.sim.tasks.task import Attempt, Task
from exoshuffle.engines.sim.tasks.world import World
from exoshuffle.errors import ActorDiedError
from exoshuffle.futures.options import ActorOptions
from exoshuffle.futures.refs import Ref


class Actor:
    """An actor.

    Attributes:
        name: Its name in errors.
        constructor: The task that makes it.
        max_restarts: How often it is made anew.
        instance: The object; None while it is not there.
        holder: The attempt that has its resources.
        error: Why it is dead; None while it lives.
        calls: Calls that are not over, by caller.
        running: The call that runs.
    """

    def __init__(self, name: str, options: ActorOptions) -> None:
        self.name = name
        self.constructor: Task
        self.max_restarts = options.max_restarts
        self.instance: object = None
        self.holder: Attempt | None = None
        self.error: BaseException | None = None
        self.calls: dict[object, collections.deque[Task]] = {}
        self.ready: set[Task] = set()
        self.running: Attempt | None = None


class Actors:
    """Runs the calls of actors.

    Args:
        world, scheduler, outcomes, running: Parts of the engine.
    """

    def __init__(
        self, world: World, scheduler: Scheduler, outcomes: Outcomes, running: Running
    ) -> None:
        self._world = world
        self._scheduler = scheduler
        self._outcomes = outcomes
        self._running = running
        outcomes.call_ready = self._ready
        outcomes.actor_died = self.died
        outcomes.actor_task_over = self._over

    def call(self, actor: Actor, task: Task) -> None:
        """Takes a call of the task or actor that runs, or of the program."""
        if actor.error is not None:
            self._outcomes.fail(task, actor.error)
            return
        actor.calls.setdefault(_caller(), collections.deque()).append(task)
        self._outcomes.await_arguments(task)

    def kill(self, actor: Actor) -> None:
        """Ends an actor now."""
        self._end(actor, ActorDiedError(f"actor {actor.name} was killed"))

    def forget(self, actor: Actor) -> None:
        """Ends an actor that nobody has a handle of; its calls are over, since a call has a handle."""
        if actor.error is None:
            self._end(actor, ActorDiedError(f"actor {actor.name} has ended: no handle is left"))

    def died(self, task: Task, error: BaseException) -> None:
        """Makes an actor anew whose worker or node has died, if it may; else ends it."""
        actor = task.actor
        assert isinstance(actor, Actor)
        if actor.error is not None:
            return
        if actor.max_restarts <= 0:
            self._end(actor, ActorDiedError(f"actor {actor.name} died: {error}"))
            return
        actor.max_restarts -= 1
        self._lose_running(actor, ActorDiedError(f"actor {actor.name} died: {error}"))
        constructor = actor.constructor
        for attempt in {actor.holder, constructor.attempt} - {None}:
            self._let_go(attempt)
        actor.instance = actor.holder = None
        constructor.is_over = False
        constructor.wake()
        self._outcomes.await_arguments(constructor)

    # --- calls -------------------------------------------------------------------------------------------------

    def _ready(self, task: Task) -> None:
        actor = task.actor
        assert isinstance(actor, Actor)
        actor.ready.add(task)
        self._go_on(actor)

    def _go_on(self, actor: Actor) -> None:
        if actor.instance is None or actor.running is not None or actor.error is not None:
            return
        first = [calls[0] for calls in actor.calls.values() if calls and calls[0] in actor.ready]
        if not first:
            return
        task = min(first, key=lambda each: each.order)
        actor.ready.discard(task)
        assert actor.holder is not None
        attempt = actor.running = Attempt(task, actor.holder.place)
        task.attempt = attempt
        attempt.place.attempts[attempt] = None
        taken, copied = fetched(attempt)
        if not taken:
            self._running.run(attempt)
            return
        attempt.sources = {name for name, _ in taken}

        def granted(_: object) -> None:
            if attempt.is_over:
                attempt.place.store.release(copied)
                return
            attempt.request = None
            attempt.memory_bytes += copied
            attempt.flows = self._world.fetch(attempt.place, taken, done)

        def done() -> None:
            if not attempt.is_over:
                attempt.flows.clear()
                self._running.run(attempt)

        attempt.request = attempt.place.store.request(copied, Priority.ARGUMENT, granted)

    def _over(self, task: Task, error: BaseException | None) -> None:
        """Takes a constructor or a call that is over, or is to be tried again."""
        actor = task.actor
        assert isinstance(actor, Actor)
        if task.is_constructor:
            if error is not None:
                self._end(actor, error)
            else:
                actor.holder = task.attempt
        else:
            if actor.running is not None and actor.running.task is task:
                actor.running = None
            if task.is_over:
                actor.ready.discard(task)
                for calls in actor.calls.values():
                    if task in calls:
                        calls.remove(task)
                        break
        self._world.clock.soon(lambda: self._go_on(actor))

    # --- ends --------------------------------------------------------------------------------------------------

    def _lose_running(self, actor: Actor, error: ActorDiedError) -> None:
        attempt, actor.running = actor.running, None
        if attempt is None:
            return
        task = attempt.task
        self._let_go(attempt)
        task.num_deaths += 1
        if task.num_deaths <= task.options.max_retries:
            self._outcomes.await_arguments(task)
        else:
            self._outcomes.fail(task, error)

    def _end(self, actor: Actor, error: BaseException) -> None:
        actor.error = error
        attempt, actor.running = actor.running, None
        if attempt is not None:
            self._let_go(attempt)
            self._outcomes.fail(attempt.task, error)
        for calls in list(actor.calls.values()):
            for task in list(calls):
                self._outcomes.fail(task, error)
        self._outcomes.fail(actor.constructor, error)
        for each in {actor.holder, actor.constructor.attempt} - {None}:
            self._let_go(each)
        actor.instance = actor.holder = None

    def _let_go(self, attempt: Attempt | None) -> None:
        """Frees what an attempt holds, and ends its function where that has paused."""
        if attempt is None or attempt.is_over:
            return
        self._scheduler.release(attempt)
        routine = attempt.routine
        if routine is not None and not routine.is_over and routine is not current_routine():
            routine.resume(Stopped())


def actor_of(ref: Ref) -> Actor:
    """Returns the actor of a handle."""
    task = state_of(ref).task
    assert isinstance(task, Task)
    assert isinstance(task.actor, Actor)
    return task.actor


def _caller() -> object:
    routine = current_routine()
    attempt = None if routine is None else routine.owner
    if not isinstance(attempt, Attempt):
        return None
    return attempt.task.actor or attempt.task
