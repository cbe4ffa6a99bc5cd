"""The protocols of task sets, the functions to shuffle by; and how a strategy makes tasks of these.

An ability of only some task sets is a protocol of its own, so that a strategy asks for it by ``isinstance``.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

from exoshuffle.errors import OptionsError
from exoshuffle.futures import RemoteFunction, remote
from exoshuffle.futures.options import Executor
from exoshuffle.plan.division import AgainTaskSet


class TaskSet(Protocol):
    """The functions to shuffle by: three functions without state, which may run anywhere and more than once."""

    @property
    def executor(self) -> Executor:
        """As in ``TaskOptions``: ``"thread"`` for native code, ``"process"`` for Python code."""
        ...

    def map(self, index: int, split: Any) -> Any:
        """Reads input ``index`` and returns a block of R slices."""

    def merge(self, *blocks: Any) -> Any:
        """Merges blocks of R slices, in the order given, into one such block."""

    def reduce(self, partition: int, slices: list[Any]) -> Any:
        """Turns the slices of one partition, in order, into its result."""


@runtime_checkable
class StreamingTaskSet(Protocol):
    """The functions to shuffle by in rounds (the strategy ``streaming``); a task set may also be a ``TaskSet``."""

    @property
    def executor(self) -> Executor:
        """See ``TaskSet``."""
        ...

    def map(self, index: int, split: Any) -> Any:
        """See ``TaskSet``."""

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        """Returns the next state of a partition, from its state (None at first) and the slices of a round, in order.

        It must not change ``state``: somebody may be looking at it, and the task may run again.
        """


@runtime_checkable
class SliceStates(Protocol):
    """A task set that is a ``TaskSet`` and a ``StreamingTaskSet``, and says whether its states are slices."""

    @property
    def states_are_slices(self) -> bool:
        """Whether a state is the slices so far, put together as ``merge`` does.

        If so, a fold takes no working memory, and ``reduce`` gets the last state as a slice.
        """
        ...


@runtime_checkable
class ManyResults(Protocol):
    """A task set that says how many results a partition becomes."""

    @property
    def reduce_returns(self) -> int | Literal["streaming"]:
        """``"streaming"``, if ``reduce`` is a generator: then strategies yield the ``RefStream`` of each partition."""
        ...


@runtime_checkable
class DeclaredMemory(Protocol):
    """A task set that runs functions of users, which may declare their memory."""

    def functions_bytes(self, name: str) -> int:
        """Returns the memory that they have declared for the tasks of this name."""


#: The functions that make the results of a partition.
_LAST = ("reduce", "stream", "rejoin")


def stage(
    tasks: TaskSet | StreamingTaskSet | AgainTaskSet, name: str, **options: Any
) -> RemoteFunction:
    """Returns a function of a task set, to be called with ``.remote``; ``options`` are as in ``TaskOptions``.

    Raises:
        OptionsError: The task set has no such function.
    """
    # The function is found by name, since a task has the name of its function.
    function = getattr(tasks, name, None)
    if function is None:
        raise OptionsError(
            f"the strategy needs a task set with {name}, which {type(tasks).__name__} has not; choose another strategy"
        )
    if name in _LAST and isinstance(tasks, ManyResults):
        options.setdefault("num_returns", tasks.reduce_returns)
    memory = options.pop("memory", 0) + functions_bytes(tasks, name)
    made: RemoteFunction = remote(
        function, name=name, executor=tasks.executor, memory=memory, **options
    )
    return made


def functions_bytes(tasks: object, name: str) -> int:
    """Returns the memory that users' functions have declared for the tasks of this name; 0 if none have."""
    return tasks.functions_bytes(name) if isinstance(tasks, DeclaredMemory) else 0
