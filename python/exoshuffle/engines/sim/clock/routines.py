"""Runs functions between events, one at a time, so that a function can wait in the middle for what happens later.

A function that calls ``get`` has to stop until virtual time has gone on. Python can stop a function in the middle only
on a thread of its own. (A package for coroutines of C could do it, too, which this is not worth.) So each running
function has a thread, and exactly one thread runs at any moment. The loop lets a function run, and waits until it
pauses or ends. So nothing depends on the system's scheduler, and nothing needs a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stopped(BaseException):
    """Ends a function that has paused: its task was cancelled, its node died, or the engine is closed."""


class Routine:
    """A function that runs, on a thread of its own, whenever the loop lets it.

    Args:
        body: Must not raise.
        threads: Gives the thread.
    """

    def __init__(self, body: Callable[[], None], threads: Threads) -> None:
        self._threads = threads
        self._body: Callable[[], None] | None = body
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._error: BaseException | None = None
        #: The event or time that it waits for; None while it runs.
        self.waits_for: object | None = None
        #: The object that the function belongs to.
        self.owner: object | None = None
        self.is_over = False

    def resume(self, error: BaseException | None = None) -> None:
        """Lets it run until it pauses or ends; ``error`` is raised where it has paused."""
        self._error = error
        self.waits_for = None
        if self._body is not None:
            body, self._body = self._body, None
            if error is not None:
                self.is_over = True
                return
            self._threads.run(self, body)
        else:
            self._go.release()
        try:
            self._back.acquire()
        except KeyboardInterrupt:
            # The function goes on until it pauses: two threads at once would break all that relies on one.
            self._back.acquire()
            raise

    def pause(self, waits_for: object) -> None:
        """Called by the function: waits until ``resume``."""
        self.waits_for = waits_for
        self._back.release()
        self._go.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def end(self) -> None:
        """Called on its thread when the function has ended: lets the loop go on."""
        self.is_over = True
        self._back.release()


class _Current(threading.local):
    routine: Routine | None = None


_current = _Current()


def current_routine() -> Routine | None:
    """Returns the routine on whose thread this runs."""
    return _current.routine


class Threads:
    """Threads for routines, which are used again: starting one takes as long as running several small functions."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._all: list[_Thread] = []

    def run(self, routine: Routine, body: Callable[[], None]) -> None:
        """Runs the body of a routine on a thread that is idle."""
        if not self._idle:
            self._all.append(_Thread(self._idle))
            self._idle.append(self._all[-1])
        self._idle.pop().begin(routine, body)

    def close(self) -> None:
        """Ends the threads, all of which are idle."""
        for thread in self._all:
            thread.end()
        self._all.clear()
        self._idle.clear()


class _Thread:
    def __init__(self, idle: list[_Thread]) -> None:
        self._idle = idle
        self._work: tuple[Routine, Callable[[], None]] | None = None
        self._wake = threading.Lock()
        self._wake.acquire()
        self._thread = threading.Thread(target=self._loop, name="exoshuffle-simulated", daemon=True)
        self._thread.start()

    def begin(self, routine: Routine, body: Callable[[], None]) -> None:
        self._work = routine, body
        self._wake.release()

    def end(self) -> None:
        self._wake.release()
        self._thread.join()

    def _loop(self) -> None:
        while True:
            self._wake.acquire()
            if self._work is None:
                return
            (routine, body), self._work = self._work, None
            _current.routine = routine
            body()
            _current.routine = None
            self._idle.append(self)
            routine.end()
            del routine, body
