"""A bell: one thread waits for it, another rings it.

Guarantee: a thread that a signal interrupts while it waits (Ctrl-C, in the program's main thread) leaves every lock as
it found it. Why not ``threading.Condition``: its ``wait`` releases the lock of its caller and takes it again, in Python
code that a signal may end halfway; its caller then releases a lock that it does not hold, which may be somebody else's.
To enter ``with condition:`` is such code too, ``with lock:`` is not. So main threads wait at bells, without any lock;
conditions are for threads of the engine, which signals do not interrupt.
"""

from __future__ import annotations

import threading


class Bell:
    """Wakes one thread; may be used again. A ring that nobody waits for is kept, a second one is not."""

    __slots__ = ("_silence",)

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self, _failed: bool = False) -> None:
        """Wakes who waits, or the next who does. One thread at a time. The argument is that of ``waiters``."""
        if self._silence.locked():
            self._silence.release()

    def wait(self, seconds: float) -> None:
        """Until it rings, at most so long. No lock may be held that the ringer needs."""
        self._silence.acquire(timeout=seconds)
