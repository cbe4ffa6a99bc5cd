"""An actor: an object in a worker process of its own (or on a thread of this one), and the calls that wait for it.

Guarantees: an actor runs one call at a time. Calls of one caller run in the order in which they were made, whatever
their arguments wait for. An actor gives back its resources and memory when it ends. A call that was running when the
process died fails, unless it may be repeated. An actor with restarts left is then made again by its constructor.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from typing import TYPE_CHECKING

from exoshuffle._native import Reservation
from exoshuffle.engines.local.objects import loading
from exoshuffle.engines.local.objects.state import ValueGoneError
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.tasks import deaths
from exoshuffle.engines.local.tasks.outcomes import Outcomes
from exoshuffle.engines.local.tasks.runner import Runner
from exoshuffle.engines.local.tasks.scheduler import Scheduler
from exoshuffle.engines.local.tasks.threads import Threads, arguments_of, function_of
from exoshuffle.engines.local.workers.pool import ProcessPool
from exoshuffle.errors import ActorDiedError, CorruptBlockError, WorkerDiedError
from exoshuffle.futures.gpus import GpusOfThread
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.late_dataclasses import dataclass

if TYPE_CHECKING:
    from exoshuffle.engines.local.workers.processes import WorkerProcess


def creation_options(options: ActorOptions) -> TaskOptions:
    """Returns the options of the task that makes the actor."""
    return TaskOptions(
        num_cpus=options.num_cpus,
        num_gpus=options.num_gpus,
        resources=options.resources,
        memory=options.memory,
        max_retries=options.max_restarts,
        executor=options.executor,
    )


@dataclass(frozen=True)
class ActorParts:
    """The parts of an engine that calls of actors go through."""

    table: ObjectTable
    scheduler: Scheduler
    runner: Runner
    outcomes: Outcomes
    threads: Threads
    pool: ProcessPool


class LocalActor:
    """One actor of an engine."""

    def __init__(self, parts: ActorParts, creation: Task, options: ActorOptions) -> None:
        self.name = creation.name
        self.is_thread = options.executor == "thread"
        self._parts = parts
        self._creation = creation
        self._restarts_left = options.max_restarts
        #: Whether the process was ended from outside, as a call saw it; None if no call saw it end.
        self._ended_from_outside: bool | None = None
        self._changed = threading.Condition(parts.table.lock)
        self._calls: dict[int | None, collections.deque[Task]] = {}
        self._worker: WorkerProcess | None = None
        self._instance: object = None
        self._reservation: Reservation | None = None
        self._started = False
        self._wanted = True
        self.error: BaseException | None = None

    @property
    def sequence(self) -> int:
        """The sequence number of the task that makes the actor."""
        return self._creation.sequence

    # --- from the engine, lock held ----------------------------------------------------------------------------

    def add(self, task: Task) -> None:
        """Takes a call that was made; ``ready`` says when its arguments are there."""
        self._calls.setdefault(task.caller, collections.deque()).append(task)

    def ready(self, task: Task) -> None:
        """Notes that the arguments of a call are there, for the first time or again."""
        if self.error is not None:
            self._parts.table.reject_task(task, self.error)
            return
        task.ready = True
        self._changed.notify()

    def wake(self) -> None:
        """Wakes the actor: a call was cancelled or has failed before it ran, or the engine closes."""
        self._changed.notify()

    def released(self) -> None:
        """Lets the actor end after the calls that were made, since no handle is left."""
        self._wanted = False
        if not self._started and not self._calls:
            self._creation.cancelled = True
            self.end(ActorDiedError(f"actor {self.name} ended before it began: no handle is left"))
        self._changed.notify()

    def end(self, error: BaseException) -> None:
        """Fails calls that have not begun, and later ones, with ``error``."""
        if self.error is not None:
            return
        self.error = error
        calls, self._calls = self._calls, {}
        for queue in calls.values():
            for task in queue:
                if not task.is_over():
                    self._parts.table.reject_task(task, error)
        self._changed.notify()

    # --- from the engine, without the lock -------------------------------------------------------------------------

    def kill(self) -> None:
        """Ends the actor at once; its process is killed, but a thread cannot be and ends its call."""
        with self._parts.table.lock:
            self._restarts_left = 0
            self.end(ActorDiedError(f"actor {self.name} was killed"))
            if self._worker is not None:
                self._worker.kill()
        self._parts.table.settle()

    # --- making it ---------------------------------------------------------------------------------------------

    def begin(self) -> StoredValue:
        """Runs the constructor, on a thread of the scheduler, then serves calls on a thread of its own."""
        task = self._creation
        self._construct(task)
        self._reservation, task.reservation = task.reservation, None
        task.keeps_resources = True
        with self._parts.table.lock:
            self._started = True
            self._parts.scheduler.start_thread(self._serve, f"exoshuffle-actor-{self.name}")
        return StoredValue((b"N.",), None, pickled=True)

    def _construct(self, task: Task) -> None:
        if self.is_thread:
            args, kwargs = arguments_of(task)
            with GpusOfThread(task.gpus):
                self._instance = function_of(task)(*args, **kwargs)
            return
        from exoshuffle.engines.local.workers import wire

        loaded = loading.take(task)
        worker = self._parts.pool.take(gpus=task.gpus)
        try:
            worker.run(task, wire.ACTOR, loaded)
        except BaseException:
            self._parts.pool.give_back(worker, reusable=False)
            raise
        self._worker = worker

    def _restart(self) -> None:
        """Makes the actor again, after its process died.

        Raises:
            WorkerDiedError: The actor has no restarts left.
        """
        worker, self._worker = self._worker, None
        from_outside, self._ended_from_outside = self._ended_from_outside, None
        if worker is not None:
            from_outside = worker.was_ended if from_outside is None else from_outside
            self._parts.pool.give_back(worker, reusable=False)
        if self._restarts_left == 0:
            raise WorkerDiedError(f"the process of actor {self.name} has ended")
        if not (from_outside and self._parts.outcomes.forgive(self._creation)):
            self._restarts_left -= 1
        self._creation.values = self._parts.runner.resolve(self._creation)
        self._construct(self._creation)

    # --- serving, on its own thread ----------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            with self._parts.table.lock:
                task = self._next()
                if task is None:
                    break
                task.started = True
                task.began = time.monotonic()
                task.ready = False
            self._call(task)
            del task
        self._stop()

    def _next(self) -> Task | None:
        """Waits for the first call that can run. It stays queued until it is over, since it may have to run again."""
        while not self._parts.table.closed and self.error is None:
            best = None
            for caller, queue in list(self._calls.items()):
                while queue and queue[0].is_over():
                    queue.popleft()
                if not queue:
                    del self._calls[caller]
                elif queue[0].ready and (best is None or queue[0].sequence < best.sequence):
                    best = queue[0]
            if best is not None:
                return best
            if not self._wanted and not self._calls:
                return None
            with contextlib.nullcontext() if self._worker is None else self._parts.pool.blocked():
                self._changed.wait()
        return None

    def _call(self, task: Task) -> None:
        started = time.monotonic()
        try:
            if not self.is_thread and (self._worker is None or not self._worker.is_alive):
                self._restart()
            self._parts.runner.check_room(task, self._creation.options.memory)
            task.values = self._parts.runner.resolve(task)
            with self._parts.scheduler.running(task):
                stored = self._execute(task)
            self._parts.outcomes.finish(task, stored, time.monotonic() - started)
        except CorruptBlockError as error:
            self._parts.table.lose(error)
            self._parts.outcomes.await_again(task)
        except ValueGoneError:
            self._parts.outcomes.await_again(task)
        except WorkerDiedError as error:
            self._died(task, error)
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to the call
            self._parts.outcomes.fail(task, error)

    def _execute(self, task: Task) -> StoredValue:
        if self._worker is None:
            with GpusOfThread(self._creation.gpus):
                return self._parts.threads.run(task, getattr(self._instance, task.method))
        from exoshuffle.engines.local.workers import wire

        loaded = loading.take(task)
        return self._worker.run(task, wire.METHOD, loaded)

    def _died(self, task: Task, error: WorkerDiedError) -> None:
        with self._parts.table.lock:
            self._ended_from_outside = error.from_outside
            final = self._restarts_left == 0
            if final:
                self.end(ActorDiedError(f"actor {self.name} died: {error}"))
        may_run_again = (
            deaths.may_be_forgiven(task, error)
            or task.attempt - task.deaths <= task.options.max_retries
        )
        if final or not may_run_again:
            cause = self.error or ActorDiedError(
                f"actor {self.name} died during a call of {task.method} and was made anew: {error}"
            )
            self._parts.outcomes.fail(task, cause)
        else:
            self._parts.outcomes.fail(task, error)

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._parts.pool.give_back(worker, reusable=False)
        self._instance = None
        if self._reservation is not None:
            self._reservation.release()
        with self._parts.table.lock:
            self.end(ActorDiedError(f"actor {self.name} has ended: no handle was left"))
            self._creation.release_arguments()
            self._parts.scheduler.give_back(self._creation.options.shape, self._creation.gpus)
