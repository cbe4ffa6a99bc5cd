"""What a strategy and a task set are, and the strategies by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from exoshuffle.errors import OptionsError
from exoshuffle.futures import Ref, RemoteFunction, remote
from exoshuffle.futures.options import Executor
from exoshuffle.plan.division import AgainTaskSet
from exoshuffle.plan.plan import ShufflePlan


class TaskSet(Protocol):
    """What to shuffle by: three functions without state, which may run anywhere and more than once.

    One whose ``reduce`` is a generator says so in an attribute ``reduce_returns``, ``"streaming"``: a partition then
    becomes several results, and strategies yield the ``RefStream`` of each.
    """

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


class StreamingTaskSet(Protocol):
    """What to shuffle by in rounds (the strategy ``streaming``); a task set may be this and ``TaskSet`` at once.

    One that is both may have an attribute ``states_are_slices`` that is true: a state is then the slices so far, put
    together as ``merge`` does. Folding it takes no working memory, and the last one is handed to ``reduce`` as a slice.
    """

    @property
    def executor(self) -> Executor:
        """See ``TaskSet``."""
        ...

    def map(self, index: int, split: Any) -> Any:
        """See ``TaskSet``."""

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        """The state of a partition, given that before (None at first) and the slices of a round, in order.

        The state before is not to be changed: somebody may be looking at it, and the task may run again.
        """


#: Functions that make what becomes of a partition.
_LAST = ("reduce", "stream", "rejoin")


def stage(
    tasks: TaskSet | StreamingTaskSet | AgainTaskSet, name: str, **options: Any
) -> RemoteFunction:
    """One of the functions of a task set, to be called with ``.remote``; ``options`` as in ``TaskOptions``.

    Raises:
        OptionsError: The task set has no such function.
    """
    function = getattr(tasks, name, None)
    if function is None:
        raise OptionsError(
            f"the strategy needs a task set with {name}, which {type(tasks).__name__} has not; choose another strategy"
        )
    if name in _LAST:
        options.setdefault("num_returns", getattr(tasks, "reduce_returns", 1))
    memory = options.pop("memory", 0) + functions_bytes(tasks, name)
    made: RemoteFunction = remote(
        function, name=name, executor=tasks.executor, memory=memory, **options
    )
    return made


def functions_bytes(tasks: Any, name: str) -> int:
    """What users' functions have declared to take in the tasks of this name, if the task set tells."""
    declared = getattr(tasks, "functions_bytes", None)
    return 0 if declared is None else declared(name)


class Strategy(Protocol):
    """When and where the tasks of a shuffle run: a program over the futures API.

    A strategy that says in an attribute ``steps`` which functions of the task set it calls gets a refusal of task sets
    that lack one before it starts (``exoshuffle.shuffle``). One of the library that has an attribute ``round_size`` is
    planned with rounds of so many maps.
    """

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        """Submits the shuffle and yields the references to the results (or streams of them), partition by partition.

        The caller decides how fast it takes them: the next reduce is submitted when the next reference is asked for.
        """


_STRATEGIES = {
    "simple": "exoshuffle.strategies.simple:Simple",
    "push": "exoshuffle.strategies.push:Push",
    "pre_shuffle_merge": "exoshuffle.strategies.pre_shuffle_merge:PreShuffleMerge",
    "streaming": "exoshuffle.strategies.streaming:Streaming",
}


def strategy_names() -> list[str]:
    """Names of the strategies of the library; each runs any operator on tables."""
    return list(_STRATEGIES)


def check_strategy(strategy: Any, names: Sequence[str]) -> None:
    """Raises ``OptionsError`` unless it is one of these names, or a strategy itself."""
    known = ", ".join(names)
    if isinstance(strategy, str):
        if strategy not in names:
            raise OptionsError(f"unknown strategy {strategy!r}; known are {known}")
    elif isinstance(strategy, type):
        name = strategy.__name__
        raise OptionsError(
            f"strategy is the class {name}; pass an instance of it, such as {name}()"
        )
    elif not callable(getattr(strategy, "shuffle", None)):
        raise OptionsError(
            f"strategy is {strategy!r}; pass a name ({known}) or an object with a method shuffle"
        )


def get_strategy(strategy: str | Strategy) -> Strategy:
    """The strategy of that name, or the instance itself.

    Raises:
        OptionsError: Unknown name, or no strategy.
    """
    check_strategy(strategy, list(_STRATEGIES))
    if not isinstance(strategy, str):
        return strategy
    module, _, name = _STRATEGIES[strategy].partition(":")
    made: Strategy = getattr(importlib.import_module(module), name)()
    return made


def strategy_name(strategy: str | Strategy) -> str:
    """The name that a strategy is planned by: its own, ``auto``, and ``push`` for one that is not of the library.

    Raises:
        OptionsError: Unknown name.
    """
    if strategy == "auto":
        return "auto"
    kind = type(get_strategy(strategy))
    places = {place: name for name, place in _STRATEGIES.items()}
    return places.get(f"{kind.__module__}:{kind.__qualname__}", "push")
