"""Tells observers of the tasks that have finished.

Ray does not say when a task ends. So a thread waits for the statuses of tasks that were submitted while somebody
observes.
"""

from __future__ import annotations

import threading

import ray

from exoshuffle.engines.ray.values import Status
from exoshuffle.futures.events import Observer, TaskFinished

#: The longest delay of an event.
_LOOK_AGAIN_SECONDS = 0.1


class Watcher:
    """The observers of an engine, and the thread that tells them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Held while a thread looks: the next thread can look once all that was found before has been told.
        self._looking = threading.Lock()
        self._observers: list[Observer] = []
        self._names: dict[ray.ObjectRef, str] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add_observer(self, observer: Observer) -> None:
        """See ``Engine``."""
        with self._lock:
            self._observers.append(observer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="exoshuffle-watcher")
                self._thread.start()

    def remove_observer(self, observer: Observer) -> None:
        """See ``Engine``; first tells the events that have happened."""
        self._look(0)
        with self._lock:
            self._observers.remove(observer)

    def watch(self, name: str, status: ray.ObjectRef) -> None:
        """Watches a task that was submitted."""
        if self._observers:
            with self._lock:
                self._names[status] = name

    def pending(self) -> list[str]:
        """Returns the names of the tasks that are watched and not done."""
        with self._lock:
            return list(self._names.values())

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            if not self._look(_LOOK_AGAIN_SECONDS):
                self._closed.wait(_LOOK_AGAIN_SECONDS)

    def _look(self, timeout: float) -> bool:
        """Tells of tasks that are done, and returns whether there was any task to wait for."""
        with self._looking:
            with self._lock:
                pending = list(self._names)
            if not pending:
                return False
            done, _ = ray.wait(
                pending, num_returns=len(pending), timeout=timeout, fetch_local=False
            )
            for status in done:
                self._tell(status)
            return True

    def _tell(self, status: ray.ObjectRef) -> None:
        with self._lock:
            name = self._names.pop(status)
            observers = list(self._observers)
        try:
            found: Status = ray.get(status)
        except ray.exceptions.RayError:
            return  # failed, not finished
        for observer in observers:
            observer(TaskFinished(name, found.attempt, found.seconds))
