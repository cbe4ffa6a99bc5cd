"""An event: one thread waits for it, another sets it.

Guarantee: a thread that a signal interrupts while it waits (Ctrl-C, in the program's main thread) leaves every lock as
it found it. Why not ``threading.Condition``, or ``threading.Event``, which has one? The condition's ``wait`` releases
the caller's lock and takes it again, in Python code that a signal may end halfway. Its caller then releases a lock that
it does not hold, and that another thread may hold. Entering ``with condition:`` runs such code too; entering
``with lock:`` does not. So main threads wait for events, without any lock. Conditions are for threads of the engine,
which signals do not interrupt.
"""

from __future__ import annotations

import threading


class Event:
    """Wakes one thread; may be used again. Setting it while nobody waits wakes the next one to wait, once."""

    __slots__ = ("_unset",)

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self, _failed: bool = False) -> None:
        """Wakes the thread that waits, or the next one to wait. One thread may set it at a time.

        The argument is the one that ``waiters`` are called with.
        """
        if self._unset.locked():
            self._unset.release()

    def wait(self, seconds: float) -> None:
        """Waits until it is set, at most so long. The caller may hold no lock that the thread which sets it needs."""
        self._unset.acquire(timeout=seconds)
