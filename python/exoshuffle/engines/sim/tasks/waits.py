"""Waiting in virtual time: whoever waits outside of tasks lets time pass; a task that waits pauses.

Guarantee: a wait that cannot end is an error at once. When nothing is left to happen while somebody waits, nothing ever
will: that is a proof, and needs no patience. The error names who waits for what.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from exoshuffle.engines.sim.clock.routines import Routine, Stopped, current_routine
from exoshuffle.engines.sim.tasks.task import Attempt
from exoshuffle.engines.sim.tasks.world import World
from exoshuffle.errors import ClosedError, DeadlockError
from exoshuffle.futures.options import CPU

_CLOSED = "the engine is closed; call exoshuffle.init() to start another"


class Wait:
    """Counts what is waited for.

    Args:
        clock: Resumes the routine that waits.
        num_left: So many things have to happen.
    """

    def __init__(self, world: World, num_left: int) -> None:
        self._world = world
        self.num_left = num_left
        self.is_late = False
        self.routine: Routine | None = None

    @property
    def is_over(self) -> bool:
        """Whether the wait has ended, or has taken too long."""
        return self.num_left <= 0 or self.is_late

    def one_more(self) -> None:
        """Notes that one of these things has happened."""
        self.num_left -= 1
        self._wake()

    def give_up(self) -> None:
        """Notes that it has taken too long."""
        self.is_late = True
        self._wake()

    def _wake(self) -> None:
        if self.is_over and self.routine is not None:
            self._world.clock.soon(self._resume)

    def _resume(self) -> None:
        if self.routine is not None and self.routine.waits_for is self:
            self.routine.resume()


class Turn(AbstractContextManager[None]):
    """Lets one thread of the program at a time use the engine; tasks belong to the thread that lets time pass.

    Turns are handed over in the order in which threads came. A lock is not fair. On a busy machine a thread that let it
    go and took it again 10,000 times kept another one from it for 30 s.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._owner: int | None = None
        self._depth = 0
        self._queue: collections.deque[tuple[int, threading.Lock]] = collections.deque()

    def __enter__(self) -> None:
        if current_routine() is None:
            self._take()

    def __exit__(self, *_: object) -> None:
        if current_routine() is None:
            self._depth -= 1
            if self._depth == 0:
                self._hand_over()

    def share(self) -> None:
        """Lets the threads that wait have their turns first."""
        if self._queue:
            depth = self._depth
            self._hand_over()
            self._take()
            self._depth = depth

    def _take(self) -> None:
        thread = threading.get_ident()
        with self._guard:
            if self._owner in {None, thread}:
                self._owner = thread
                self._depth += 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._queue.append((thread, mine))
        try:
            mine.acquire()
        except BaseException:
            with self._guard:
                is_waiting = (thread, mine) in self._queue
                if is_waiting:
                    self._queue.remove((thread, mine))
            if not is_waiting:
                self._hand_over()
            raise
        self._depth = 1

    def _hand_over(self) -> None:
        with self._guard:
            self._owner = None
            if self._queue:
                self._owner, theirs = self._queue.popleft()
                theirs.release()


class Waits:
    """All waiting.

    Args:
        world: Has the time.
        between: Called between events.
        pending: Describes the tasks that have not ended, for the error.
        look: Called when CPUs were given back.
    """

    def __init__(
        self,
        world: World,
        between: Callable[[], None],
        pending: Callable[[], Sequence[str]],
        look: Callable[[], None],
    ) -> None:
        self._world = world
        self._between = between
        self._pending = pending
        self._look = look
        self.turn = Turn()
        self.is_closed = False

    def check_open(self) -> None:
        """Raises ``ClosedError`` after ``close``."""
        if self.is_closed:
            raise ClosedError(_CLOSED)

    def charge(self) -> None:
        """Lets the time of a call of the program pass; calls of tasks are part of their time."""
        if current_routine() is None:
            end = self._world.clock.now + self._world.cluster.call_seconds
            self._run_until(lambda: False, end)

    def block(self, wait: Wait, timeout: float | None = None) -> bool:
        """Waits; returns False if it has taken too long.

        Raises:
            DeadlockError: Nothing is left to happen.
        """
        routine = current_routine()
        if routine is None:
            end = None if timeout is None else self._world.clock.now + max(0.0, timeout)
            self._run_until(lambda: wait.is_over, end)
        elif not wait.is_over:
            self._pause(routine, wait, timeout)
        self.check_open()
        return wait.num_left <= 0

    def _pause(self, routine: Routine, wait: Wait, timeout: float | None) -> None:
        attempt = routine.owner
        assert isinstance(attempt, Attempt)
        if attempt.is_over:
            raise Stopped
        wait.routine = routine
        if timeout is not None:
            # A wait of no time at all takes the time of a call: who asks again and again must not stop time.
            least = self._world.cluster.call_seconds
            self._world.clock.after(max(timeout, least), wait.give_up)
        cpus = {CPU: attempt.held[CPU]} if CPU in attempt.held else {}
        attempt.give_back(cpus)
        self._look()
        try:
            routine.pause(wait)
        finally:
            wait.routine = None
            if not attempt.is_over:
                attempt.take(cpus)

    def _run_until(self, is_over: Callable[[], bool], end: float | None) -> None:
        clock = self._world.clock
        while not is_over():
            self.turn.share()
            self.check_open()
            self._between()
            following = clock.next_time()
            if end is not None and (following is None or following > end):
                clock.advance(end)
                return
            if not clock.step():
                raise DeadlockError(self._said())

    def _said(self) -> str:
        pending = list(self._pending())
        more = f", and {len(pending) - 4} more" if len(pending) > 4 else ""
        tasks = (
            "; ".join(pending[:4])
            if pending
            else "no task is left that could make what is waited for"
        )
        return (
            f"nothing can happen any more after {self._world.clock.now:.3f} s of virtual time, and the program waits: "
            f"{tasks}{more}; give the nodes more of what these lack"
        )
