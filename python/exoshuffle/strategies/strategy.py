"""The protocol of strategies, and how a strategy describes itself so that it is planned, billed and compared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from exoshuffle.futures import Ref
    from exoshuffle.plan.candidate import Basis, Candidate
    from exoshuffle.plan.plan import ShufflePlan
    from exoshuffle.plan.workload import Workload
    from exoshuffle.strategies.task_set import TaskSet


@runtime_checkable
class Strategy(Protocol):
    """When and where the tasks of a shuffle run: a program over the futures API."""

    @abstractmethod
    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """Submits the shuffle and yields the references to the results (or streams of them), partition by partition.

        The caller sets the pace: the next reduce is submitted when the next reference is asked for.
        """


class PlannedStrategy(Strategy):
    """The base of strategies that propose how to run a shuffle. Its defaults are for maps and reduces alone."""

    #: The functions of a task set that it calls; ``exoshuffle.shuffle`` refuses a call that lacks any before the start.
    steps: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """The name in plans and bills; default: the name of the class."""
        return type(self).__name__

    def adapted(self, workload: Workload) -> Workload:
        """Returns the workload to choose sizes for; it differs if tasks of this strategy take more than others'."""
        return workload

    def candidates(self, basis: Basis) -> Sequence[Candidate]:
        """Returns the ways to run the shuffle within these sizes; none if memory is too small for it."""
        from exoshuffle.plan.candidate import Candidate

        return [Candidate(num_slices=basis.num_splits * basis.num_partitions)]


class Around(PlannedStrategy):
    """The base of strategies that run another one, and are planned as that one.

    Attributes:
        strategy: The other strategy.
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
    """A strategy that does not describe itself: any object with a method ``shuffle``, planned by the defaults."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def name(self) -> str:
        """See ``PlannedStrategy``."""
        return type(self._strategy).__name__

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        return self._strategy.shuffle(tasks, splits, plan)
