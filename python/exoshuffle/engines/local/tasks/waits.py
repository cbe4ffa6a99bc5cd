"""Waits for objects and for items of streams, for ``get``, ``wait`` and the iteration of a stream.

Guarantees: a task that waits gives its CPU slot to others. Objects that are lost meanwhile are made again. An
interrupted wait (Ctrl-C) leaves no lock and no waiter behind. An interrupt in the middle of another may leave the
waiter, until the object comes.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from exoshuffle.engines.local.objects.state import (
    Awaited,
    ObjectState,
    Status,
    ValueGoneError,
    is_over,
)
from exoshuffle.engines.local.objects.streams import Stream
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.tasks.event import Event
from exoshuffle.engines.local.tasks.scheduler import Scheduler
from exoshuffle.errors import CorruptBlockError, TaskCancelledError
from exoshuffle.futures.refs import Ref

#: How often a waiting thread applies queued handle counts. A handle that goes while another thread holds the lock is
#: only queued; everybody may be waiting for its memory.
_LOOK_AGAIN_SECONDS = 0.1

#: How the names of the engine's threads begin.
OWN_THREADS = "exoshuffle-"

_Seen = TypeVar("_Seen")


class Waits:
    """The waiting calls of an engine."""

    def __init__(self, table: ObjectTable, scheduler: Scheduler) -> None:
        self._table = table
        self._scheduler = scheduler
        #: The events of all who wait for something to be made, and whether a task waits.
        self._in_want: dict[Event, bool] = {}
        #: Generators that are far ahead.
        self._num_ahead = 0

    def look(
        self, state: ObjectState, timeout: float | None, look: Callable[[ObjectState], _Seen]
    ) -> _Seen:
        """Returns what ``look`` sees of an object once it is done; a lost object is made again.

        A task keeps its CPU slot while an object that is done is brought back from disk. Otherwise other tasks would
        start in its place, and reserve the memory that the object needs. So six reduces that streamed large partitions
        within 350 MB waited for each other for ever.
        """
        deadline = _deadline(timeout)
        while True:
            source = self._await_source(state, deadline)
            try:
                return look(state)
            except CorruptBlockError as error:
                self._table.lose(error)
            except ValueGoneError:
                with self._table.lock:
                    self._table.check_open()
                    if source.status is Status.GONE:
                        self._table.recover(source)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        with self._scheduler.slot_given_back():
            self._until(
                lambda: sum(map(is_over, refs)) >= num_ready, self._table, _deadline(timeout)
            )
        ready: list[Ref] = []
        pending: list[Ref] = []
        for ref in refs:
            (ready if is_over(ref) else pending).append(ref)
        return ready, pending

    def next_item(self, stream: Stream, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle.next_ref``."""
        ref: Ref | None = None

        def came() -> bool:
            nonlocal ref
            ref = stream.take(index)
            return ref is not None or stream.ended

        with self._scheduler.slot_given_back():
            if not self._until(came, self._table, _deadline(timeout)):
                raise TimeoutError(f"no item {index} after the timeout of {timeout} s")
        if ref is None and stream.error is not None:
            raise _fresh(stream.error)
        return ref

    def await_taker(self, stream: Stream) -> None:
        """Has a generator that is far ahead wait until somebody takes an item, or nothing else can go on."""
        with self._scheduler.slot_given_back(), self._far_ahead():
            self._until(
                lambda: not stream.is_far_ahead or self._is_stuck(), stream, None, in_want=False
            )

    @contextlib.contextmanager
    def for_tasks(self) -> Iterator[None]:
        """See ``Engine.waiting_for_tasks``: the caller waits by itself, for what others make."""
        event = Event()
        with self._scheduler.slot_given_back():
            with self._table.lock:
                self._in_want[event] = self._scheduler.current_task() is not None
            try:
                yield
            finally:
                with self._table.lock:
                    del self._in_want[event]

    def all_are_ahead(self) -> bool:
        """Whether tasks run, and each waits for somebody to take its items. Lock held."""
        return not self._in_want and 0 < self._num_ahead == self._scheduler.num_running()

    def stands_still(self, for_memory: set[int]) -> int | None:
        """See ``helpless.Waiting``."""
        with self._table.lock:
            threads = {thread for thread, _, _ in self._scheduler.now_running()}
            num_waiting = self._num_ahead + sum(self._in_want.values()) + len(threads & for_memory)
            if num_waiting < len(threads):
                return None
            return self._scheduler.num_begun(for_memory)

    def program_waits(self, for_memory: set[int]) -> bool:
        """See ``helpless.Waiting``."""
        threads = {
            one.ident for one in threading.enumerate() if not one.name.startswith(OWN_THREADS)
        }
        with self._table.lock:
            in_want = sum(not is_task for is_task in self._in_want.values())
        return in_want + len(threads & for_memory) >= len(threads)

    @contextlib.contextmanager
    def _far_ahead(self) -> Iterator[None]:
        with self._table.lock:
            self._num_ahead += 1
        try:
            yield
        finally:
            with self._table.lock:
                self._num_ahead -= 1

    def _is_stuck(self) -> bool:
        """Whether somebody waits for a task that has no memory to begin while all others wait. Lock held."""
        all_wait = self._num_ahead + sum(self._in_want.values()) >= self._scheduler.num_running()
        return bool(self._in_want) and all_wait and self._scheduler.has_waiting_tasks()

    def _await_source(self, state: ObjectState, deadline: float | None) -> ObjectState:
        """Waits for an object, and for the object that it is the same as, which is returned."""
        self._await_object(state, deadline)
        source = state.source()
        if source is not state:
            self._await_object(source, deadline)
        return source

    def _await_object(self, state: ObjectState, deadline: float | None) -> None:
        is_pending = state.status is Status.PENDING
        with self._scheduler.slot_given_back() if is_pending else contextlib.nullcontext():
            came = self._until(lambda: state.status is not Status.PENDING, state, deadline)
        if not came:
            raise TimeoutError(f"{state!r} after the timeout")
        if state.error is not None:
            raise _fresh(state.error)

    def _until(
        self,
        reached: Callable[[], bool],
        awaited: Awaited,
        deadline: float | None,
        *,
        in_want: bool = True,
    ) -> bool:
        """Waits until ``reached``, which is called with the lock held; returns False when time is up.

        The thread looks only now and then for the end of the engine or of its task. A thread that wakes for nothing
        costs others their turn.
        """
        event = Event()
        try:
            while True:
                with self._table.lock:
                    self._table.count_handles()
                    self._leave(awaited, event)
                    if reached():
                        return True
                    left = _LOOK_AGAIN_SECONDS
                    if deadline is not None:
                        left = min(left, deadline - time.monotonic())
                    if left <= 0:
                        return False
                    self._check_wanted()
                    awaited.waiters.append(event.set)
                    if in_want:
                        self._in_want[event] = self._scheduler.current_task() is not None
                event.wait(left)
        except BaseException:
            with self._table.lock:
                self._leave(awaited, event)
            raise

    def _leave(self, awaited: Awaited, event: Event) -> None:
        """Makes sure that nobody sets the event any more. Lock held."""
        self._in_want.pop(event, None)
        if event.set in awaited.waiters:
            awaited.waiters.remove(event.set)

    def _check_wanted(self) -> None:
        """Raises an error if the waiting task was cancelled, its worker died or the engine is closed."""
        self._table.check_open()
        task = self._scheduler.current_task()
        if task is not None:
            if task.cancelled:
                raise TaskCancelledError(f"task {task.name} was cancelled")
            if task.worker is not None:
                task.worker.check_alive()


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _fresh(error: BaseException) -> BaseException:
    """Returns a copy of an error: one that many callers raise would collect, and keep alive, all their frames."""
    fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__
    return fresh
