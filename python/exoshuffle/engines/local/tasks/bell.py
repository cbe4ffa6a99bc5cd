"""A bell: one thread waits for it, another rings it.

Guarantee: a thread that a signal interrupts while it waits (Ctrl-C, in the program's main thread) leaves every lock as
it found it. Why not ``threading.Condition``: its ``wait`` releases the caller's lock and takes it again, in Python code
that a signal may end halfway. Its caller then releases a lock that it does not hold, and that another thread may hold.
Entering ``with condition:`` runs such code too; entering ``with lock:`` does not. So main threads wait at bells,
without any lock. Conditions are for threads of the engine, which signals do not interrupt.
"""

from __future__ import annotations

import threading


class Bell:
    """Wakes one thread; may be used again. A ring that nobody waits for is kept for later; a second one is not."""

    __slots__ = ("_silence",)

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self, _failed: bool = False) -> None:
        """Wakes the thread that waits, or the next one to wait. One thread may ring at a time.

        The argument is the one that ``waiters`` are called with.
        """
        if self._silence.locked():
            self._silence.release()

    def wait(self, seconds: float) -> None:
        """Waits until the bell rings, at most so long. The caller may hold no lock that the ringer needs."""
        self._silence.acquire(timeout=seconds)
