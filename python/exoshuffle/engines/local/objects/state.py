"""What the local engine knows of an object and of the task that makes it.

Guarantee: the bytes that an object has in the store are freed when its last handle goes; its description stays exactly
as long as some later object may need it to be computed again, because a finished task points to the descriptions of its
arguments (``lineage``) and an object to its task: Python's own garbage collection releases lineage. What can never be
lost (a value beside the store, which its description keeps) or never be made again needs none, and ends it.

Why handle counts travel through a queue: ``Ref.__del__`` may run at any moment in any thread, also while that thread
holds the engine's lock, so it must neither lock nor block.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from exoshuffle.engines.local.objects import identity
from exoshuffle.engines.local.objects.calls import Call, StoredArgument
from exoshuffle.futures.options import TaskOptions
from exoshuffle.futures.refs import Column, Ref, Refs, SliceRef

if TYPE_CHECKING:
    from exoshuffle.engines.local.objects.streams import Stream
    from exoshuffle.engines.local.objects.values import StoredValue
    from exoshuffle.engines.local.tasks.actors import LocalActor
    from exoshuffle.engines.local.workers.processes import WorkerProcess


class ValueGoneError(Exception):
    """A value was lost or freed since its object was seen done; it may come back. Never leaves the engine."""


class Status(enum.Enum):
    """Where an object stands."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    #: The bytes are gone (freed or lost); the lineage may bring them back.
    GONE = "gone"


class Awaited(Protocol):
    """What threads and tasks wait for."""

    #: Called once each, and forgotten, when it comes; with whether it failed.
    waiters: list[Callable[[bool], None]]


class HandleCounter(Protocol):
    """Who counts the handles of objects."""

    #: Objects and +1 or -1: a ``Ref`` came or went.
    handle_changes: collections.deque[tuple[ObjectState, int]]

    def settle(self) -> None:
        """Looks at the changes, now or soon; must not block."""


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

    def __init__(self, counter: HandleCounter, num_slices: int, task: Task | None) -> None:
        self.counter = counter
        self.num_slices = num_slices
        self.task = task
        self.number = -1
        self.handles = 0
        self.status = Status.PENDING
        self.stored: StoredValue | None = None
        self.error: BaseException | None = None
        self.waiters: list[Callable[[bool], None]] = []
        self.actor: LocalActor | None = None

    def add_handle(self) -> None:
        """See ``ObjectHandle``."""
        self.counter.handle_changes.append((self, +1))

    def drop_handle(self) -> None:
        """See ``ObjectHandle``."""
        self.counter.handle_changes.append((self, -1))
        self.counter.settle()

    def source(self) -> ObjectState:
        """The object that has the value: this one, or one that it is the same as."""
        state = self
        while (stored := state.stored) is not None and stored.same_as is not None:
            state = stored.contained[0]._object  # type: ignore[assignment]
        return state

    def __reduce__(self) -> Any:
        return identity.reduce(self)

    def __repr__(self) -> str:
        name = self.task.name if self.task else "put"
        return f"{name}: {self.status.value}"


class Bundle:
    """What the engine keeps for a ``Refs``: its objects, and how many of them are still to come."""

    __slots__ = ("complete_at", "counter", "error", "missing", "objects", "slice_bytes", "waiters")

    def __init__(self, objects: tuple[ObjectState, ...]) -> None:
        self.objects = objects
        counters = {id(state.counter): state.counter for state in objects}
        #: Of all objects; None if they are of different engines.
        self.counter = next(iter(counters.values())) if len(counters) == 1 else None
        self.missing = 0
        #: The engine's count of lost objects when all of these were last seen done; -1: never.
        self.complete_at = -1
        #: Error of the first object that failed.
        self.error: BaseException | None = None
        #: Sums over the objects, by slice, of what lay in the store when somebody first asked.
        self.slice_bytes: list[int] | None = None
        self.waiters: list[Callable[[bool], None]] = []

    def settle(self, num_lost: int) -> None:
        """All objects are done, or one has failed: wakes who waits for the sequence."""
        self.complete_at = num_lost
        errors = (state.source().error for state in self.objects)
        self.error = next((error for error in errors if error is not None), None)
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter(self.error is not None)


class Task:
    """One call of a remote function, or of a method of an actor, or the making of an actor.

    ``args`` and ``kwargs`` are what the caller gave, for a thread; for a worker process they are pickled in ``call``,
    and ``args`` are the references among them.
    """

    __slots__ = (
        "actor",
        "args",
        "attempt",
        "call",
        "caller",
        "cancelled",
        "deaths",
        "died_at",
        "fn",
        "interrupt",
        "is_staged",
        "keeps_resources",
        "kwargs",
        "lineage",
        "longest_seconds",
        "method",
        "missing",
        "name",
        "options",
        "output",
        "ready",
        "reservation",
        "sequence",
        "signs_before",
        "started",
        "stream",
        "values",
        "worker",
    )

    def __init__(
        self,
        fn: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
        sequence: int,
    ) -> None:
        self.fn = fn
        self.args: tuple[Any, ...] | None = args
        self.kwargs: dict[str, Any] | None = kwargs
        self.call: Call | None = None
        self.options = options
        self.name = options.name or getattr(fn, "__name__", "task")
        self.sequence = sequence
        self.attempt = 1
        #: Deaths of its workers that are not counted as attempts; when the first came, and the signs then (``deaths``).
        self.deaths = 0
        self.died_at = 0.0
        self.signs_before = 0
        #: Of the attempts that ended so, the longest.
        self.longest_seconds = 0.0
        self.cancelled = False
        self.started = False
        self.ready = False
        #: Counted among those that have their arguments ahead of the workers.
        self.is_staged = False
        self.missing = 0
        self.lineage: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self.output: ObjectState | None = None
        self.stream: Stream | None = None
        self.actor: LocalActor | None = None
        #: Of the actor, that is called.
        self.method = ""
        #: Number of the task or the actor that made the call, for the order of an actor's calls.
        self.caller: int | None = None
        #: Stops the running attempt, if it can be stopped.
        self.interrupt: Callable[[], None] | None = None
        #: An actor occupies what its making took until it ends.
        self.keeps_resources = False
        self.reservation: Any = None
        self.values: Any = None
        #: Where the attempt runs, if in a worker process.
        self.worker: WorkerProcess | None = None

    def is_over(self) -> bool:
        """Whether its result has come, or never will."""
        return self.cancelled or self.output is None or self.output.status is not Status.PENDING

    def release_memory(self) -> None:
        """Gives working memory and the values of arguments back; harmless when repeated."""
        reservation, self.reservation = self.reservation, None
        self.values = None
        if reservation is not None:
            reservation.release()

    def release_arguments(self) -> None:
        """Lets go of the arguments' handles and keeps their descriptions (with the first call, the lineage)."""
        if self.args or self.kwargs:
            self.lineage = (
                tuple(_describe(arg) for arg in self.args or ()),
                {name: _describe(arg) for name, arg in (self.kwargs or {}).items()},
            )
        if self.call is not None:
            self.call.release()
        self.args = self.kwargs = self.values = None

    def can_run_again(self) -> bool:
        """Whether what it made is made again when it is lost; each item of a generator is, the first time."""
        most = self.options.max_retries + (0 if self.stream is None else self.stream.num_lost)
        return self.actor is None and self.attempt - self.deaths <= most

    def drop_lineage(self) -> None:
        """Lets go of what it was called with, too: it is not run again."""
        self.lineage = ((), {})

    def forget(self) -> None:
        """After its end: keeps nothing of what it ran and made, so that its object goes with the last handle."""
        self.drop_lineage()
        self.fn = self.call = self.output = self.stream = None

    def restore_arguments(self) -> None:
        """Takes handles of the arguments again, to run once more."""
        if self.args is None:
            args, kwargs = self.lineage
            self.args = tuple(_revive(arg) for arg in args)
            self.kwargs = {name: _revive(arg) for name, arg in kwargs.items()}
        if self.call is not None:
            self.call.restore()


class _Described:
    """A reference among the arguments of a finished task: names objects without keeping their bytes."""

    __slots__ = ("index", "kind", "target")

    def __init__(self, kind: type, target: ObjectState | Bundle, index: int | range = -1) -> None:
        self.kind = kind
        self.target = target
        self.index = index


def _describe(arg: Any) -> Any:
    if isinstance(arg, StoredArgument):
        return arg
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
    return refs if arg.kind is Refs else Column(refs, arg.index)  # type: ignore[arg-type]
