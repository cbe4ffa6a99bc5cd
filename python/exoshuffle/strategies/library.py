"""The strategies of the library by name, and the choice among them and others.

A strategy, and what plans it, is imported when a shuffle is planned: most small jobs need none.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError
from exoshuffle.strategies.strategy import PlannedStrategy, Strategy, Undescribed

if TYPE_CHECKING:
    from exoshuffle.futures import Ref
    from exoshuffle.plan.plan import ShufflePlan
    from exoshuffle.plan.workload import Resources, Workload
    from exoshuffle.strategies.task_set import TaskSet

#: The class of each name, which is in the file of that name.
_LIBRARY = {
    "simple": "Simple",
    "push": "Push",
    "pre_shuffle_merge": "PreShuffleMerge",
    "streaming": "Streaming",
}
#: ``auto`` chooses among these, and prefers the first, which moves rows least often. ``streaming`` is not compared: its
#: results are worth watching, but each round makes all states anew.
_COMPARED = ("simple", "push", "pre_shuffle_merge")
AUTO = "auto"


class Auto:
    """The choice among strategies by their predicted costs: ``strategy=Auto(TwoLevel())``.

    Args:
        strategies: Are compared beside those that ``"auto"`` compares. One with the name of another takes its place,
            such as ``Push(merge_bytes="100MB")``.

    Raises:
        OptionsError: One of them is no strategy, or is itself an ``Auto``.
    """

    def __init__(self, *strategies: Strategy) -> None:
        if any(isinstance(strategy, Auto) for strategy in strategies):
            raise OptionsError(
                "Auto(...) got another Auto(...), which is a choice and no strategy; give its strategies to one Auto, "
                "such as Auto(TwoLevel(), Push())"
            )
        given = [get_strategy(strategy) for strategy in strategies]
        library = [get_strategy(name) for name in _COMPARED]
        by_name = {strategy.name: strategy for strategy in (*library, *given)}
        self.alternatives: tuple[PlannedStrategy, ...] = tuple(by_name.values())

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``; runs the strategy that the plan names.

        Raises:
            OptionsError: The plan was not chosen among these strategies.
        """
        for strategy in self.alternatives:
            if strategy.name == plan.strategy:
                return strategy.shuffle(tasks, splits, plan)
        names = ", ".join(strategy.name for strategy in self.alternatives)
        raise OptionsError(
            f"strategy=Auto(...) goes by sizes, and no plan by sizes was made for this shuffle; pass one of {names}"
        )


def strategy_names() -> list[str]:
    """Returns the names of the strategies of the library; each runs any operator on tables."""
    return list(_LIBRARY)


def check_strategy(strategy: object, names: Sequence[str]) -> None:
    """Raises ``OptionsError`` unless the value is one of these names, or a strategy itself."""
    known = ", ".join(names)
    if isinstance(strategy, str):
        if strategy not in names:
            raise OptionsError(f"unknown strategy {strategy!r}; known are {known}")
    elif isinstance(strategy, type):
        name = strategy.__name__
        raise OptionsError(
            f"strategy is the class {name}; pass an instance of it, such as {name}()"
        )
    elif not (isinstance(strategy, Strategy) and callable(strategy.shuffle)):
        raise OptionsError(
            f"strategy is {strategy!r}; pass a name ({known}) or an object with a method shuffle"
        )


def get_strategy(strategy: str | Strategy) -> PlannedStrategy:
    """Returns the strategy of that name, or the instance itself.

    Raises:
        OptionsError: The name is unknown, or the value is no strategy.
    """
    check_strategy(strategy, strategy_names())
    if isinstance(strategy, str):
        return _make(strategy)
    return strategy if isinstance(strategy, PlannedStrategy) else Undescribed(strategy)


def speculating(name: str) -> PlannedStrategy:
    """Returns the strategy of a name in the library, with copies of slow tasks."""
    from exoshuffle.strategies.mechanisms.speculation import Speculation

    return _make(name, speculation=Speculation())


def _make(name: str, **options: object) -> PlannedStrategy:
    home = importlib.import_module(f"exoshuffle.strategies.{name}")
    made: PlannedStrategy = getattr(home, _LIBRARY[name])(**options)
    return made


def to_run(strategy: str | Strategy) -> PlannedStrategy | Auto:
    """Returns the strategy, or the choice, that runs a shuffle which ``plan_shuffle`` has planned.

    Raises:
        OptionsError: The name is unknown, or the value is no strategy.
    """
    check_strategy(strategy, [AUTO, *strategy_names()])
    if isinstance(strategy, Auto):
        return strategy
    return Auto() if strategy == AUTO else get_strategy(strategy)


def plan_shuffle(
    workload: Workload,
    resources: Resources,
    strategy: str | Strategy = AUTO,
    num_partitions: int | None = None,
) -> ShufflePlan:
    """Plans a shuffle.

    Args:
        workload: The rows to shuffle, in numbers.
        resources: Budget, CPUs, nodes and kind of disk.
        strategy: ``auto``, the name of a strategy, or an instance.
        num_partitions: R, if the caller wants a certain number.

    Raises:
        MemoryLimitError: The shuffle cannot fit; the message names the smallest budget that would do.
        OptionsError: The number of partitions cannot work, or the strategy is unknown.
    """
    from exoshuffle.plan.planner import choose_plan

    return choose_plan(workload, resources, _proposers(strategy), num_partitions)


def limit_to_plan(
    workload: Workload,
    resources: Resources,
    strategy: str | Strategy = AUTO,
    num_partitions: int | None = None,
) -> int:
    """Returns a memory limit for which ``plan_shuffle`` has a plan, from resources for which it may have none."""
    from exoshuffle.plan.planner import smallest_limit

    return smallest_limit(workload, resources, _proposers(strategy), num_partitions)


def _proposers(strategy: str | Strategy) -> Sequence[PlannedStrategy]:
    chosen = to_run(strategy)
    return chosen.alternatives if isinstance(chosen, Auto) else (chosen,)
