"""Events of an engine and the one way to observe them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TaskFinished:
    """A task finished.

    Attributes:
        name: Name of the task.
        attempt: Number of the attempt that succeeded, from 1.
        seconds: How long that attempt ran.
    """

    name: str
    attempt: int
    seconds: float


#: Called with every event, on the thread where it happens; must be quick and must not raise.
Observer = Callable[[TaskFinished], None]
