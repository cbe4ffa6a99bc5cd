"""Taking tasks, actors and their calls in: checked, numbered, with an object for the result, and on their way.

Guarantee: what can never start for want of declared resources or working memory is refused here, not queued.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.objects.state import ObjectState, Task
from exoshuffle.engines.local.objects.streams import Stream
from exoshuffle.engines.local.tasks.actors import LocalActor
from exoshuffle.engines.local.tasks.resources import Resources
from exoshuffle.engines.local.tasks.scheduler import Scheduler
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    from exoshuffle.engines.local.engine import LocalEngine


class Submissions:
    """What a ``LocalEngine`` was given to run.

    Attributes:
        actors: Those that exist.
        num_tasks: Tasks, actors and calls so far.
    """

    def __init__(self, engine: LocalEngine, scheduler: Scheduler, resources: Resources) -> None:
        self._engine = engine
        self._table = engine.table
        self._scheduler = scheduler
        self._resources = resources
        self.actors: weakref.WeakSet[LocalActor] = weakref.WeakSet()
        self.num_tasks = 0

    def check(self, name: str, options: TaskOptions | ActorOptions, taken_bytes: int = 0) -> None:
        """Refuses what declares more than there is.

        Args:
            name: Of the task or actor.
            options: What it declares.
            taken_bytes: What its worker takes of the budget.

        Raises:
            OptionsError: More of a resource than the engine has.
            MemoryLimitError: More working memory than the budget.
        """
        self._resources.check(f"task {name}", options.demand)
        budget = self._engine.budget_bytes - taken_bytes
        if options.memory > budget:
            limit = limits.raised(self._engine.memory_limit, options.memory - budget)
            raise MemoryLimitError(
                f"task {name} declares {format_bytes(options.memory)} of working memory, and the memory limit of "
                f"{format_bytes(self._engine.memory_limit)} leaves {format_bytes(budget)} for tasks; raise "
                f"memory_limit to {format_bytes(limit)}"
            )

    def task(self, task: Task) -> Ref | RefStream:
        """Takes a task, or a call of an actor; it starts when its arguments are done."""
        self._table.check_arguments(task)
        self._table.make_way()
        with self._table.lock:
            ref = self._new_output(task)
            stream = None
            if task.options.is_streaming:
                stream = task.stream = Stream(self._engine, self._table, task)
            if task.actor is not None:
                task.actor.add(task)
            self._table.await_arguments(task)
        self._table.settle()
        return ref if stream is None else RefStream(stream)

    def actor(self, task: Task, name: str, options: ActorOptions) -> Ref:
        """Takes the making of an actor; returns the reference that stands for it."""
        self.check(name, options)
        self._table.check_arguments(task)
        task.name = name
        with self._table.lock:
            ref = self._new_output(task)
            assert task.output is not None
            actor = LocalActor(self._engine, task, options)
            task.output.actor = actor
            self.actors.add(actor)
            self._table.await_arguments(task)
        self._table.settle()
        return ref

    def call(self, actor: LocalActor, method: str, task: Task) -> Ref | RefStream:
        """Takes a call of an actor, in the name of the task that makes it."""
        current = self._scheduler.current_task()
        task.name = task.options.name or f"{actor.name}.{method}"
        task.actor, task.method = actor, method
        if current is not None:
            task.caller = current.sequence if current.actor is None else current.actor.sequence
        return self.task(task)

    def _new_output(self, task: Task) -> Ref:
        self._table.check_open()
        task.sequence = self.num_tasks
        self.num_tasks += 1
        task.output = ObjectState(self._table, task.options.num_slices, task)
        return Ref(task.output)
