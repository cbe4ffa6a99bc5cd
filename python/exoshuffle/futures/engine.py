"""The protocol of engines, which strategies are written against.

Guarantee: strategies and task sets use nothing of an engine but this. Why a context variable for the current engine:
``allocate_block`` is called inside tasks, which must not know who runs them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from exoshuffle.errors import EngineError
from exoshuffle.futures.events import Observer
from exoshuffle.futures.options import ActorOptions, Executor, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef, Value

#: Version of this protocol. A program and its workers must have the same.
PROTOCOL = 5

#: The kinds of disk that can be behind ``Engine.spill_dirs``.
DiskKind = Literal["ssd", "rotational", "network"]


class BlockBuffer(Protocol):
    """A writable block (buffer protocol) of several slices; immutable once a task has returned it."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...


@dataclass(frozen=True)
class Node:
    """A place where tasks run.

    Attributes:
        name: Its name in ``TaskOptions.node`` and ``locate``.
        resources: Its amounts in all, by resource: ``CPU``, ``GPU`` and declared ones.
    """

    name: str
    resources: Mapping[str, float]


class Engine(Protocol):
    """Runs tasks and keeps their results. Its ``name`` is the one that ``init`` takes."""

    name: str
    #: Bytes that the whole program may take on a node.
    memory_limit: int
    #: Where blocks go that do not fit; empty if this engine does not manage that.
    spill_dirs: list[str]
    #: How spilled blocks are compressed: ``"lz4"``, ``"zstd"``; None: not at all, or this engine does not manage that.
    spill_codec: str | None
    #: CPU slots of all nodes together.
    num_cpus: int

    @property
    def budget_bytes(self) -> int:
        """The bytes of the memory limit that blocks and the working memory of tasks may now take together."""

    def submit(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """Starts a task when its arguments are ready; returns at once: a ``RefStream`` for a generator task."""

    def create_actor(
        self,
        cls: type,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: ActorOptions,
    ) -> Ref:
        """Makes an actor when its arguments are ready; returns at once.

        The reference stands for the actor. The actor ends when the last reference is gone and the calls made are done.
        """

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """Calls a method; calls of one caller run in the order in which they were made."""

    def kill_actor(self, actor: Ref) -> None:
        """Ends an actor now, without restart; calls that are not done fail with ``ActorDiedError``."""

    def put(self, value: object) -> Ref:
        """Stores a value."""

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Value:
        """Waits for an object and returns its value; raises the task's error."""

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """Waits until ``num_ready`` of the objects are done; moves no data."""

    def error(self, ref: Ref) -> BaseException | None:
        """Returns the error of an object that has failed; None if it has not, or not yet."""

    def cancel(self, ref: Ref) -> bool:
        """Cancels a task that is not done, if that is possible; returns whether it was."""

    def allocate_block(self, offsets: Sequence[int]) -> BlockBuffer:
        """Returns memory for the result of the running task; see the function ``allocate_block``."""

    def workers_bytes(self, executor: Executor) -> int:
        """Returns the bytes of ``budget_bytes`` that workers for this executor will take, one for each CPU.

        It is 0 where they have been taken off the budget already.
        """

    def waiting(self) -> AbstractContextManager[None]:
        """Wraps the running task's wait for something outside; see the function ``waiting``."""

    def waiting_for_tasks(self) -> AbstractContextManager[None]:
        """Wraps the running task's wait for what other tasks make; see the function ``waiting_for_tasks``."""

    def nodes(self) -> list[Node]:
        """Returns the nodes that are alive."""

    def locate(self, ref: Ref) -> list[str]:
        """Returns names of the nodes that have the object, in memory or on disk; empty while it does not exist."""

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """Waits for objects and returns the bytes of each of their slices as they are kept; raises a task's error.

        It brings no slice to the program, and none from disk where that can be avoided.
        """

    def stats(self) -> dict[str, int]:
        """Returns counters: bytes used, spilled, restored, tasks run."""

    def add_observer(self, observer: Observer) -> None:
        """Calls ``observer`` with every event from now on, on the thread where it happens."""

    def remove_observer(self, observer: Observer) -> None:
        """Stops the calls that ``add_observer`` started."""

    def close(self) -> None:
        """Stops everything and leaves nothing behind."""


_running = threading.local()


@runtime_checkable
class DescribedEngine(Protocol):
    """An engine with something to say of its place, beside what all engines tell."""

    def described(self) -> Sequence[str]:
        """Returns lines for people: where tasks run, and how far ``memory_limit`` is enforced there."""


class RunningTask(NamedTuple):
    """A task that is not over.

    Attributes:
        seconds: How long its present attempt has been running; 0 if it has not begun.
        node: Where it runs; empty if it has not begun.
    """

    seconds: float = 0.0
    node: str = ""


@runtime_checkable
class TimingEngine(Protocol):
    """An engine that knows when and where its tasks begin."""

    def running(self, ref: Ref) -> RunningTask | None:
        """See the function ``running``."""


def set_task_engine(engine: Engine | None, note: Callable[[str], None] | None = None) -> None:
    """Tells ``allocate_block`` and ``waiting`` which engine runs this task; engines call this around a task.

    If the engine wants to know which function of the user the task calls, ``note`` is told its name.
    """
    _running.engine, _running.note = engine, note


def note_function(name: str) -> None:
    """Notes that the running task now calls a function of the user; errors of the engine may name it."""
    note: Callable[[str], None] | None = getattr(_running, "note", None)
    if note is not None:
        note(name)


def running_engine() -> Engine | None:
    """Returns the engine that runs this task; None outside a task."""
    engine: Engine | None = getattr(_running, "engine", None)
    return engine


def allocate_block(offsets: Sequence[int]) -> BlockBuffer:
    """Returns memory for the result of the running task; the task fills it in place, so no copy is made.

    Args:
        offsets: k+1 ascending byte offsets, the first 0, for a block of k slices.

    Returns:
        A writable buffer of ``offsets[-1]`` bytes.

    Raises:
        EngineError: Called outside a task.
    """
    engine = running_engine()
    if engine is None:
        raise EngineError("allocate_block works inside a task only; use put() elsewhere")
    return engine.allocate_block(offsets)


def waiting() -> AbstractContextManager[None]:
    """Wraps a wait for something outside, such as a disk, so that another task may use this one's CPU meanwhile.

    The embedded engine can lend the CPU of tasks on threads. Where an engine cannot, the context does nothing; nor does
    it outside a task.
    """
    engine = running_engine()
    return contextlib.nullcontext() if engine is None else engine.waiting()


def waiting_for_tasks() -> AbstractContextManager[None]:
    """Wraps a wait for what other tasks make, such as rows from a socket: these may need this task's CPU.

    The embedded engine lends the CPU of tasks on threads and in processes, and may start another process meanwhile.
    Where an engine cannot, the context does nothing; nor does it outside a task.
    """
    engine = running_engine()
    return contextlib.nullcontext() if engine is None else engine.waiting_for_tasks()
