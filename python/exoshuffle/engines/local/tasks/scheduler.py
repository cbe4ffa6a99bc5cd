"""Decides which task runs when: tasks with arguments wait for memory (the stager), then for resources (the workers).

Guarantees: no more than the declared resources are in use. A task blocked in ``get`` or ``wait`` gives its CPU slots
back, so nesting deeper than the number of workers completes. Among tasks that fit, the first submitted starts first.

One stager thread takes working memory and arguments for one task at a time. One is enough, since a fetch reads with
several threads. One is free of deadlock: nobody holds a part of a task's needs while waiting for another part. Small
arguments are fetched for several tasks at once if there is room for all, and one by one otherwise. The stager works up
to ``num_cpus`` tasks ahead of the workers, which prefetches arguments while others run (Exoshuffle, §4.2.2). A prepared
task has its declared resources and lacks only CPUs, which waiting tasks give back. Otherwise tasks that wait for a
resource would fill the stage, and the holder of the resource might wait for a task behind them. A task that can never
have its memory and its arguments at once is refused (``room``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

from exoshuffle.engines.local.objects.state import ValueGoneError
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.tasks.outcomes import Outcomes
from exoshuffle.engines.local.tasks.queues import TaskQueue
from exoshuffle.engines.local.tasks.resources import Need, Resources
from exoshuffle.engines.local.tasks.runner import Runner
from exoshuffle.errors import ClosedError, CorruptBlockError
from exoshuffle.futures.options import CPU

_logger = logging.getLogger("exoshuffle")
#: How long ``close`` waits for running tasks; native steps notice the closed store or end within a second or so.
_CLOSE_SECONDS = 5.0


#: Tasks with small arguments are staged together, up to so many bytes: their reads from disk then go on at once. So
#: objects of 100 KB were fetched and checked in 0.52 of the time of tasks that fetch for themselves. With 300 KB it was
#: 0.82, and 1.13 when staged alone (six pairs each). In memory, tasks with 100 KB took 75 us of CPU instead of 110.
_TOGETHER_BYTES = 4_000_000
#: The most bytes of small arguments. Objects of 1 MB took 1.27 of the CPU time of such tasks together, 1.13 alone.
_SMALL_BYTES = 500_000
#: The most tasks, for arguments that take no room in the store.
_TOGETHER_TASKS = 64


class _Running(threading.local):
    """The task that a thread runs until the context ends; ``now`` has it, with its start time, by thread."""

    def __init__(self, table: ObjectTable, now: dict[int, tuple[Task, float]]) -> None:
        self.task: Task | None = None
        self._table = table
        self._now = now
        self._thread = threading.get_ident()

    def __enter__(self) -> None:
        assert self.task is not None
        self._now[self._thread] = self.task, time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self._table.is_inherited:
            # A process that the task has forked ends where its function does: the parent does what follows.
            os._exit(1)
        self.task = None
        del self._now[self._thread]


class Scheduler:
    """The queues and threads of an engine.

    Args:
        table: Its lock is the scheduler's lock, too.
        resources: The resources that tasks may have at once.
        runner: Prepares tasks and runs them.
        outcomes: Takes results and failures.
        enter: Called on a thread before it runs a task.
    """

    def __init__(
        self,
        table: ObjectTable,
        resources: Resources,
        runner: Runner,
        outcomes: Outcomes,
        enter: Callable[[], None],
    ) -> None:
        self._table = table
        self._lock = lock = table.lock
        self._num_cpus = int(resources.total[CPU])
        self._resources = resources
        self._runner = runner
        self._outcomes = outcomes
        self._enter = enter
        self._stage_changed = threading.Condition(lock)
        self._run_changed = threading.Condition(lock)
        self._to_stage = TaskQueue()
        self._to_run = TaskQueue()
        self._num_staged = 0
        #: The stager's thread while it takes memory and arguments for a task.
        self._stages: int | None = None
        self._num_begun = 0
        self._num_idle = 0
        #: Whether a worker is on its way to look at the queue; it wakes the next worker if there is more.
        self._is_waking = False
        self._has_stager = False
        self._closed = False
        self._threads: list[threading.Thread] = []
        #: By thread: the task that it runs, and since when; for ``now_running``.
        self._now_running: dict[int, tuple[Task, float]] = {}
        self._running = _Running(table, self._now_running)

    def start(self, task: Task) -> None:
        """Takes a task whose arguments are done. Lock held."""
        if task.actor is not None:
            task.actor.ready(task)
        elif self._runner.takes_memory(task):
            if not self._has_stager:
                self._has_stager = True
                self.start_thread(self._stage_loop, "exoshuffle-stager")
            self._to_stage.add(task, task.options.shape_beside_cpus)
            self._wake_stager()
        else:
            self._enqueue(task, task.options.shape)

    def now_running(self) -> list[tuple[int, Task, float]]:
        """Returns threads with the task that each runs and since when; the first has run longest."""
        running = [(thread, *one) for thread, one in list(self._now_running.items())]
        return sorted(running, key=lambda one: one[2])

    def is_idle(self) -> bool:
        """Whether no task runs, and none could begin. Lock held."""
        return not (self._now_running or self.has_waiting_tasks())

    def num_running(self) -> int:
        """Returns how many tasks have begun and not ended."""
        return len(self._now_running)

    def has_waiting_tasks(self) -> bool:
        """Whether a task whose arguments are done waits to begin. Lock held."""
        return bool(self._to_stage or self._to_run or self._num_staged)

    def num_begun(self, for_memory: set[int]) -> int | None:
        """Returns how many tasks have begun. Lock held.

        None while the stager goes on, and is not among the threads that wait for memory.
        """
        goes_on = self._stages is not None and self._stages not in for_memory
        return None if goes_on else self._num_begun

    def lacking(self, task: Task) -> list[str]:
        """Returns the resources that a task waits for. Lock held."""
        return self._resources.lacking(task.options.shape)

    def close(self) -> None:
        """Ends the threads; tasks that run may finish their step."""
        with self._lock:
            self._closed = True
            self._to_stage.clear()
            self._to_run.clear()
            self._stage_changed.notify_all()
            self._run_changed.notify_all()
            threads = list(self._threads)
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def current_task(self) -> Task | None:
        """Returns the task that this thread runs, if it runs one."""
        return self._running.task

    def running(self, task: Task) -> contextlib.AbstractContextManager[None]:
        """Returns a context for running a task on this thread."""
        self._enter()
        self._running.task = task
        self._num_begun += 1
        return self._running

    def slot_given_back(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context for a blocking call: if a task makes it, another may run meanwhile."""
        task = self.current_task()
        return contextlib.nullcontext() if task is None else self._slot_given_back(task)

    @contextlib.contextmanager
    def _slot_given_back(self, task: Task) -> Iterator[None]:
        waiting = contextlib.nullcontext() if task.worker is None else task.worker.waiting()
        if task.actor is not None:
            with waiting:
                yield
            return
        cpus = ((CPU, task.options.num_cpus),)
        with self._lock:
            self.give_back(cpus)
        try:
            with waiting:
                yield
        finally:
            with self._lock:
                self._resources.take(cpus)

    def give_back(self, need: Need, gpus: tuple[int, ...] = ()) -> None:
        """Frees the resources that a task or an actor occupied, these GPUs among them. Lock held."""
        self._resources.give_back(need, gpus)
        self._wake_worker()
        self._wake_stager()

    def start_thread(self, loop: Callable[[], None], name: str) -> None:
        """Starts a thread that ``close`` waits for. Lock held."""
        thread = threading.Thread(target=loop, name=name, daemon=True)
        # Threads of actors come and go.
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def _enqueue(self, task: Task, need: Need) -> None:
        self._to_run.add(task, need)
        self._wake_worker()

    def _wake_worker(self) -> None:
        """Has a worker look at the queue; wakes one at a time, since threads take turns at the interpreter."""
        if self._is_waking or self._closed or self._to_run.first(self._resources) is None:
            return
        if self._num_idle:
            self._run_changed.notify()
        else:
            self.start_thread(self._work_loop, "exoshuffle-worker")
        self._is_waking = True

    def _wake_stager(self) -> None:
        if self._to_stage:
            self._stage_changed.notify()

    # --- the stager --------------------------------------------------------------------------------------------

    def _stage_loop(self) -> None:
        while True:
            with self._lock:
                while not self._closed and (need := self._next_to_stage()) is None:
                    self._stage_changed.wait()
                if self._closed or need is None:
                    return
                task = self._to_stage.pop(need)
                if task.cancelled:
                    continue
                task.gpus = self._resources.take(need)
                self._begin_to_stage(task)
                tasks = self._taken_with(task)
            self._stages = threading.get_ident()
            self._stage_all(tasks)
            self._stages = None
            del task, tasks

    def _next_to_stage(self) -> Need | None:
        """Returns the need of the next task to stage, if any.

        Arguments are fetched ahead of the workers; a task that needs memory alone gets it once a slot is free.
        """
        if self._num_staged >= self._num_cpus:
            return None
        need = self._to_stage.first(self._resources)
        if need is None or self._resources.free_cpus > self._num_staged:
            return need
        return need if self._runner.has_references(self._to_stage.peek(need)) else None

    def _taken_with(self, first: Task) -> list[Task]:
        """Takes tasks to stage together: this one, and those behind it while all arguments are small. Lock held."""
        taken, left = [first], _TOGETHER_BYTES
        task = first
        while (num_bytes := self._runner.light_bytes(task)) is not None and (
            num_bytes <= min(left, _SMALL_BYTES)
        ):
            left -= num_bytes
            if task is not first:
                taken.append(self._to_stage.pop(()))
                self._begin_to_stage(task)
            if len(taken) == _TOGETHER_TASKS or self._to_stage.first(self._resources) != ():
                break
            task = self._to_stage.peek(())
        return taken

    def _begin_to_stage(self, task: Task) -> None:
        self._num_staged += 1
        task.is_staged = True

    def _stage_all(self, tasks: list[Task]) -> None:
        if len(tasks) > 1 and self._runner.prepare_together(tasks):
            with self._lock:
                for task in tasks:
                    self._enqueue_staged(task)
            return
        for task in tasks:
            self._stage(task)

    def _stage(self, task: Task) -> None:
        try:
            self._runner.prepare(task)
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to the task
            with self._lock:
                self._unstage(task)
                self.give_back(task.options.shape_beside_cpus, task.gpus)
            task.release_memory()
            self._not_staged(task, error)
            return
        with self._lock:
            self._enqueue_staged(task)

    def _enqueue_staged(self, task: Task) -> None:
        cpus = task.options.num_cpus
        self._enqueue(task, ((CPU, cpus),) if cpus else ())

    def _unstage(self, task: Task) -> None:
        if task.is_staged:
            task.is_staged = False
            self._num_staged -= 1
            self._wake_stager()

    def _not_staged(self, task: Task, error: BaseException) -> None:
        if isinstance(error, ClosedError) and self._closed:
            return
        if isinstance(error, CorruptBlockError):
            self._table.lose(error)
        if isinstance(error, CorruptBlockError | ValueGoneError):
            self._outcomes.await_again(task)
        else:
            self._outcomes.fail(task, error)

    # --- the workers -------------------------------------------------------------------------------------------

    def _work_loop(self) -> None:
        with self._lock:
            self._is_waking = False
            task = self._next_task()
        while task is not None:
            started = time.monotonic()
            # The next attempt may get others before this one has given its own back.
            gpus = task.gpus
            stored = self._run(task)
            seconds = time.monotonic() - started
            done, task = task, self._end(task, stored, gpus)
            if stored is not None:
                self._tell(done, seconds)
            del done, stored  # nothing that they refer to stays while this thread waits
            if task is None:
                with self._lock:
                    task = self._next_task()

    def _end(self, task: Task, stored: StoredValue | None, gpus: tuple[int, ...]) -> Task | None:
        """Stores the result of a task, frees its resources, and takes the next task, if one fits.

        All this takes the lock once, since threads that run small tasks wait for the lock.
        """
        self._table.make_way()
        with self._lock:
            if stored is not None:
                self._outcomes.fulfil(task, stored)
            if not task.keeps_resources:
                self._resources.give_back(task.options.shape, gpus)
            self._wake_stager()
            taken = self._take()
        self._table.settle()
        return taken

    def _tell(self, task: Task, seconds: float) -> None:
        try:
            self._outcomes.tell(task, seconds)
        except Exception:
            # The task is not at fault, and this thread goes on, since other tasks will run on it.
            _logger.exception("an observer failed when task %s had finished", task.name)

    def _next_task(self) -> Task | None:
        """Waits for a task that fits, and takes it; None at the end. Lock held."""
        while not self._closed:
            task = self._take()
            if task is not None:
                return task
            self._num_idle += 1
            self._run_changed.wait()
            self._num_idle -= 1
            self._is_waking = False
        return None

    def _take(self) -> Task | None:
        """Takes a task that fits, if there is one. Lock held."""
        need = None if self._closed else self._to_run.first(self._resources)
        if need is None:
            return None
        task = self._to_run.pop(need)
        gpus = self._resources.take(need)
        task.gpus = gpus or task.gpus  # those of a task that was staged have been taken before
        self._unstage(task)
        task.started = True
        task.began = time.monotonic()
        task.interrupt = self._runner.interrupt_of(task)
        self._wake_worker()
        return task

    def _run(self, task: Task) -> StoredValue | None:
        """Runs a task and returns its result; None if it was cancelled or the attempt failed, which is handled here."""
        if task.cancelled:
            task.release_memory()
            return None
        try:
            with self.running(task):
                stored = self._runner.execute(task)
            task.release_memory()
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to the task
            # Released before ``fail``: the next attempt may begin, and take memory, before ``fail`` returns.
            task.release_memory()
            self._outcomes.fail(task, error)
            return None
        return stored
