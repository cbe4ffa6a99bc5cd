"""Cancels tasks and calls of Ray without ending the program.

Ray submits tasks and receives their results on a thread of its own. To cancel a task on another thread may end the
program without a word, in two ways (Ray 2.60):

- Ray's thread has not submitted the task yet. Then Ray counts the references of its arguments down twice
  (``submitted_task_ref_count > 0``). A program that did so 40 times, each time just after a hundred other tasks, did
  not live to its end.
- Ray's thread has the result, but has not noted it yet. Then Ray fails the task, and cannot note the result
  (``submissible_tasks_``). Programs that made copies of slow maps on three nodes lived for 3 to 35 s, four of four.

So tasks are cancelled on Ray's thread, between two of its steps. Such a program then lived for 1,400 s, to its end.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from concurrent.futures import Future
from typing import NamedTuple

import ray


class Target(NamedTuple):
    """A task or call to cancel.

    Attributes:
        handle: A result of the task, or its stream.
        is_task: Whether it is a task, and not a call of an actor.
    """

    handle: ray.ObjectRef | ray.ObjectRefGenerator
    is_task: bool


class Canceller:
    """Cancels at once, or later for callers that must not wait."""

    def __init__(self) -> None:
        self._later: queue.SimpleQueue[Target | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def cancel(self, target: Target) -> None:
        """Stops a task, also while it runs native code (hence the force); a call only if it has not begun.

        Ray tells a call that has begun, by ``is_canceled`` in its context.
        """
        cancelled: Future[None] = Future()

        def cancel_here(_: object) -> None:
            try:
                ray.cancel(target.handle, force=target.is_task)
            except Exception as error:  # noqa: BLE001  the caller gets it
                cancelled.set_exception(error)
            else:
                cancelled.set_result(None)

        # A callback of ``ray.put(None).future()`` would run on this thread if Ray's was faster.
        nothing = ray.put(None)
        nothing._on_completed(cancel_here)
        cancelled.result()

    def prepare(self) -> None:
        """Starts the thread for ``cancel_later``, which cannot start one itself; must be called before it."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="exoshuffle-canceller", daemon=True
                )
                self._thread.start()

    def cancel_later(self, target: Target) -> None:
        """Cancels without waiting. Finalizers call this, and may run on any thread, Ray's own included."""
        self._later.put(target)

    def close(self) -> None:
        """Ends the thread, once it has cancelled all that it was given."""
        with self._lock:
            if self._thread is not None:
                self._later.put(None)
                self._thread.join()
                self._thread = None

    def _run(self) -> None:
        while (target := self._later.get()) is not None:
            with contextlib.suppress(Exception):
                self.cancel(target)
