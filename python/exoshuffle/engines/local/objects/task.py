"""What the engine knows of a task: the call, how its attempts went, and what it takes while it runs.

Guarantee: a finished task points to the descriptions of its arguments (``lineage``), and an object to its task, so that
Python's own garbage collection releases lineage. What can never be lost (a value beside the store, which its
description keeps) or never be made again needs none, and ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

from exoshuffle._native import Reservation
from exoshuffle.engines.local.objects.calls import Call
from exoshuffle.engines.local.objects.lineage import describe, revive
from exoshuffle.engines.local.objects.state import ObjectState, Status
from exoshuffle.engines.local.objects.streams import Stream
from exoshuffle.futures.options import TaskOptions
from exoshuffle.observe.activity import Frame


class CalledActor(Protocol):
    """The actor that a task is a call of. Methods are called with the lock held."""

    name: str

    @property
    def sequence(self) -> int:
        """The number of its making."""

    def add(self, task: Task) -> None:
        """A call was made; ``ready`` says when its arguments are there."""

    def ready(self, task: Task) -> None:
        """The arguments of a call are there, for the first time or again."""

    def wake(self) -> None:
        """A call was cancelled or has failed before it ran."""


class Host(Protocol):
    """The worker process that an attempt runs in."""

    @property
    def process_id(self) -> int:
        """Number of the process."""

    def stack(self) -> list[Frame]:
        """The calls that it is in, the innermost first."""

    def check_alive(self) -> None:
        """Raises ``WorkerDiedError`` if the process has ended."""

    def waiting(self) -> AbstractContextManager[None]:
        """Around a blocking call that the engine answers for the worker."""


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
        self.actor: CalledActor | None = None
        #: Of the actor, that is called.
        self.method = ""
        #: Number of the task or the actor that made the call, for the order of an actor's calls.
        self.caller: int | None = None
        #: Stops the running attempt, if it can be stopped.
        self.interrupt: Callable[[], None] | None = None
        #: An actor occupies what its making took until it ends.
        self.keeps_resources = False
        self.reservation: Reservation | None = None
        self.values: Any = None
        #: Where the attempt runs, if in a worker process.
        self.worker: Host | None = None

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
                tuple(describe(arg) for arg in self.args or ()),
                {name: describe(arg) for name, arg in (self.kwargs or {}).items()},
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
            self.args = tuple(revive(arg) for arg in args)
            self.kwargs = {name: revive(arg) for name, arg in kwargs.items()}
        if self.call is not None:
            self.call.restore()


def maker_of(state: ObjectState) -> Task | None:
    """The task that makes an object; None for one that was put."""
    return cast("Task | None", state.task)
