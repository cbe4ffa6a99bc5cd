"""The protocols of task sets, the functions to shuffle by; and how a strategy makes tasks of these.

An ability of only some task sets is a protocol of its own, so that a strategy asks for it by ``isinstance``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

from exoshuffle.errors import OptionsError
from exoshuffle.futures import RemoteFunction, Value, remote
from exoshuffle.plan.division import AssignedTaskSet, Functions


class TaskSet(AssignedTaskSet, Protocol):
    """The functions to shuffle by: three functions without state, which may run anywhere and more than once."""

    def merge(self, *blocks: Value) -> object:
        """Merges blocks, in the order given, slice by slice, into one that has as many slices.

        They may have the slices of some partitions only, as lists; a block of one slice is returned as that slice.
        """


@runtime_checkable
class StreamingTaskSet(Functions, Protocol):
    """The functions to shuffle by in rounds (the strategy ``streaming``); a task set may also be a ``TaskSet``."""

    def map(self, index: int, split: Value) -> object:
        """See ``TaskSet``."""

    def fold(self, partition: int, state: Value, slices: list[Value]) -> object:
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


def stage(tasks: Functions, name: str, *, memory: int = 0, **options: object) -> RemoteFunction:
    """Returns a function of a task set, to be called with ``.remote``; options are as in ``TaskOptions``.

    Where a partition has many results (``ManyResults``), the ``Ref`` is a ``RefStream``; strategies only hand it on.

    Raises:
        OptionsError: The task set has no such function.
    """
    # The function is found by name, since a task has the name of its function.
    function: Callable[..., object] | None = getattr(tasks, name, None)
    if function is None:
        raise OptionsError(
            f"the strategy needs a task set with {name}, which {type(tasks).__name__} has not; choose another strategy"
        )
    if name in _LAST and isinstance(tasks, ManyResults):
        options.setdefault("num_returns", tasks.reduce_returns)
    memory += functions_bytes(tasks, name)
    made = remote(function, name=name, executor=tasks.executor, memory=memory)
    return made.options(**options)


def functions_bytes(tasks: object, name: str) -> int:
    """Returns the memory that users' functions have declared for the tasks of this name; 0 if none have."""
    return tasks.functions_bytes(name) if isinstance(tasks, DeclaredMemory) else 0
