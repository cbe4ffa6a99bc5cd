"""The clock: a heap of events, and the hash of all that has happened.

Guarantee: with the same seed and the same calls, the same events happen in the same order, and the trace has the same
hash. Events of one moment happen in an order that the seed decides, so that seeds try different orders.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable

Action = Callable[[], None]


class Timer:
    """An event that has not happened; ``cancel`` keeps it from happening."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        """Forgets the event."""
        self.action = None


class Clock:
    """Virtual time, in seconds from 0 on.

    Args:
        seed: Decides the order of events of one moment.
    """

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.num_events = 0
        self._heap: list[tuple[float, float, int, Timer]] = []
        self._order = random.Random(f"{seed} order of events")
        self._numbers = itertools.count()
        self._trace = hashlib.blake2b(digest_size=16)

    def at(self, seconds: float, action: Action) -> Timer:
        """Lets something happen at a time, which is now or later."""
        timer = Timer(action)
        entry = (max(seconds, self.now), self._order.random(), next(self._numbers), timer)
        heapq.heappush(self._heap, entry)
        return timer

    def after(self, seconds: float, action: Action) -> Timer:
        """Lets something happen in so many seconds."""
        return self.at(self.now + seconds, action)

    def soon(self, action: Action) -> Timer:
        """Lets something happen now, behind what happens at present."""
        return self.at(self.now, action)

    def next_time(self) -> float | None:
        """Returns when the next event happens; None if nothing is left to happen."""
        while self._heap and self._heap[0][3].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Lets the next event happen; returns False if there is none."""
        if self.next_time() is None:
            return False
        self.now, _, _, timer = heapq.heappop(self._heap)
        action, timer.action = timer.action, None
        assert action is not None
        self.num_events += 1
        action()
        return True

    def advance(self, seconds: float) -> None:
        """Sets the clock forward to a time before which nothing happens."""
        self.now = max(self.now, seconds)

    def note(self, *what: object) -> None:
        """Adds to the trace; what is said must not differ between runs, as addresses do."""
        self._trace.update(f"{self.now:.9f} {what}\n".encode())

    @property
    def trace_hash(self) -> str:
        """The hash of the trace so far."""
        return self._trace.hexdigest()
