"""``LocalEngine``: objects, references and recovery. Who runs when is the scheduler's business (``scheduler.py``).

Guarantees: references are counted exactly; a corrupt spilled block is computed again from its lineage and never
returned; ``close`` ends every thread and leaves no block, file or mapping behind.

All state is under one lock; waiting, I/O and user code happen outside it.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from exoshuffle import _native
from exoshuffle.engines.local import arguments, limits, values
from exoshuffle.engines.local.objects import Bundle, ObjectState, Status, Task, ValueGoneError
from exoshuffle.engines.local.scheduler import Scheduler
from exoshuffle.errors import (
    BlockLostError,
    ClosedError,
    CorruptBlockError,
    MemoryLimitError,
    OptionsError,
    TaskCancelledError,
    TaskError,
)
from exoshuffle.futures.engine import BlockBuffer, TaskOptions
from exoshuffle.futures.refs import Ref, SliceRef
from exoshuffle.observe.events import Observer, TaskFinished
from exoshuffle.units import format_bytes

#: How often who waits looks for handles that could only be queued; see ``_wait_a_little``.
_LOOK_AGAIN_SECONDS = 0.1


class LocalEngine:
    """Runs tasks on threads of this process, over a store with one byte budget.

    See ``exoshuffle.init`` for the arguments.
    """

    def __init__(
        self,
        memory_limit: int | str | None = None,
        spill_dirs: str | Sequence[str] | None = None,
        num_cpus: int | None = None,
    ) -> None:
        if num_cpus is not None and num_cpus < 1:
            raise OptionsError(f"num_cpus is {num_cpus}; it must be at least 1")
        self.num_cpus = num_cpus or limits.usable_cpus()
        self.memory_limit, self.budget_bytes = limits.limit_and_budget(memory_limit)
        if spill_dirs is None:
            spill_dirs = limits.default_spill_dir()
        self.spill_dirs = (
            [spill_dirs] if isinstance(spill_dirs, str) else [str(path) for path in spill_dirs]
        )
        self._store = _native.Store(self.budget_bytes, self.spill_dirs)
        near = self.memory_limit - limits.slack_bytes(self.memory_limit) // 2
        self._guard = _native.MemoryGuard(self._store, near)
        self._lock = threading.Lock()
        self._done = threading.Condition(self._lock)
        self._handle_events: collections.deque[tuple[ObjectState, int]] = collections.deque()
        self._blocks: dict[int, ObjectState] = {}
        self._closed = False
        self._num_submitted = 0
        self._num_recovered = 0
        self._num_lost = 0
        self._observers: list[Observer] = []
        self._scheduler = Scheduler(self, self._lock, self.num_cpus)

    # --- the engine protocol -----------------------------------------------------------------------------------

    def submit(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Ref:
        """See ``Engine``."""
        if options.memory > self.budget_bytes:
            raise MemoryLimitError(
                f"task {options.name or fn.__name__} declares {format_bytes(options.memory)} of working memory, "
                f"but the budget is {format_bytes(self.budget_bytes)}; raise memory_limit"
            )
        if options.num_cpus > self.num_cpus:
            raise OptionsError(
                f"the task needs {options.num_cpus} CPUs; the engine has {self.num_cpus}"
            )
        with self._lock:
            self._check_open()
            task = Task(fn, args, kwargs, options, self._num_submitted)
            self._num_submitted += 1
            output = task.output = ObjectState(self, options.num_returns, task)
            ref = Ref(output)
            self._await_arguments(task)
        self._settle()
        return ref

    def put(self, value: Any) -> Ref:
        """See ``Engine``."""
        stored = values.encode(self._store, value, 1)
        with self._lock:
            self._check_open()
            state = ObjectState(self, 1, None)
            ref = Ref(state)
            self._fulfil(state, stored)
        return ref

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Any:
        """See ``Engine``."""
        deadline = None if timeout is None else time.monotonic() + timeout
        index = ref.index if isinstance(ref, SliceRef) else None
        state: ObjectState = (ref.ref if isinstance(ref, SliceRef) else ref)._object  # type: ignore[assignment]
        with self._scheduler.slot_given_back():
            while True:
                self._await_object(state, deadline)
                try:
                    return self._load([(state, index)])[0]
                except CorruptBlockError as error:
                    self.lose(error)
                except ValueGoneError:
                    self._bring_back(state)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._scheduler.slot_given_back(), self._lock:
            while True:
                ready = [ref for ref in refs if _is_over(ref)]
                left = None if deadline is None else deadline - time.monotonic()
                if len(ready) >= num_ready or (left is not None and left <= 0):
                    break
                self._check_open()
                self._wait_a_little(left)
        return ready, [ref for ref in refs if not _is_over(ref)]

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        return ref._object.error  # type: ignore[attr-defined,no-any-return]

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``."""
        state: ObjectState = ref._object  # type: ignore[assignment]
        with self._lock:
            task = state.task
            if state.status is not Status.PENDING or task is None or task.started:
                return False
            self._cancel(task)
        self._settle()
        return True

    def allocate_block(self, offsets: Sequence[int]) -> BlockBuffer:
        """See ``Engine``."""
        return self._store.allocate(offsets)

    def stats(self) -> dict[str, int]:
        """Counters of the store, and tasks submitted and objects recovered."""
        self._settle()
        counters: dict[str, int] = self._store.stats()
        return counters | {
            "num_tasks": self._num_submitted,
            "num_recovered": self._num_recovered,
            "num_objects": len(self._blocks),
        }

    def close(self) -> None:
        """See ``Engine``."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._done.notify_all()
        self._store.close()
        self._scheduler.close()
        self._guard.close()

    def add_observer(self, observer: Observer) -> None:
        """Calls ``observer`` with every event from now on, on the thread where it happens."""
        self._observers.append(observer)

    def remove_observer(self, observer: Observer) -> None:
        """Ends ``add_observer``."""
        self._observers.remove(observer)

    # --- called by the scheduler -------------------------------------------------------------------------------

    def has_references(self, task: Task) -> bool:
        """Whether the task has arguments to fetch."""
        return any(True for _ in arguments.targets(task))

    def reserve(self, num_bytes: int) -> Any:
        """Working memory for a task; blocks until there is room."""
        return self._store.reserve(num_bytes)

    def resolve(self, task: Task) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a task's arguments; restores what was spilled, all at once."""
        args, kwargs = task.args or (), task.kwargs or {}
        wanted: list[tuple[ObjectState, int | None]] = []
        for arg in (*args, *kwargs.values()):
            wanted.extend(arguments.wanted(arg))
        loaded = iter(self._load(wanted))
        return (
            tuple(arguments.filled(arg, loaded) for arg in args),
            {name: arguments.filled(arg, loaded) for name, arg in kwargs.items()},
        )

    def finish(self, task: Task, value: Any, seconds: float) -> None:
        """The function returned."""
        assert task.output is not None
        stored = values.encode(self._store, value, task.options.num_returns)
        with self._lock:
            task.release_arguments()
            self._fulfil(task.output, stored)
        self._settle()
        event = TaskFinished(task.name, task.attempt, seconds)
        for observer in list(self._observers):
            observer(event)

    def fail(self, task: Task, error: BaseException) -> None:
        """The attempt failed: another attempt if that may help, else the object fails."""
        with self._lock:
            retry = getattr(error, "retryable", False) and task.attempt <= task.options.max_retries
            if retry and not self._closed and not task.cancelled:
                task.attempt += 1
                task.started = False
                task.values = None
                self._await_arguments(task)
            elif task.output is not None and task.output.status is Status.PENDING:
                task.release_arguments()
                if not isinstance(error, TaskError | ClosedError | TaskCancelledError):
                    error = TaskError(task.name, task.attempt, error)
                self._reject(task.output, error)
        self._settle()

    def await_again(self, task: Task) -> None:
        """Values of a task's arguments were lost before it started: waits until they have been computed again.

        Not an attempt of the task: the tasks that made the lost values count theirs, which ends this.
        """
        with self._lock:
            if not self._closed and not task.cancelled:
                self._await_arguments(task)
        self._settle()

    def lose(self, error: CorruptBlockError) -> None:
        """A spilled block is corrupt: forget it and compute it again."""
        with self._lock:
            state = self._blocks.get(error.block_id)
            if state is not None and state.status is Status.DONE:
                self._num_lost += 1
                self._drop_value(state)
                self._recover(state)

    def count_handle(self, state: ObjectState, change: int) -> None:
        """A ``Ref`` came or went; see ``objects`` for why this only queues."""
        self._handle_events.append((state, change))
        if change < 0:
            self._settle()

    # --- waiting and loading -----------------------------------------------------------------------------------

    def _await_object(self, state: ObjectState, deadline: float | None) -> None:
        with self._lock:
            while state.status is Status.PENDING:
                self._check_open()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"{state!r} after the timeout")
                self._wait_a_little(left)
            if state.error is not None:
                raise state.error

    def _wait_a_little(self, left: float | None) -> None:
        """Waits for an object to be done. Lock held.

        Looks again now and then: a handle that went while another thread held the lock was only queued, and its memory
        may be what everybody waits for.
        """
        self._count_handles()
        self._done.wait(_LOOK_AGAIN_SECONDS if left is None else min(left, _LOOK_AGAIN_SECONDS))

    def _bring_back(self, state: ObjectState) -> None:
        with self._lock:
            if state.status is Status.GONE:
                self._recover(state)

    def _load(self, wanted: list[tuple[ObjectState, int | None]]) -> list[Any]:
        """Values of finished objects; one fetch for all that lie in the store."""
        requests: list[tuple[int, int]] = []
        counts: list[int] = []
        for state, index in wanted:
            stored = state.stored
            if stored is None or state.status is not Status.DONE:
                self._check_open()
                raise ValueGoneError(f"{state!r}: its value is gone")
            if stored.block_id is None:
                counts.append(0)
            else:
                indices = range(state.num_slices) if index is None else (index,)
                requests.extend((stored.block_id, i) for i in indices)
                counts.append(len(indices))
        buffers = iter(self._store.fetch(requests) if requests else ())
        return [
            arguments.value_of(state, index, [next(buffers) for _ in range(count)])
            for (state, index), count in zip(wanted, counts, strict=True)
        ]

    def _await_arguments(self, task: Task) -> None:
        """Hands the task to the scheduler once all its arguments are done, or rejects it once one has failed.

        Lock held.
        """
        waiting = 0
        needs_store = False

        def arrived(failed: bool) -> None:
            task.missing -= 1
            if (task.missing == 0 or failed) and not task.is_over():
                self._start_or_reject(task, needs_store=True)

        for target in arguments.targets(task):
            needs_store = True
            if isinstance(target, ObjectState):
                if target.status is Status.GONE:
                    self._recover(target)
                if target.status is Status.PENDING:
                    target.waiters.append(arrived)
                    waiting += 1
            elif self._bundle_pending(target):
                target.waiters.append(arrived)
                waiting += 1
        task.missing = waiting
        if waiting == 0 or arguments.argument_error(task) is not None:
            self._start_or_reject(task, needs_store)

    def _start_or_reject(self, task: Task, needs_store: bool) -> None:
        error = arguments.argument_error(task)
        if error is None:
            self._scheduler.add(task, staged=needs_store or task.options.memory > 0)
        elif task.output is not None:
            task.release_arguments()
            self._reject(task.output, error)

    def _bundle_pending(self, bundle: Bundle) -> bool:
        """Whether objects of the sequence are still to come.

        Looks at each of them only when something was lost since the last look: R tasks share a sequence of M objects.
        """
        if bundle.missing or bundle.complete_at == self._num_lost:
            return bundle.missing > 0
        # What is lost from here on asks for another look.
        looked_at = self._num_lost

        def arrived(failed: bool) -> None:
            bundle.missing -= 1
            if bundle.missing == 0 or failed:
                bundle.settle(looked_at)

        for state in bundle.objects:
            if state.status is Status.GONE:
                self._recover(state)
            if state.status is Status.PENDING:
                bundle.missing += 1
                state.waiters.append(arrived)
        if bundle.missing == 0 or any(state.error is not None for state in bundle.objects):
            bundle.settle(looked_at)
        return bundle.missing > 0

    # --- the life of an object. Lock held in all of these ------------------------------------------------------

    def _fulfil(self, state: ObjectState, stored: values.StoredValue) -> None:
        if state.status is not Status.PENDING:  # cancelled while it ran
            if stored.block_id is not None:
                self._store.free(stored.block_id)
            return
        state.status = Status.DONE
        state.stored = stored
        if stored.block_id is not None:
            self._blocks[stored.block_id] = state
        self._count_handles()
        if state.handles == 0:
            self._drop_value(state)
        self._announce(state)

    def _reject(self, state: ObjectState, error: BaseException) -> None:
        state.status = Status.FAILED
        state.error = error
        self._announce(state)

    def _cancel(self, task: Task) -> None:
        assert task.output is not None
        task.cancelled = True
        task.release_arguments()
        self._reject(task.output, TaskCancelledError(f"task {task.name} was cancelled"))

    def _announce(self, state: ObjectState) -> None:
        waiters, state.waiters = state.waiters, []
        for waiter in waiters:
            waiter(state.error is not None)
        self._done.notify_all()

    def _drop_value(self, state: ObjectState) -> None:
        if state.status is Status.DONE:
            state.status = Status.GONE
        stored, state.stored = state.stored, None
        if stored is not None and stored.block_id is not None:
            self._blocks.pop(stored.block_id, None)
            if not self._closed:
                self._store.free(stored.block_id)

    def _drop_task(self, state: ObjectState) -> None:
        """Nobody can ask for the result any more: a task that has not started never does."""
        task = state.task
        if (
            task is not None
            and state.status is Status.PENDING
            and task.attempt == 1
            and not task.started
        ):
            self._cancel(task)

    def _recover(self, state: ObjectState) -> None:
        """Runs the task of a lost object again, and first those of its arguments that are gone too."""
        task = state.task
        if task is None or task.attempt > task.options.max_retries:
            why = (
                "it was put, not computed" if task is None else f"{task.attempt} attempts were made"
            )
            self._reject(state, BlockLostError(f"{state!r}: its bytes are lost and {why}"))
            return
        state.status = Status.PENDING
        self._num_recovered += 1
        task.attempt += 1
        task.started = False
        task.restore_arguments()
        self._count_handles()
        self._await_arguments(task)

    def _settle(self) -> None:
        """Applies queued handle counts unless somebody holds the lock; the holder will look again."""
        while self._handle_events and self._lock.acquire(blocking=False):
            try:
                self._count_handles()
            finally:
                self._lock.release()

    def _count_handles(self) -> None:
        events = self._handle_events
        while events:
            state, change = events.popleft()
            state.handles += change
            if state.handles == 0 and change < 0:
                self._drop_value(state)
                self._drop_task(state)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the engine is closed; call exoshuffle.init() to start another")


def _is_over(ref: Ref) -> bool:
    return ref._object.status is not Status.PENDING  # type: ignore[attr-defined]
