"""The engine's record of a task: the call, how its attempts went, and what it takes while it runs.

Guarantee: a finished task points to the descriptions of its arguments (``lineage``), and an object to its task. So
Python's own garbage collection releases lineage. A value beside the store can never be lost, since its description
keeps it. Such a value, and one that can never be made again, needs no lineage, and ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, cast

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
        """The sequence number of the task that makes the actor."""

    def add(self, task: Task) -> None:
        """Takes a call that was made; ``ready`` says when its arguments are there."""

    def ready(self, task: Task) -> None:
        """Notes that the arguments of a call are there, for the first time or again."""

    def wake(self) -> None:
        """Wakes the actor: a call was cancelled or has failed before it ran."""


class Host(Protocol):
    """The worker process that an attempt runs in."""

    @property
    def process_id(self) -> int:
        """The number of the process."""

    def stack(self) -> list[Frame]:
        """Returns the calls that the process is in, the innermost first."""

    def check_alive(self) -> None:
        """Raises ``WorkerDiedError`` if the process has ended."""

    def waiting(self) -> AbstractContextManager[None]:
        """Returns a context for a blocking call that the engine answers for the worker."""


class Held(Protocol):
    """A thing that a task has until it ends."""

    def release(self) -> None:
        """Gives it back."""


class Task:
    """One call of a remote function, or of a method of an actor, or the making of an actor.

    For a thread, ``args`` and ``kwargs`` are what the caller gave. For a worker process, ``call`` has them pickled, and
    ``args`` are the references among them.
    """

    __slots__ = (
        "actor",
        "args",
        "attempt",
        "began",
        "call",
        "caller",
        "cancelled",
        "deaths",
        "died_at",
        "fn",
        "gpus",
        "hold",
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
        fn: Callable[..., object] | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
        sequence: int,
    ) -> None:
        self.fn = fn
        self.args: tuple[object, ...] | None = args
        self.kwargs: dict[str, object] | None = kwargs
        self.call: Call | None = None
        self.options = options
        self.name = options.name or getattr(fn, "__name__", "task")
        self.sequence = sequence
        self.attempt = 1
        #: Deaths of its workers that do not count as attempts; when the first came, and the signs then (``deaths``).
        self.deaths = 0
        self.died_at = 0.0
        self.signs_before = 0
        #: The longest of the attempts that ended so.
        self.longest_seconds = 0.0
        self.cancelled = False
        self.started = False
        #: The moment when the present attempt began, by the clock of this process that only grows.
        self.began = 0.0
        self.ready = False
        #: Whether it counts among the tasks that have their arguments ahead of the workers.
        self.is_staged = False
        self.missing = 0
        self.lineage: tuple[tuple[object, ...], dict[str, object]] = ((), {})
        self.output: ObjectState | None = None
        self.stream: Stream | None = None
        self.actor: CalledActor | None = None
        #: The method of the actor that is called.
        self.method = ""
        #: Number of the task or the actor that made the call, for the order of an actor's calls.
        self.caller: int | None = None
        #: Stops the running attempt, if it can be stopped.
        self.interrupt: Callable[[], None] | None = None
        #: Set for an actor: until it ends, it occupies the resources that its making took.
        self.keeps_resources = False
        #: The numbers of the GPUs that the attempt occupies.
        self.gpus: tuple[int, ...] = ()
        self.reservation: Reservation | None = None
        #: Keeps the memory of the worker that it needs.
        self.hold: Held | None = None
        #: The arguments as ``Runner.resolve`` returns them; None before that, and once the function has them.
        self.values: object = None
        #: The worker process that the attempt runs in, if it does not run on a thread.
        self.worker: Host | None = None

    def is_over(self) -> bool:
        """Whether the result of the task has come, or never will."""
        return self.cancelled or self.output is None or self.output.status is not Status.PENDING

    @property
    def needs_worker(self) -> bool:
        """Whether it takes a worker process from the pool; calls of an actor have its worker."""
        return self.options.executor == "process" and self.actor is None

    def release_memory(self) -> None:
        """Gives working memory, that of its worker and the values of arguments back; may be called again."""
        held: list[Held | None] = [self.reservation, self.hold]
        self.reservation = self.hold = self.values = None
        for each in held:
            if each is not None:
                each.release()

    def release_arguments(self) -> None:
        """Lets go of the arguments' handles and keeps their descriptions, which are the lineage from now on."""
        if self.args or self.kwargs:
            self.lineage = (
                tuple(describe(arg) for arg in self.args or ()),
                {name: describe(arg) for name, arg in (self.kwargs or {}).items()},
            )
        if self.call is not None:
            self.call.release()
        self.args = self.kwargs = self.values = None

    def can_run_again(self) -> bool:
        """Whether a lost result is made again; an item of a generator is, the first time that it is lost."""
        most = self.options.max_retries + (0 if self.stream is None else self.stream.num_lost)
        return self.actor is None and self.attempt - self.deaths <= most

    def drop_lineage(self) -> None:
        """Lets go of the descriptions of the arguments, too: the task does not run again."""
        self.lineage = ((), {})

    def forget(self) -> None:
        """Lets go, after the end, of the function and the results, so that the object goes with its last handle."""
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
    """Returns the task that makes an object; None for an object that was put."""
    return cast("Task | None", state.task)
