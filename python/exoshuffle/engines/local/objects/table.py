"""The table of objects: how each comes, fails, is lost, made again and freed.

Guarantees: references are counted exactly. A task starts when all its arguments are done, and fails when one of them
has failed. A lost object is computed again from its lineage, of which only the needed part runs.

Methods are called with the lock held, unless they say otherwise; none of them waits. Effects of the end or the loss of
an object are handled step by step, not by recursion. A chain of tasks may be longer than a stack is deep.
"""

from __future__ import annotations

import collections
import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import cast

from exoshuffle._native import Store
from exoshuffle.engines.local.objects import arguments
from exoshuffle.engines.local.objects.state import Bundle, ObjectState, Status
from exoshuffle.engines.local.objects.task import Task, maker_of
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.errors import (
    BlockLostError,
    ClosedError,
    CorruptBlockError,
    ForkedEngineError,
    TaskCancelledError,
)

#: How long a thread that finds the lock taken leaves the interpreter to others.
_AWAY_SECONDS = 50e-6
#: Arguments for a lock's ``acquire``.
_WITHOUT_WAITING = (False,)


class ObjectTable:
    """All objects of an engine.

    Attributes:
        lock: Guards everything.
        start: Starts a task whose arguments are done.
        waiters: Called when something changes: an object comes or fails, a stream ends, the engine is closed.
    """

    def __init__(self, store: Store) -> None:
        self.lock = threading.Lock()
        #: Handles that came and went and are not counted yet: objects and +1 or -1.
        self.handle_changes: collections.deque[tuple[ObjectState, int]] = collections.deque()
        self.waiters: list[Callable[[bool], None]] = []
        self._store = store
        self.start: Callable[[Task], None] = lambda _: None
        self.closed = False
        #: The process that owns the engine, if this process was forked from it.
        self._forked_from: int | None = None
        self.num_recovered = 0
        self._num_lost = 0
        #: Consequences of past steps, to be done before the lock is given back.
        self._steps: collections.deque[Callable[[], None]] = collections.deque()
        self._is_stepping = False
        # Weak, so that the garbage collector finds cycles of lineage and references in arguments.
        self._blocks: weakref.WeakValueDictionary[int, ObjectState] = weakref.WeakValueDictionary()

    @property
    def num_blocks(self) -> int:
        """Objects that lie in the store."""
        return len(self._blocks)

    def check_process(self) -> None:
        """Raises ``ForkedEngineError`` in a forked child of the process that owns the engine."""
        if self._forked_from is not None:
            raise ForkedEngineError.of(self._forked_from)

    def check_open(self) -> None:
        """Raises ``ClosedError`` once the engine is closed; raises like ``check_process`` first."""
        self.check_process()
        if self.closed:
            raise ClosedError("the engine is closed; call exoshuffle.init() to start another")

    def own(self, found: object) -> ObjectState:
        """Returns the object behind a reference, if it is of this engine. Without the lock.

        Raises:
            ClosedError: The reference is of another engine, closed before this one started; or this one is closed.
            ForkedEngineError: The reference is of the process that this one was forked from.
        """
        self.check_open()
        counter = getattr(found, "counter", None)
        if counter is not self:
            if isinstance(counter, ObjectTable):
                counter.check_process()
            raise ClosedError(f"{found!r} belongs to an engine that was closed; make it again")
        return cast("ObjectState", found)

    def check_arguments(self, task: Task) -> None:
        """Raises ``ClosedError`` if an argument is of another engine. Without the lock."""
        for target in arguments.targets(task):
            if not isinstance(target, Bundle):
                self.own(target)
            elif target.objects and target.counter is not self:
                self.own(next(one for one in target.objects if one.counter is not self))

    def forked(self, process: int) -> None:
        """Closes the table in a forked child: the threads that may hold the lock are not in the child."""
        self._forked_from = process
        self.closed = True

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the one that owns the engine; then nobody may take the lock."""
        return self._forked_from is not None

    def close(self) -> None:
        """Closes the table, and wakes everybody who waits."""
        self.closed = True
        self.notify()

    # --- handles -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Applies queued handle counts, unless somebody holds the lock: the holder looks again. Without the lock."""
        while self.handle_changes:
            # A closed table owes nobody a value; references may die when Python has taken its modules apart.
            if self._forked_from is not None or self.closed:
                self.handle_changes.clear()
                return
            held: list[bool] = []
            try:
                # In one step for signals, unlike an assignment: an interrupt may not come between lock and note.
                held.extend(map(self.lock.acquire, _WITHOUT_WAITING))
                if not held[0]:
                    return
                self.count_handles()
            finally:
                if held and held[0]:
                    self.lock.release()

    def make_way(self) -> None:
        """Lets the holder of the lock go on. Called without the lock, before it is taken once for every task.

        A thread that waits in ``acquire`` gets the lock before it gets the interpreter. The thread that runs meanwhile
        finds the lock taken and waits in turn. So both change places at every use of the lock, some ten times a task,
        and nothing ends that. Here the interpreter is left to others without waiting for the lock.
        """
        if self.lock.locked():
            time.sleep(_AWAY_SECONDS)

    def count_handles(self) -> None:
        """Applies queued handle counts."""
        changes = self.handle_changes
        while changes:
            state, change = changes.popleft()
            state.handles += change
            if state.handles == 0 and change < 0:
                self._drop_value(state)
                self._drop_task(state)

    def notify(self) -> None:
        """Wakes all who wait for something to change."""
        if self.waiters:
            waiters, self.waiters = self.waiters, []
            for waiter in waiters:
                waiter(False)

    # --- the life of an object ---------------------------------------------------------------------------------

    def fulfil(self, state: ObjectState, stored: StoredValue) -> None:
        """Gives the object its value."""
        if state.status is not Status.PENDING:  # cancelled while it ran, or made twice
            self.discard(stored)
            return
        state.status = Status.DONE
        state.stored = stored
        if stored.block_id is not None:
            self._blocks[stored.block_id] = state
        self.count_handles()
        if state.handles == 0:
            self._drop_value(state)
        self._announce(state)

    def discard(self, stored: StoredValue) -> None:
        """Frees a value that nobody wants."""
        if stored.block_id is not None and not self.closed:
            self._store.free(stored.block_id)

    def reject(self, state: ObjectState, error: BaseException) -> None:
        """Fails the object: there will be no value."""
        state.status = Status.FAILED
        state.error = error
        if state.actor is not None:
            state.actor.end(error)
        self._announce(state)

    def cancel(self, task: Task) -> None:
        """Cancels a task: it does not run, or nobody uses its result."""
        assert task.output is not None
        task.cancelled = True
        if not task.started:
            task.release_memory()
        error = TaskCancelledError(f"task {task.name} was cancelled")
        self._release_for_good(task, error)
        self.reject(task.output, error)
        if task.actor is not None:
            task.actor.wake()

    def _announce(self, state: ObjectState) -> None:
        if state.waiters:
            waiters, state.waiters = state.waiters, []
            failed = state.error is not None
            self._do(functools.partial(waiter, failed) for waiter in waiters)
        self.notify()

    def _do(self, steps: Iterable[Callable[[], None]]) -> None:
        """Takes further steps: now, or after the step that is being done."""
        self._steps.extend(steps)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._steps:
                self._steps.popleft()()
        finally:
            self._is_stepping = False

    def _drop_value(self, state: ObjectState) -> None:
        if state.stored is not None and state.stored.is_lasting:
            return
        if state.status is Status.DONE:
            state.status = Status.GONE
            self._untie(state)
        stored, state.stored = state.stored, None
        if stored is not None and stored.block_id is not None:
            self._blocks.pop(stored.block_id, None)
            self.discard(stored)

    def _untie(self, state: ObjectState) -> None:
        """Has the task of a gone object forget it, so that both, and what the task keeps, go without a collector."""
        task = maker_of(state)
        if task is not None and task.output is state and task.stream is None:
            task.output = None

    def _drop_task(self, state: ObjectState) -> None:
        """Cancels a task that has not started, or ends an actor: nobody can ask for the result any more."""
        if state.actor is not None:
            state.actor.released()
            return
        task = maker_of(state)
        if (
            task is not None
            and task.output is state
            and state.status is Status.PENDING
            and task.actor is None
            and task.attempt == 1
            and not task.started
        ):
            self.cancel(task)

    # --- loss and recovery -------------------------------------------------------------------------------------

    def lose(self, error: CorruptBlockError) -> None:
        """Forgets a corrupt spilled block, and computes it again. Without the lock."""
        with self.lock:
            state = self._blocks.get(error.block_id)
            if state is not None and state.status is Status.DONE:
                self._num_lost += 1
                self._drop_value(state)
                self.recover(state)

    def recover(self, state: ObjectState) -> None:
        """Runs the task of a lost object again, and first those of its arguments that are gone too."""
        task = maker_of(state)
        why = ""
        if task is None:
            why = "it was put, not computed"
        elif task.actor is not None:
            why = f"actor {task.actor.name} made it, whose calls are not repeated"
        elif task.cancelled:
            why = "its task was cancelled"
        elif not self._is_running_again(task):
            if task.stream is not None:
                task.stream.lose(state)
            if not task.can_run_again():
                why = f"{task.attempt} attempts were made"
        if task is None or why:
            self.reject(state, BlockLostError(f"{state!r}: its bytes are lost and {why}"))
            return
        state.status = Status.PENDING
        self.num_recovered += 1
        if task.stream is not None and not task.stream.ended:
            task.stream.hasten()
            return
        if task.stream is None:
            task.output = state
        task.attempt += 1
        self.run_again(task)

    def run_again(self, task: Task) -> None:
        """Runs a task that is over once more."""
        task.started = False
        task.restore_arguments()
        if task.stream is not None:
            assert task.output is not None
            task.output.status = Status.PENDING
            task.output.error = None
            task.stream.restart()
        self.count_handles()
        self._do([functools.partial(self.await_arguments, task)])

    def _is_running_again(self, task: Task) -> bool:
        return task.stream is not None and not task.stream.ended

    # --- arguments ---------------------------------------------------------------------------------------------

    def await_arguments(self, task: Task) -> None:
        """Starts the task once all its arguments are done, or rejects it once one has failed."""
        waiting = 0

        def arrived(failed: bool) -> None:
            task.missing -= 1
            if (task.missing == 0 or failed) and not task.is_over():
                self._start_or_reject(task)

        for target in arguments.targets(task):
            if isinstance(target, ObjectState):
                if target.status is Status.GONE:
                    self.recover(target)
                if target.status is Status.PENDING:
                    target.waiters.append(arrived)
                    waiting += 1
            elif self._bundle_pending(target):
                target.waiters.append(arrived)
                waiting += 1
        task.missing = waiting
        if waiting == 0 or arguments.argument_error(task) is not None:
            self._start_or_reject(task)

    def _start_or_reject(self, task: Task) -> None:
        error = arguments.argument_error(task)
        if error is None:
            self.start(task)
        elif task.output is not None:
            self.reject_task(task, error)

    def reject_task(self, task: Task, error: BaseException) -> None:
        """Fails the result of a task, which will not run again."""
        assert task.output is not None
        self._release_for_good(task, error)
        if task.output.status is Status.PENDING:
            self.reject(task.output, error)
        if task.actor is not None:
            task.actor.wake()

    def _release_for_good(self, task: Task, error: BaseException) -> None:
        task.release_arguments()
        if task.stream is not None:
            task.stream.end(error)
        if task.stream is None or not task.can_run_again():  # else items may need it
            task.drop_lineage()

    def _bundle_pending(self, bundle: Bundle) -> bool:
        """Whether objects of the sequence are still to come.

        R tasks share a sequence of M objects, so each object is looked at only if something was lost since last time.
        """
        if bundle.missing or bundle.complete_at == self._num_lost:
            return bundle.missing > 0
        # A loss from here on asks for another look.
        looked_at = self._num_lost

        def arrived(failed: bool) -> None:
            bundle.missing -= 1
            if bundle.missing == 0 or failed:
                bundle.settle(looked_at)

        sources = [state.source() for state in bundle.objects]
        for state in sources:
            if state.status is Status.GONE:
                self.recover(state)
            if state.status is Status.PENDING:
                bundle.missing += 1
                state.waiters.append(arrived)
        if bundle.missing == 0 or any(state.error is not None for state in sources):
            bundle.settle(looked_at)
        return bundle.missing > 0
