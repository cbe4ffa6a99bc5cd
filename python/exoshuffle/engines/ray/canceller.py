"""Cancels tasks and calls of Ray without ending the program.

Ray hands a task over to a thread of its own to submit it. If it is cancelled before that thread has come to it, Ray
counts the references of its arguments down twice, and ends the program (Ray 2.60, ``submitted_task_ref_count > 0``): a
program that did so 40 times, each time just after a hundred other tasks, did not live to its end. So whoever cancels
first waits until that thread has done what it was given.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import NamedTuple

import ray


class Target(NamedTuple):
    """What to cancel.

    Attributes:
        handle: A result of it, or its stream.
        is_task: Whether it is a task, and not a call of an actor.
    """

    handle: ray.ObjectRef | ray.ObjectRefGenerator
    is_task: bool


class Canceller:
    """Cancels at once, or later for those who must not wait."""

    def __init__(self) -> None:
        self._later: queue.SimpleQueue[Target | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def cancel(self, target: Target) -> None:
        """Stops a task, also while it runs native code (hence the force); a call only if it has not begun.

        One that has begun is told: ``is_canceled`` in Ray's context.
        """
        # The thread takes what it is given in order; the callback of the future is given to it now.
        ray.put(None).future().result()
        ray.cancel(target.handle, force=target.is_task)

    def prepare(self) -> None:
        """Must have been called before ``cancel_later``: there, a thread cannot be started."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="exoshuffle-canceller", daemon=True
                )
                self._thread.start()

    def cancel_later(self, target: Target) -> None:
        """As ``cancel``, without waiting: finalizers call this, and may run on any thread, Ray's own included."""
        self._later.put(target)

    def close(self) -> None:
        """Ends the thread, after what it was told."""
        with self._lock:
            if self._thread is not None:
                self._later.put(None)
                self._thread.join()
                self._thread = None

    def _run(self) -> None:
        while (target := self._later.get()) is not None:
            with contextlib.suppress(Exception):
                self.cancel(target)
