"""The engine's record of an object: its status, its value or its error, and who waits for it.

Guarantee: the bytes that an object has in the store are freed when its last handle goes. Its description stays exactly
as long as a later object may need it to be computed again (``task`` says how).

Why handle counts travel through a queue: ``Ref.__del__`` may run at any moment in any thread, also while that thread
holds the engine's lock. So it must neither lock nor block.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from typing import Protocol

from exoshuffle.engines.local.objects import identity
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.futures.refs import Ref


class ValueGoneError(Exception):
    """A value was lost or freed since its object was seen done; it may come back. The error never leaves the engine."""


class Status(enum.Enum):
    """The states of an object."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    #: The bytes are gone (freed or lost); the lineage may bring them back.
    GONE = "gone"


class Awaited(Protocol):
    """Something that threads and tasks wait for."""

    #: Called once each, and forgotten, when the awaited comes; the argument says whether it failed.
    waiters: list[Callable[[bool], None]]


class HandleCounter(Protocol):
    """Counts the handles of objects."""

    #: Objects and +1 or -1: a ``Ref`` came or went.
    handle_changes: collections.deque[tuple[ObjectState, int]]

    def settle(self) -> None:
        """Applies the changes, now or soon; must not block."""


class Maker(Protocol):
    """The task that makes an object, as far as the object knows it; ``task.maker_of`` gives the task itself."""

    name: str
    cancelled: bool
    output: ObjectState | None


class LivingActor(Protocol):
    """The actor that an object stands for."""

    def begin(self) -> StoredValue:
        """Runs the constructor; the actor then serves calls."""

    def released(self) -> None:
        """Called when no handle is left. Lock held."""

    def end(self, error: BaseException) -> None:
        """Fails calls that have not begun, and later ones, with ``error``. Lock held."""


class ObjectState:
    """One object: its status, its value or error, and how to make it again.

    ``actor`` is set for the object that stands for an actor, ``number`` once the object is known to other processes.
    """

    __slots__ = (
        "__weakref__",
        "actor",
        "counter",
        "error",
        "handles",
        "num_slices",
        "number",
        "status",
        "stored",
        "task",
        "waiters",
    )

    def __init__(self, counter: HandleCounter, num_slices: int, task: Maker | None) -> None:
        self.counter = counter
        self.num_slices = num_slices
        self.task = task
        self.number = -1
        self.handles = 0
        self.status = Status.PENDING
        self.stored: StoredValue | None = None
        self.error: BaseException | None = None
        self.waiters: list[Callable[[bool], None]] = []
        self.actor: LivingActor | None = None

    def add_handle(self) -> None:
        """See ``ObjectHandle``."""
        self.counter.handle_changes.append((self, +1))

    def drop_handle(self) -> None:
        """See ``ObjectHandle``."""
        self.counter.handle_changes.append((self, -1))
        self.counter.settle()

    def source(self) -> ObjectState:
        """Returns the object that has the value: this one, or the one that it is the same as."""
        state = self
        while (stored := state.stored) is not None and stored.same_as is not None:
            state = stored.contained[0]._object  # type: ignore[assignment]
        return state

    def __reduce__(self) -> tuple[Callable[[int], identity.Handle], tuple[int]]:
        return identity.reduce(self)

    def __repr__(self) -> str:
        name = self.task.name if self.task else "put"
        return f"{name}: {self.status.value}"


class Bundle:
    """The engine's state of a ``Refs``: its objects, and how many of them are still to come."""

    __slots__ = (
        "complete_at",
        "counter",
        "error",
        "firsts",
        "missing",
        "objects",
        "slice_bytes",
        "waiters",
    )

    def __init__(self, objects: tuple[ObjectState, ...], firsts: tuple[int, ...]) -> None:
        self.objects = objects
        #: See ``Refs``.
        self.firsts = firsts
        counters = {id(state.counter): state.counter for state in objects}
        #: The counter of all objects; None if they are of different engines.
        self.counter = next(iter(counters.values())) if len(counters) == 1 else None
        self.missing = 0
        #: The engine's count of lost objects when all of these were last seen done; -1: never.
        self.complete_at = -1
        #: Error of the first object that failed.
        self.error: BaseException | None = None
        #: Sums over the objects, by column, of the bytes in the store when somebody first asked.
        self.slice_bytes: list[int] | None = None
        self.waiters: list[Callable[[bool], None]] = []

    def settle(self, num_lost: int) -> None:
        """Wakes all who wait for the sequence, since all objects are done or one has failed."""
        self.complete_at = num_lost
        errors = (state.source().error for state in self.objects)
        self.error = next((error for error in errors if error is not None), None)
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter(self.error is not None)


def is_over(ref: Ref) -> bool:
    """Whether the object is made, or has failed."""
    return ref._object.status is not Status.PENDING  # type: ignore[attr-defined]
