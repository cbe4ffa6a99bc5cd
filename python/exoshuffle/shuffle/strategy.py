"""What a strategy and a task set are, and the strategies by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from exoshuffle.errors import OptionsError
from exoshuffle.futures import Ref, RemoteFunction, remote
from exoshuffle.futures.options import Executor
from exoshuffle.shuffle.plan import ShufflePlan


class TaskSet(Protocol):
    """What to shuffle by: three functions without state, which may run anywhere and more than once."""

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


def stage(tasks: TaskSet, name: str, **options: Any) -> RemoteFunction:
    """One of the functions of a task set, to be called with ``.remote``; ``options`` as in ``TaskOptions``."""
    function: RemoteFunction = remote(
        getattr(tasks, name), name=name, executor=tasks.executor, **options
    )
    return function


class Strategy(Protocol):
    """When and where the tasks of a shuffle run: a program over the futures API."""

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        """Submits the shuffle and yields the references to the results, partition by partition.

        The caller decides how fast it takes them: the next reduce is submitted when the next reference is asked for.
        """


_STRATEGIES = {
    "simple": "exoshuffle.shuffle.simple:Simple",
    "push": "exoshuffle.shuffle.push:Push",
}


def get_strategy(strategy: str | Strategy) -> Strategy:
    """The strategy of that name, or the instance itself.

    Raises:
        OptionsError: Unknown name.
    """
    if not isinstance(strategy, str):
        return strategy
    if strategy not in _STRATEGIES:
        known = ", ".join(["auto", *_STRATEGIES])
        raise OptionsError(f"unknown strategy {strategy!r}; known are {known}")
    module, _, name = _STRATEGIES[strategy].partition(":")
    made: Strategy = getattr(importlib.import_module(module), name)()
    return made
