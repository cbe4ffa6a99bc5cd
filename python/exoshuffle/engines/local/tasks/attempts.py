"""One attempt of a task: its arguments, running it, and what becomes of its result or its failure.

Guarantee: an attempt ends in exactly one of a result, another attempt, or an error that the object keeps.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from exoshuffle.engines.local.objects import arguments, loading, values
from exoshuffle.engines.local.objects.state import Status, Task
from exoshuffle.engines.local.tasks import deaths, threads
from exoshuffle.errors import (
    ActorDiedError,
    ClosedError,
    TaskCancelledError,
    TaskError,
    WorkerDiedError,
)
from exoshuffle.futures.refs import Ref
from exoshuffle.observe.events import TaskFinished

if TYPE_CHECKING:
    from exoshuffle.engines.local.engine import LocalEngine


def _may_be_needed(task: Task, stored: values.StoredValue) -> bool:
    """Whether the task may have to run once more, for something of what it has made."""
    return task.can_run_again() and (task.stream is not None or not stored.is_lasting)


def _clear_frames(error: BaseException | None) -> None:
    """Forgets what functions had in variables when an error or a cause of it came: it lives as long as the object."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class Attempts:
    """What a ``LocalEngine`` does with a task before, while and after it runs."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._table = engine.table
        # Without calls of actors, which a task that ends its worker may make each time.
        self._num_finished = 0
        self._crashes = deaths.Crashes()

    def has_references(self, task: Task) -> bool:
        """Whether the task has arguments to fetch."""
        return bool(arguments.targets(task))

    def resolve(self, task: Task) -> Any:
        """What a task's arguments refer to, restored where it was spilled, all at once.

        Returns:
            Positional and keyword arguments; for a task that is packed, ``Loaded`` or a list of these per reference.
        """
        args, kwargs = task.args or (), task.kwargs or {}
        wanted: list[arguments.Wanted] = []
        for arg in (*args, *kwargs.values()):
            wanted.extend(arguments.wanted(arg))
        self._table.check_open()
        loaded = loading.load(self._engine.store, wanted)
        found = iter(loaded if task.call is not None else [one.value() for one in loaded])
        filled = tuple(arguments.filled(arg, found) for arg in args)
        if task.call is not None:
            return list(filled)
        return filled, {name: arguments.filled(arg, found) for name, arg in kwargs.items()}

    def execute(self, task: Task) -> values.StoredValue:
        """Runs a task on this thread, or in a worker process that this thread serves."""
        assert task.output is not None
        if task.output.actor is not None:
            return task.output.actor.begin(task)
        if task.options.executor == "process":
            return self._engine.pool.run(task)
        return threads.run(self._engine, task, threads.function_of(task))

    def returned(self, task: Task, number: int) -> values.StoredValue:
        """A worker returned one of the task's references as it got it: the value stays where it is."""
        with self._table.lock:
            if task.args is None:
                raise TaskCancelledError(f"task {task.name} was cancelled")
            ((state, index),) = arguments.wanted(task.args[number])
            assert not isinstance(index, range)
            return values.StoredValue(None, None, True, (Ref(state),), same_as=index or 0)

    def add_item(self, task: Task, stored: values.StoredValue) -> bool:
        """A generator yielded; returns whether anybody wants more, once it is not too far ahead of who takes items."""
        stream = task.stream
        assert stream is not None
        with self._table.lock:
            is_wanted = stream.add(stored)
        self._table.settle()
        if is_wanted and stream.is_far_ahead:
            self._engine.await_taker(stream)
            is_wanted = not stream.dropped
        return is_wanted

    def finish(self, task: Task, stored: values.StoredValue, seconds: float) -> None:
        """The function returned."""
        self._table.make_way()
        with self._table.lock:
            self.fulfil(task, stored)
        self._table.settle()
        self.tell(task, seconds)

    def fulfil(self, task: Task, stored: values.StoredValue) -> None:
        """The function returned. Lock held."""
        output = task.output
        assert output is not None
        if output.actor is None:
            task.release_arguments()
        if task.stream is not None:
            if task.stream.has_missed:
                self._table.discard(stored)
                self._table.run_again(task)
                return
            task.stream.end()
        self._num_finished += task.actor is None
        self._crashes.finished(task)
        if output.actor is None and not _may_be_needed(task, stored):
            task.forget()
        self._table.fulfil(output, stored)

    def tell(self, task: Task, seconds: float) -> None:
        """Tells observers that a task finished."""
        if self._engine.observers:
            event = TaskFinished(task.name, task.attempt, seconds)
            for observer in list(self._engine.observers):
                observer(event)

    def fail(self, task: Task, error: BaseException) -> None:
        """The attempt failed: another attempt if that may help, else the object fails."""
        _clear_frames(error)
        with self._table.lock:
            retry = self._is_retried(task, error)
            if retry and not self._table.closed and not task.is_over():
                task.attempt += 1
                task.started = False
                task.values = None
                if task.stream is not None:
                    task.stream.restart()
                self._table.await_arguments(task)
            elif task.output is not None and task.output.status is Status.PENDING:
                if not isinstance(
                    error, TaskError | ClosedError | TaskCancelledError | ActorDiedError
                ):
                    if task.deaths and isinstance(error, WorkerDiedError):
                        error = deaths.final(task, error)
                    error = TaskError.of(task.name, task.attempt, error, self._engine.name)
                self._table.reject_task(task, error)
        self._table.settle()

    def _is_retried(self, task: Task, error: BaseException) -> bool:
        """Lock held."""
        if not getattr(error, "retryable", False):
            return False
        if deaths.may_be_forgiven(task, error):
            return self.forgive(task)
        is_crash = isinstance(error, WorkerDiedError) and task.actor is None
        if is_crash and not self._crashes.add(task, self._engine.num_cpus):
            return False
        return task.attempt - task.deaths <= task.options.max_retries

    def forgive(self, task: Task) -> bool:
        """Notes a death that the task may not have caused; whether it is not one too many."""
        return deaths.forgive(task, self._num_finished + self._engine.pool.num_blameless)

    def await_again(self, task: Task) -> None:
        """Values of a task's arguments were lost before it started: waits until they have been computed again.

        Not an attempt of the task: the tasks that made the lost values count theirs, which ends this.
        """
        with self._table.lock:
            if not self._table.closed and not task.cancelled:
                self._table.await_arguments(task)
        self._table.settle()
