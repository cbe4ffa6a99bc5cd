"""Who runs when: tasks whose arguments are done wait for memory (the stager), then for a CPU slot (the workers).

Guarantees: at most ``num_cpus`` slots are busy; a task blocked in ``get`` or ``wait`` gives its slot back, so nesting
deeper than the number of workers completes; tasks start in the order of submission, as far as memory allows.

One stager thread takes working memory and arguments for one task at a time. That is enough (a fetch reads with several
threads) and free of deadlock: nobody holds a part of what a task needs while waiting for another such part. It works up
to ``num_cpus`` tasks ahead of the workers, which prefetches arguments while others run (Exoshuffle, §4.2.2).
"""

from __future__ import annotations

import contextlib
import heapq
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exoshuffle.engines.local.objects import Task, ValueGoneError
from exoshuffle.errors import ClosedError, CorruptBlockError
from exoshuffle.futures.engine import set_task_engine

if TYPE_CHECKING:
    from exoshuffle.engines.local.engine import LocalEngine

#: How long ``close`` waits for running tasks; native steps look at the closed store or end within a second or so.
_CLOSE_SECONDS = 5.0


class Scheduler:
    """The queues and threads of a ``LocalEngine``; ``lock`` is the engine's."""

    def __init__(self, engine: LocalEngine, lock: threading.Lock, num_cpus: int) -> None:
        self._engine = engine
        self._lock = lock
        self._num_cpus = num_cpus
        self._stage_changed = threading.Condition(lock)
        self._run_changed = threading.Condition(lock)
        self._to_stage: list[Task] = []
        self._to_run: list[Task] = []
        self._num_staged = 0
        self._busy_cpus = 0.0
        self._num_idle = 0
        self._has_stager = False
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._in_task = threading.local()

    def add(self, task: Task, staged: bool) -> None:
        """Takes a task whose arguments are done; ``staged`` if it needs memory or arguments. Lock held."""
        if staged:
            if not self._has_stager:
                self._has_stager = True
                self._start(self._stage_loop, "exoshuffle-stager")
            heapq.heappush(self._to_stage, task)
            self._stage_changed.notify()
        else:
            self._enqueue(task)

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

    @contextlib.contextmanager
    def slot_given_back(self) -> Iterator[None]:
        """Around a blocking call: if a task makes it, another may run meanwhile."""
        num_cpus = getattr(self._in_task, "num_cpus", None)
        if num_cpus is None:
            yield
            return
        with self._lock:
            self._busy_cpus -= num_cpus
            self._wake_worker()
            self._stage_changed.notify()
        try:
            yield
        finally:
            with self._lock:
                self._busy_cpus += num_cpus

    def _start(self, loop: object, name: str) -> None:
        thread = threading.Thread(target=loop, name=name, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _enqueue(self, task: Task) -> None:
        heapq.heappush(self._to_run, task)
        self._wake_worker()

    def _wake_worker(self) -> None:
        has_slot = self._busy_cpus < self._num_cpus
        if self._to_run and has_slot and self._num_idle == 0 and not self._closed:
            self._start(self._work_loop, "exoshuffle-worker")
        self._run_changed.notify()

    # --- the stager --------------------------------------------------------------------------------------------

    def _stage_loop(self) -> None:
        while True:
            with self._lock:
                while not self._closed and not self._may_stage():
                    self._stage_changed.wait()
                if self._closed:
                    return
                task = heapq.heappop(self._to_stage)
                if task.cancelled:
                    continue
                self._num_staged += 1
            self._stage(task)
            del task

    def _may_stage(self) -> bool:
        """Arguments are fetched ahead of the workers; memory alone is not taken before a slot is free."""
        if not self._to_stage or self._num_staged >= self._num_cpus:
            return False
        slots_ahead = self._num_cpus - self._busy_cpus - self._num_staged
        return slots_ahead > 0 or self._engine.has_references(self._to_stage[0])

    def _stage(self, task: Task) -> None:
        try:
            if task.options.memory:
                task.reservation = self._engine.reserve(task.options.memory)
            task.values = self._engine.resolve(task)
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to the task
            with self._lock:
                self._num_staged -= 1
            _release(task)
            self._not_staged(task, error)
            return
        with self._lock:
            self._enqueue(task)

    def _not_staged(self, task: Task, error: BaseException) -> None:
        if isinstance(error, ClosedError) and self._closed:
            return
        if isinstance(error, CorruptBlockError):
            self._engine.lose(error)
        if isinstance(error, CorruptBlockError | ValueGoneError):
            self._engine.await_again(task)
        else:
            self._engine.fail(task, error)

    # --- the workers -------------------------------------------------------------------------------------------

    def _work_loop(self) -> None:
        set_task_engine(self._engine)
        while True:
            with self._lock:
                task = self._next_task()
                if task is None:
                    return
                was_staged = task.values is not None
                if was_staged:
                    self._num_staged -= 1
                    self._stage_changed.notify()
                self._busy_cpus += task.options.num_cpus
                task.started = True
            try:
                if not task.cancelled:
                    self._run(task)
            finally:
                _release(task)
                with self._lock:
                    self._busy_cpus -= task.options.num_cpus
                    self._run_changed.notify()
                    self._stage_changed.notify()
            del task

    def _next_task(self) -> Task | None:
        while not self._closed:
            if (
                self._to_run
                and self._busy_cpus + self._to_run[0].options.num_cpus <= self._num_cpus
            ):
                return heapq.heappop(self._to_run)
            self._num_idle += 1
            self._run_changed.wait()
            self._num_idle -= 1
        return None

    def _run(self, task: Task) -> None:
        args, kwargs = task.values or (task.args or (), task.kwargs or {})
        task.values = None
        self._in_task.num_cpus = task.options.num_cpus
        started = time.monotonic()
        try:
            value = task.fn(*args, **kwargs)
            # The arguments go before the result is announced: a consumer may need their memory.
            del args, kwargs
            _release(task)
            self._engine.finish(task, value, time.monotonic() - started)
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to the task
            _release(task)
            self._engine.fail(task, error)
        finally:
            self._in_task.num_cpus = None


def _release(task: Task) -> None:
    reservation, task.reservation = task.reservation, None
    task.values = None
    if reservation is not None:
        reservation.release()
