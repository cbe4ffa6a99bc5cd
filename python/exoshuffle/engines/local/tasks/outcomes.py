"""Decides how an attempt of a task ends, by its result or its failure.

Guarantee: an attempt ends in exactly one of a result, another attempt, or an error that the object keeps.
"""

from __future__ import annotations

import traceback

from exoshuffle.engines.local.objects.state import Status
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.tasks import deaths
from exoshuffle.engines.local.workers.pool import ProcessPool
from exoshuffle.errors import (
    ActorDiedError,
    ClosedError,
    TaskCancelledError,
    TaskError,
    WorkerDiedError,
)
from exoshuffle.futures.events import Observer, TaskFinished

#: Errors call the place where a task ran by this name.
ENGINE_NAME = "local"


def _may_be_needed(task: Task, stored: StoredValue) -> bool:
    """Whether the task may have to run once more, to make a lost result or item again."""
    return task.can_run_again() and (task.stream is not None or not stored.is_lasting)


def _clear_frames(error: BaseException | None) -> None:
    """Clears the local variables in the frames of an error and its causes, which live as long as the object."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class Outcomes:
    """Takes results and failures of attempts.

    Attributes:
        observers: Called when a task has finished.
    """

    def __init__(self, table: ObjectTable, pool: ProcessPool, num_cpus: int) -> None:
        self.observers: list[Observer] = []
        self._table = table
        self._pool = pool
        self._num_cpus = num_cpus
        # Calls of actors do not count: a task that ends its worker may make such calls each time.
        self._num_finished = 0
        self._crashes = deaths.Crashes()

    def finish(self, task: Task, stored: StoredValue, seconds: float) -> None:
        """Takes the result of a function that returned, and tells observers."""
        self._table.make_way()
        with self._table.lock:
            self.fulfil(task, stored)
        self._table.settle()
        self.tell(task, seconds)

    def fulfil(self, task: Task, stored: StoredValue) -> None:
        """Takes the result of a function that returned. Lock held."""
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
        if self.observers:
            event = TaskFinished(task.name, task.attempt, seconds)
            for observer in list(self.observers):
                observer(event)

    def fail(self, task: Task, error: BaseException) -> None:
        """Takes a failed attempt: makes another attempt if that may help, else fails the object."""
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
                    error = TaskError.of(task.name, task.attempt, error, ENGINE_NAME)
                self._table.reject_task(task, error)
        self._table.settle()

    def _is_retried(self, task: Task, error: BaseException) -> bool:
        """Whether the task gets another attempt. Lock held."""
        if not getattr(error, "retryable", False):
            return False
        if deaths.may_be_forgiven(task, error):
            return self.forgive(task)
        is_crash = isinstance(error, WorkerDiedError) and task.actor is None
        if is_crash and not self._crashes.add(task, self._num_cpus):
            return False
        return task.attempt - task.deaths <= task.options.max_retries

    def forgive(self, task: Task) -> bool:
        """Notes a death that the task may not have caused, and returns whether it is forgiven."""
        return deaths.forgive(task, self._num_finished + self._pool.num_blameless)

    def await_again(self, task: Task) -> None:
        """Has a task wait for arguments that were lost before it started, until they have been computed again.

        This does not count as an attempt of the task. The tasks that made the lost values count theirs, so it ends.
        """
        with self._table.lock:
            if not self._table.closed and not task.cancelled:
                self._table.await_arguments(task)
        self._table.settle()
