"""What an engine is: the protocol that strategies are written against, and the options of a task.

Guarantee: strategies and task sets use nothing of an engine but this. Why a context variable for the current engine:
``allocate_block`` is called inside tasks, which must not know who runs them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from exoshuffle.errors import EngineError, OptionsError
from exoshuffle.futures.refs import Ref, SliceRef


@dataclass(frozen=True)
class TaskOptions:
    """How to run a task.

    Attributes:
        num_returns: Number of slices of the result; a task with ``num_returns=k`` returns k values, or a block of k
            slices from ``allocate_block``.
        num_cpus: CPU slots that the task occupies.
        memory: Working memory in bytes that the task needs beside its arguments and its result; reserved from the
            engine's budget before the task starts.
        max_retries: How many times to run the task again after a failure that is not the function's own (its
            result was lost, an exception with ``retryable = True``).
        name: Name in errors and events; default: the function's.
    """

    num_returns: int = 1
    num_cpus: float = 1
    memory: int = 0
    max_retries: int = 3
    name: str = ""

    def __post_init__(self) -> None:
        if self.num_returns < 1:
            raise OptionsError(f"num_returns is {self.num_returns}; it must be at least 1")
        if self.num_cpus < 0:
            raise OptionsError(f"num_cpus is {self.num_cpus}; it must not be negative")
        if self.memory < 0:
            raise OptionsError(f"memory is {self.memory} bytes; it must not be negative")
        if self.max_retries < 0:
            raise OptionsError(f"max_retries is {self.max_retries}; it must not be negative")


class BlockBuffer(Protocol):
    """A writable block (buffer protocol) of several slices; immutable once a task has returned it."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...


class Engine(Protocol):
    """Runs tasks and keeps their results."""

    #: Bytes that the whole program may take.
    memory_limit: int
    #: What blocks and the working memory of tasks may take of it together.
    budget_bytes: int
    #: Where blocks go that do not fit; empty if that is not this engine's business.
    spill_dirs: list[str]
    #: CPU slots.
    num_cpus: int

    def submit(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Ref:
        """Starts a task when its arguments are ready; returns at once."""

    def put(self, value: Any) -> Ref:
        """Stores a value."""

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Any:
        """Waits for an object and returns its value; raises the task's error."""

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """Waits until ``num_ready`` of the objects are done; moves no data."""

    def error(self, ref: Ref) -> BaseException | None:
        """The error of an object that has failed."""

    def cancel(self, ref: Ref) -> bool:
        """Cancels a task that has not started; says whether it did."""

    def allocate_block(self, offsets: Sequence[int]) -> BlockBuffer:
        """Memory for the result of the running task; see the function ``allocate_block``."""

    def stats(self) -> dict[str, int]:
        """Counters: bytes used, spilled, restored, tasks run."""

    def add_observer(self, observer: Callable[[Any], None]) -> None:
        """Calls ``observer`` with every event from now on, on the thread where it happens."""

    def remove_observer(self, observer: Callable[[Any], None]) -> None:
        """Ends ``add_observer``."""

    def close(self) -> None:
        """Stops everything and leaves nothing behind."""


_running = threading.local()


def set_task_engine(engine: Engine | None) -> None:
    """Engines call this around a task, so that ``allocate_block`` inside it finds them."""
    _running.engine = engine


def allocate_block(offsets: Sequence[int]) -> BlockBuffer:
    """Memory for the result of the running task, to be filled in place and returned: no copy is made.

    Args:
        offsets: k+1 ascending byte offsets, the first 0, for a block of k slices.

    Returns:
        A writable buffer of ``offsets[-1]`` bytes.

    Raises:
        EngineError: Called outside a task.
    """
    engine: Engine | None = getattr(_running, "engine", None)
    if engine is None:
        raise EngineError("allocate_block works inside a task only; use put() elsewhere")
    return engine.allocate_block(offsets)
