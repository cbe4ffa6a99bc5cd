"""Takes in tasks, actors and their calls: each gets a number and an object for its result, and is on its way.

Guarantee: among tasks that fit, the one with the smallest number starts first.
"""

from __future__ import annotations

import weakref

from exoshuffle.engines.local.objects.state import ObjectState
from exoshuffle.engines.local.objects.streams import Stream, StreamWaits
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.tasks.actors import ActorParts, LocalActor
from exoshuffle.futures.options import ActorOptions
from exoshuffle.futures.refs import Ref, RefStream


class Submissions:
    """Takes in what an engine is given to run.

    Args:
        parts: The parts that calls of actors go through.
        waits: Waits for the items of streams.

    Attributes:
        actors: The actors that exist.
        num_tasks: The number of tasks, actors and calls so far.
    """

    def __init__(self, parts: ActorParts, waits: StreamWaits) -> None:
        self._parts = parts
        self._table = parts.table
        self._waits = waits
        self.actors: weakref.WeakSet[LocalActor] = weakref.WeakSet()
        self.num_tasks = 0

    def task(self, task: Task) -> Ref | RefStream:
        """Takes a task, or a call of an actor; it starts when its arguments are done."""
        self._table.check_arguments(task)
        self._table.make_way()
        with self._table.lock:
            ref = self._new_output(task)
            stream = None
            if task.options.is_streaming:
                stream = task.stream = Stream(self._table, self._waits, task)
            if task.actor is not None:
                task.actor.add(task)
            self._table.await_arguments(task)
        self._table.settle()
        return ref if stream is None else RefStream(stream)

    def actor(self, task: Task, options: ActorOptions) -> Ref:
        """Takes the making of an actor; returns the reference that stands for it."""
        self._table.check_arguments(task)
        with self._table.lock:
            ref = self._new_output(task)
            assert task.output is not None
            actor = LocalActor(self._parts, task, options)
            task.output.actor = actor
            self.actors.add(actor)
            self._table.await_arguments(task)
        self._table.settle()
        return ref

    def call(self, actor: LocalActor, method: str, task: Task) -> Ref | RefStream:
        """Takes a call of an actor, on behalf of the task that makes it."""
        current = self._parts.scheduler.current_task()
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
