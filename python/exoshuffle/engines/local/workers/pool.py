"""The worker processes of an engine: started when they are needed, kept for the next task, bounded by memory.

Guarantees: a task that has its memory never waits for the memory of a worker. Before a task takes its own memory, the
pool sets memory apart for as many workers as there are CPUs. While no task needs a worker, others that wait for memory
get this: idle workers end. All workers may wait, for calls or for tasks that need one more worker than memory has room
for. That is an error after a while and no deadlock.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from exoshuffle._native import Reservation
from exoshuffle.engines.local.memory.budget import Budget
from exoshuffle.engines.local.memory.impatience import Impatience
from exoshuffle.engines.local.objects import loading
from exoshuffle.engines.local.objects.loading import Arguments
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.workers.apart import Apart
from exoshuffle.engines.local.workers.hold import Hold
from exoshuffle.engines.local.workers.home import Home
from exoshuffle.engines.local.workers.room import WorkersRoom
from exoshuffle.errors import MemoryLimitError, TaskCancelledError, WorkerDiedError

if TYPE_CHECKING:
    from exoshuffle.engines.local.workers.processes import WorkerProcess
    from exoshuffle.engines.local.workers.servers import Servers

#: While a task waits for a worker, all workers may wait so long without any of them going on; then that is an error.
#: Results that they wait for may come from threads, other actors or the program, so nobody can tell at once that they
#: never will.
_STANDSTILL_SECONDS = 5.0


class _IdleAgainError(Exception):
    """While a thread waited for the memory of a new worker, another became idle."""


class ProcessPool:
    """Workers for tasks; it keeps some idle ones, since a new worker imports anew what functions need.

    Args:
        home: The parts of the engine that workers have.
        budget: The workers' memory is reserved from it.
        impatience: Ends waits for memory that others may never free.
        check_open: Raises once the engine is closed.
    """

    def __init__(
        self, home: Home, budget: Budget, impatience: Impatience, check_open: Callable[[], None]
    ) -> None:
        self._home = home
        self._budget = budget
        self._check_open = check_open
        # As many tasks may wait for results of others as run.
        self._max_idle = 2 * home.num_cpus
        self.room = WorkersRoom(home.num_cpus, budget.outside_tasks())
        self.apart = Apart(self.room, budget, impatience)
        # ``close`` and ``cancel`` in the main thread enter the lock itself, not the condition; see ``event``.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._running: dict[Task, WorkerProcess] = {}
        self._num_starting = 0
        #: Idle workers that collect garbage, and come back soon, or that end.
        self._num_collecting = 0
        self._num_blocked = 0
        self._num_base_used = 0
        #: Threads that wait for the memory of one more worker than there are CPUs.
        self._in_want: set[int] = set()
        self._num_holds = 0
        self._moved_at = time.monotonic()
        self._closed = False
        #: The number of workers and fork servers that were ended from outside with no task in them.
        self.num_blameless = 0
        self._servers: Servers | None = None
        budget.take_off(self._used_bytes)

    @property
    def servers(self) -> Servers:
        """The fork servers, made when they are first asked for."""
        from exoshuffle.engines.local.workers.servers import Servers

        with self._lock:
            if self._servers is None:
                self._servers = Servers(self._home.guard, self.room)
                if self._closed:
                    self._servers.close()
            return self._servers

    def check_room(self) -> None:
        """Raises ``MemoryLimitError`` if there is no room for a single worker."""
        if self.room.num_base == 0:
            raise self._too_small(1)

    def hold(self) -> Hold:
        """Keeps the workers' memory for a task; waits until there is room."""
        with self._lock:
            self._num_holds += 1
        held = Hold(self._let_go)
        try:
            self._set_apart()
        except BaseException:
            held.release()
            raise
        return held

    def hold_at_once(self) -> Hold | None:
        """The same without waiting; None if the memory is not set apart."""
        with self._lock:
            if not self._is_enough(0):
                return None
            self._num_holds += 1
        return Hold(self._let_go)

    def _let_go(self) -> None:
        with self._lock:
            self._num_holds -= 1

    def _set_apart(self) -> None:
        """Sets the workers' memory apart, if it is not; the first server may tell that they take more."""
        with self._lock:
            if self._is_enough(1):
                return
        self.apart.set(self.servers.prepare)

    def _used_bytes(self) -> int:
        """Returns the bytes that are set apart and wanted."""
        return self.apart.bytes if self._is_used() else 0

    def _is_enough(self, own_holds: int) -> bool:
        """Whether what is set apart has to do: none is added for one task while others run."""
        return self.apart.is_enough or (not self.apart.is_none and self._is_used(own_holds))

    def _is_used(self, own_holds: int = 0) -> bool:
        """Whether a task needs a worker, or has one, beside those with so many holds."""
        num_resting = len(self._idle) + self._num_collecting
        return self._num_holds > own_holds or self._num_starting > 0 or len(self._all) > num_resting

    def end_idle(self) -> None:
        """Ends the workers and gives their memory back, unless one is used; called for those who wait for memory."""
        with self._lock:
            if self.apart.is_none or self._num_collecting or self._is_used():
                return
            idle, self._idle = self._idle, []
            apart = self.apart.take()
            # Nobody takes or starts a worker meanwhile.
            num_ending = max(1, len(idle))
            self._num_collecting += num_ending
        try:
            for worker in idle:
                self.give_back(worker, reusable=False)
            if self._servers is not None:
                self._servers.rest()
        finally:
            for reservation in apart:
                reservation.release()
            with self._lock:
                self._num_collecting -= num_ending
                self._move()

    def run(self, task: Task) -> StoredValue:
        """Runs a task in a worker; see ``WorkerProcess.run``."""
        loaded = loading.take(task)
        try:
            worker = self.take(task, task.gpus)
            if self._begin(task, worker):
                return self._run_in(worker, task, loaded)
            self.give_back(worker)
            raise _cancelled(task)
        finally:
            task.interrupt = None

    def _begin(self, task: Task, worker: WorkerProcess) -> bool:
        """Gives a task its worker, which ``cancel`` ends from now on; returns False if it was cancelled before."""
        with self._lock:
            if not task.cancelled:
                self._running[task] = worker
            return not task.cancelled

    def _run_in(self, worker: WorkerProcess, task: Task, loaded: list[Arguments]) -> StoredValue:
        from exoshuffle.engines.local.workers import wire

        try:
            return worker.run(task, wire.TASK, loaded)
        except BaseException as error:
            if task.cancelled:
                raise _cancelled(task) from error
            raise
        finally:
            with self._lock:
                del self._running[task]
            # A task that was cancelled when it had just ended may have taken the worker with it.
            self.give_back(worker, reusable=worker.is_at_rest and not task.cancelled)

    def interrupt_of(self, task: Task) -> Callable[[], None] | None:
        """Returns a function that stops a task, from now until it is over; None if the task needs no worker."""
        return functools.partial(self._interrupt, task) if task.needs_worker else None

    def _interrupt(self, task: Task) -> None:
        """Stops a task that runs or will run in a worker; a task that has ended has left its worker to others."""
        with self._lock:
            worker = self._running.get(task)
            if worker is not None:
                worker.kill()
            else:
                self._changed.notify_all()

    def take(self, task: Task | None = None, gpus: tuple[int, ...] = ()) -> WorkerProcess:
        """Returns an idle worker that lives, or a new one; for GPUs, one that has seen no others.

        Raises:
            MemoryLimitError: There is no memory for another worker, and all workers wait.
            TaskCancelledError: The task was cancelled while there was no worker for it.
        """
        while True:
            with self._lock:
                self._await_room(task)
                worker = self._pop_idle(gpus)
                self._num_starting += worker is None
            if worker is None:
                with contextlib.suppress(_IdleAgainError):
                    return self._start_until_alive()
                continue
            if worker.is_usable and worker.gpus in ((), gpus or worker.gpus):
                return worker
            self.num_blameless += worker.was_ended
            self.give_back(worker, reusable=False)

    def _pop_idle(self, gpus: tuple[int, ...]) -> WorkerProcess | None:
        """Takes the idle worker that has seen these GPUs, or else none; one of others if it has to make room."""
        for wanted in (gpus, ()):
            for index in reversed(range(len(self._idle))):
                if self._idle[index].gpus == wanted:
                    return self._idle.pop(index)
        # Beyond one worker for each CPU, a new one waits for memory, which the task's arguments may take.
        may_start = len(self._all) + self._num_starting < self.room.num_base
        return None if not self._idle or (gpus and may_start) else self._idle.pop()

    def give_back(self, worker: WorkerProcess, reusable: bool = True) -> None:
        """Ends ``take``; a worker in the middle of something is not reusable."""
        with self._lock:
            self._move()
            if reusable and not self._closed and len(self._idle) < self._max_idle:
                self._idle.append(worker)
                return
        worker.dispose()
        with self._lock:
            self._all.discard(worker)
            self._num_base_used -= worker.is_base
            self._move()

    def collect_garbage(self) -> None:
        """Has idle workers collect garbage; busy workers do so when they ask for memory."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._num_collecting += len(idle)
        for worker in idle:
            with contextlib.suppress(WorkerDiedError):
                worker.collect_garbage()
            self.give_back(worker, reusable=worker.is_alive)
            with self._lock:
                self._num_collecting -= 1
                self._move()

    @contextlib.contextmanager
    def blocked(self) -> Iterator[None]:
        """A context for a worker that waits: for the engine's answer to a blocking call, or as an actor for calls."""
        with self._lock:
            self._num_blocked += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._lock:
                self._num_blocked -= 1
                self._move()

    def _move(self) -> None:
        self._moved_at = time.monotonic()
        self._changed.notify_all()

    def close(self) -> None:
        """Ends all workers; threads that wait for a worker see it die and dispose of it."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
            if self._servers is not None:
                self._servers.close()
            idle, self._idle = self._idle, []
            workers = list(self._all)
        for worker in workers:
            worker.kill()
        for worker in idle:
            self.give_back(worker, reusable=False)

    def end_servers(self) -> None:
        """Ends all fork servers; called when their workers have ended."""
        if self._servers is not None:
            self._servers.end()

    def _await_room(self, task: Task | None) -> None:
        while True:
            self._check_open()
            if task is not None and task.cancelled:
                raise _cancelled(task)
            num_workers = len(self._all) + self._num_starting
            # Another worker takes memory; a task that waits for this one may need that memory.
            most = min(self.room.max_workers, self.room.max_running + self._num_blocked)
            may_start = num_workers < most and not self._num_collecting
            if self._idle or may_start:
                return
            left = self._moved_at + _STANDSTILL_SECONDS - time.monotonic()
            if left <= 0 and self._num_blocked >= num_workers:
                raise self._too_small(num_workers + 1)
            self._changed.wait(max(left, _STANDSTILL_SECONDS / 10))

    def _too_small(self, num_workers: int) -> MemoryLimitError:
        return self.room.too_small(num_workers, self._home.memory_limit)

    def _start_until_alive(self) -> WorkerProcess:
        """Starts a worker; if it is ended from outside while it starts, starts the next."""
        from exoshuffle.engines.local.workers import endings

        for number in range(1, endings.MAX_STARTS + 1):
            try:
                return self._start()
            except WorkerDiedError as error:
                with self._lock:
                    self.num_blameless += error.from_outside
                    if not error.from_outside or self._closed or number == endings.MAX_STARTS:
                        raise
                    self._num_starting += 1
        raise AssertionError("the last one is returned, or its error raised")

    def _start(self) -> WorkerProcess:
        from exoshuffle.engines.local.workers.processes import WorkerProcess

        with self._lock:
            is_base = self._num_base_used < self.room.num_base
            self._num_base_used += is_base
        try:
            # Only an actor that is made again may have to wait here.
            if self.apart.is_none:
                self._set_apart()
            self.servers.look()
            self.apart.set_now()
            reservation = None if is_base else self._reserve_one()
            worker = WorkerProcess(self._home, self.servers, reservation, self.blocked)
        except BaseException:
            with self._lock:
                self._num_starting -= 1
                self._num_base_used -= is_base
            raise
        with self._lock:
            self._num_starting -= 1
            self._all.add(worker)
        try:
            worker.greet()
        except BaseException:
            self.give_back(worker, reusable=False)
            raise
        return worker

    def _reserve_one(self) -> Reservation:
        """Reserves the memory of one more worker; raises ``_IdleAgainError`` if it must wait and another is idle."""
        me = threading.get_ident()
        self._in_want.add(me)
        try:
            return self._budget.reserve(self.room.worker_bytes)
        finally:
            self._in_want.discard(me)

    def offer_idle(self) -> None:
        """Ends this thread's wait for the memory of one more worker if one is idle; called while it waits."""
        if self._idle and threading.get_ident() in self._in_want:
            raise _IdleAgainError


def _cancelled(task: Task) -> TaskCancelledError:
    return TaskCancelledError(f"task {task.name} was cancelled")
