"""What a strategy is, and what one says of itself so that it is planned, billed and compared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from exoshuffle.futures import Ref
from exoshuffle.plan.candidate import Basis, Candidate
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Workload
from exoshuffle.strategies.task_set import TaskSet


@runtime_checkable
class Strategy(Protocol):
    """When and where the tasks of a shuffle run: a program over the futures API."""

    @abstractmethod
    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        """Submits the shuffle and yields the references to the results (or streams of them), partition by partition.

        The caller decides how fast it takes them: the next reduce is submitted when the next reference is asked for.
        """


class PlannedStrategy(Strategy):
    """A strategy that proposes how to run a shuffle: to be derived from. The defaults are those of maps and reduces."""

    #: Functions of the task set that it calls: one that lacks any is refused before the start (``exoshuffle.shuffle``).
    steps: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """What plans and bills call it; default: the name of the class."""
        return type(self).__name__

    def adapted(self, workload: Workload) -> Workload:
        """The workload as sizes are to be chosen for it, if tasks of this strategy take more than those of others."""
        return workload

    def candidates(self, basis: Basis) -> Sequence[Candidate]:
        """The ways to run the shuffle within these sizes; none if memory is too small for it."""
        return [Candidate(num_slices=basis.num_splits * basis.num_partitions)]


class Around(PlannedStrategy):
    """A strategy that runs another one, and is planned as that one: to be derived from.

    Attributes:
        strategy: The other one.
    """

    strategy: PlannedStrategy

    @property
    def name(self) -> str:
        """See ``PlannedStrategy``."""
        return self.strategy.name

    def adapted(self, workload: Workload) -> Workload:
        """See ``PlannedStrategy``."""
        return self.strategy.adapted(workload)

    def candidates(self, basis: Basis) -> Sequence[Candidate]:
        """See ``PlannedStrategy``."""
        return self.strategy.candidates(basis)


class Undescribed(PlannedStrategy):
    """A strategy that says nothing of itself, any object with a method ``shuffle``; it is planned by the defaults."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def name(self) -> str:
        """See ``PlannedStrategy``."""
        return type(self._strategy).__name__

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        return self._strategy.shuffle(tasks, splits, plan)
