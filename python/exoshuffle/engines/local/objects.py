"""What the local engine knows of an object and of the task that makes it.

Guarantee: the bytes of an object are freed when its last handle goes; its description stays exactly as long as some
later object may need it to be computed again, because a finished task points to the descriptions of its arguments
(``lineage``) and an object to its task: Python's own garbage collection releases lineage.

Why handle counts travel through a queue: ``Ref.__del__`` may run at any moment in any thread, also while that thread
holds the engine's lock, so it must neither lock nor block.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from exoshuffle.futures.engine import TaskOptions
from exoshuffle.futures.refs import Column, Ref, Refs, SliceRef

if TYPE_CHECKING:
    from exoshuffle.engines.local.engine import LocalEngine
    from exoshuffle.engines.local.values import StoredValue


class ValueGoneError(Exception):
    """A value was lost or freed since its object was seen done; it may come back. Never leaves the engine."""


class Status(enum.Enum):
    """Where an object stands."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    #: The bytes are gone (freed or lost); the lineage may bring them back.
    GONE = "gone"


class ObjectState:
    """One object: its status, its value or error, and how to make it again."""

    __slots__ = ("engine", "error", "handles", "num_slices", "status", "stored", "task", "waiters")

    def __init__(self, engine: LocalEngine, num_slices: int, task: Task | None) -> None:
        self.engine = engine
        self.num_slices = num_slices
        self.task = task
        self.handles = 0
        self.status = Status.PENDING
        self.stored: StoredValue | None = None
        self.error: BaseException | None = None
        self.waiters: list[Callable[[bool], None]] = []

    def add_handle(self) -> None:
        """See ``ObjectHandle``."""
        self.engine.count_handle(self, +1)

    def drop_handle(self) -> None:
        """See ``ObjectHandle``."""
        self.engine.count_handle(self, -1)

    def __repr__(self) -> str:
        name = self.task.name if self.task else "put"
        return f"{name}: {self.status.value}"


class Bundle:
    """What the engine keeps for a ``Refs``: its objects, and how many of them are still to come."""

    __slots__ = ("complete_at", "error", "missing", "objects", "waiters")

    def __init__(self, objects: tuple[ObjectState, ...]) -> None:
        self.objects = objects
        self.missing = 0
        #: The engine's count of lost objects when all of these were last seen done; -1: never.
        self.complete_at = -1
        #: Error of the first object that failed.
        self.error: BaseException | None = None
        self.waiters: list[Callable[[bool], None]] = []

    def settle(self, num_lost: int) -> None:
        """All objects are done, or one has failed: wakes who waits for the sequence."""
        self.complete_at = num_lost
        self.error = next((state.error for state in self.objects if state.error is not None), None)
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter(self.error is not None)


class Task:
    """One call of a remote function."""

    __slots__ = (
        "args",
        "attempt",
        "cancelled",
        "fn",
        "kwargs",
        "lineage",
        "missing",
        "name",
        "options",
        "output",
        "reservation",
        "sequence",
        "started",
        "values",
    )

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
        sequence: int,
    ) -> None:
        self.fn = fn
        self.args: tuple[Any, ...] | None = args
        self.kwargs: dict[str, Any] | None = kwargs
        self.options = options
        self.name = options.name or getattr(fn, "__name__", "task")
        self.sequence = sequence
        self.attempt = 1
        self.cancelled = False
        self.started = False
        self.missing = 0
        self.lineage: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self.output: ObjectState | None = None
        self.reservation: Any = None
        self.values: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def __lt__(self, other: Task) -> bool:
        return self.sequence < other.sequence

    def is_over(self) -> bool:
        """Whether its result has come, or never will."""
        return self.cancelled or self.output is None or self.output.status is not Status.PENDING

    def release_arguments(self) -> None:
        """Lets go of the arguments' handles and keeps their descriptions (with the first call, the lineage)."""
        if self.args is not None and self.kwargs is not None:
            self.lineage = (
                tuple(_describe(arg) for arg in self.args),
                {name: _describe(arg) for name, arg in self.kwargs.items()},
            )
        self.args = self.kwargs = self.values = None

    def restore_arguments(self) -> None:
        """Takes handles of the arguments again, to run once more."""
        if self.args is None and self.lineage is not None:
            args, kwargs = self.lineage
            self.args = tuple(_revive(arg) for arg in args)
            self.kwargs = {name: _revive(arg) for name, arg in kwargs.items()}


class _Described:
    """A reference among the arguments of a finished task: names objects without keeping their bytes."""

    __slots__ = ("index", "kind", "target")

    def __init__(self, kind: type, target: ObjectState | Bundle, index: int = -1) -> None:
        self.kind = kind
        self.target = target
        self.index = index


def _describe(arg: Any) -> Any:
    if isinstance(arg, Ref):
        return _Described(Ref, arg._object)  # type: ignore[arg-type]
    if isinstance(arg, SliceRef):
        return _Described(SliceRef, arg.ref._object, arg.index)  # type: ignore[arg-type]
    if isinstance(arg, Refs):
        return _Described(Refs, arg.engine_state)
    if isinstance(arg, Column):
        return _Described(Column, arg.refs.engine_state, arg.index)
    return arg


def _revive(arg: Any) -> Any:
    if not isinstance(arg, _Described):
        return arg
    if isinstance(arg.target, ObjectState):
        ref = Ref(arg.target)
        return ref if arg.kind is Ref else SliceRef(ref, arg.index)
    refs = Refs(Ref(state) for state in arg.target.objects)
    refs.engine_state = arg.target
    return refs if arg.kind is Refs else Column(refs, arg.index)
