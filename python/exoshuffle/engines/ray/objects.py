"""The objects and actors behind a ``Ref`` on Ray: a few Ray objects.

Guarantee: an object of k slices costs its owner at most ``MAX_PARTS`` Ray objects, and one for the status of its task.
Ray counts references exactly, also in other processes, so nothing is counted here.

A part holds several slices since a Ray object costs its owner 1.3 KB and the cluster 0.8 ms. (It costs 2 KB once it has
been in the object store, for it to be computed again.) A merge gets more parts than a map. A task that takes a slice is
sent the whole part, so parts should be of similar size. And the merge of k blocks has the bytes of k blocks. Where a
task says how to cut its result (``TaskOptions.cuts``), no two nodes want the same part.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import ray

from exoshuffle.errors import ClosedError
from exoshuffle.futures.options import TaskOptions
from exoshuffle.futures.refs import Ref

#: The parts of an object made from no other; each part of a block of 32 MB is then 1 MB.
USUAL_PARTS = 32
#: The most parts of an object, which one made from many others has.
MAX_PARTS = 128
#: A merge has so many parts for each block that it takes whole, since its own slices are taken one by one. The blocks
#: may have fewer: map outputs that only merges take have one part.
MERGED_PARTS = 16

_sessions = itertools.count(1)
_session = 0


class Shape(NamedTuple):
    """The division of an object's slices among parts, in order.

    Attributes:
        num_slices: The number of slices.
        starts: The first slice of each part, from 0 on.
    """

    num_slices: int
    starts: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, options: TaskOptions, parts_of_arguments: int) -> Shape:
        """Returns the shape of a result: as its task was told, or even.

        Even parts are more if the task takes many parts of sliced objects whole.
        """
        num_slices = options.num_slices
        if options.cuts is not None:
            return cls(num_slices, (0, *options.cuts))
        parts = min(MAX_PARTS, max(USUAL_PARTS, parts_of_arguments))
        return cls(num_slices, tuple(range(0, num_slices, -(-num_slices // parts))))

    @property
    def num_parts(self) -> int:
        """The number of Ray objects that hold the slices."""
        return len(self.starts)

    def part_of(self, index: int) -> int:
        """Returns which part has a slice."""
        return bisect.bisect_right(self.starts, index) - 1

    @property
    def parts(self) -> list[range]:
        """The slices of each part."""
        return list(map(range, self.starts, (*self.starts[1:], self.num_slices)))


class Origin(NamedTuple):
    """The origin of an object, for messages.

    Attributes:
        name: The task that makes the object; empty if it was put.
        attempts: How often that task is tried at most.
        before: The tasks that made its arguments, and theirs, and so on: name and attempts of each.
        is_task: Whether Ray can cancel it: it is a task, and not a call of an actor.
    """

    name: str
    attempts: int = 1
    before: frozenset[tuple[str, int]] = frozenset()
    is_task: bool = False

    @property
    def tasks(self) -> frozenset[tuple[str, int]]:
        """The tasks that every dependent of this object depends on."""
        return self.before | {(self.name, self.attempts)} if self.name else self.before


class RayObject:
    """The handle of an object.

    Attributes:
        parts: The Ray objects that hold the slices, each several in a row.
        status: The Ray object that says how the task ended (``values.Status``); None if the object is made already.
        shape: Which part holds which slices.
        origin: Where it comes from.
        cancelled: Whether this process cancelled it.
        session: The connection to Ray that this process had when it got the handle.
    """

    __slots__ = ("cancelled", "num_slices", "origin", "parts", "session", "shape", "status")

    def __init__(
        self,
        parts: tuple[ray.ObjectRef, ...],
        status: ray.ObjectRef | None,
        shape: Shape,
        origin: Origin,
    ) -> None:
        self.parts = parts
        self.status = status
        self.shape = shape
        self.num_slices = shape.num_slices
        self.origin = origin
        self.cancelled = False
        self.session = _session

    def add_handle(self) -> None:
        """Nothing: Ray counts."""

    def drop_handle(self) -> None:
        """Nothing: Ray counts."""

    def __reduce__(self) -> tuple[type[RayObject], tuple[object, ...]]:
        return RayObject, (self.parts, self.status, self.shape, self.origin)

    def __repr__(self) -> str:
        return self.origin.name or "put"


class RayActor:
    """The handle of an actor.

    Attributes:
        handle: Ray's own handle; the actor ends when the last handle is gone.
        name: The name in errors and events.
        kept: The arguments of the constructor, for as long as it may run again.
        session: As in ``RayObject``.
    """

    __slots__ = ("handle", "kept", "name", "num_slices", "session")

    def __init__(
        self, handle: ray.actor.ActorHandle, name: str, kept: tuple[ray.ObjectRef, ...]
    ) -> None:
        self.handle = handle
        self.name = name
        self.num_slices = 1
        self.kept = kept
        self.session = _session

    def add_handle(self) -> None:
        """Nothing: Ray counts."""

    def drop_handle(self) -> None:
        """Nothing: Ray counts."""

    def __reduce__(self) -> tuple[type[RayActor], tuple[object, ...]]:
        return RayActor, (self.handle, self.name, self.kept)

    def __repr__(self) -> str:
        return f"actor {self.name}"


def object_of(ref: Ref) -> RayObject:
    """Returns the object behind a reference.

    Raises:
        ClosedError: The object belongs to a cluster that this process has left.
    """
    found: RayObject = ref._object  # type: ignore[assignment]
    _check_session(found)
    return found


def actor_of(ref: Ref) -> RayActor:
    """Returns the actor behind a reference; see ``object_of``."""
    found: RayActor = ref._object  # type: ignore[assignment]
    _check_session(found)
    return found


def tasks_of(objects: Iterable[RayObject]) -> frozenset[tuple[str, int]]:
    """Returns the tasks that a dependent of all these objects depends on."""
    return frozenset().union(*(found.origin.tasks for found in objects))


def end_session() -> None:
    """Ends the session, since this process leaves the cluster: Ray must not be asked about its objects any more."""
    global _session
    _session = next(_sessions)


def _check_session(found: object) -> None:
    # Objects of engines of other kinds have no session.
    if getattr(found, "session", None) != _session:
        raise ClosedError(f"{found!r} belongs to an engine that was closed; make it again")
