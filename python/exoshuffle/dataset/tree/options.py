"""The options of operations: how a shuffle runs, and how many rows are taken."""

from __future__ import annotations

from exoshuffle.arguments import is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.plan.plan import check_num_partitions
from exoshuffle.strategies.library import AUTO, check_strategy, strategy_names
from exoshuffle.strategies.strategy import Strategy

#: Arrow counts rows with 64 bits.
MAX_ROWS = 2**63 - 1
#: In the place of a strategy: no shuffle at all.
WHOLE = "whole"


@dataclass(frozen=True)
class ShuffleOptions:
    """The options of a shuffle.

    Attributes:
        strategy: ``auto``, the name of a strategy, an instance, or ``whole`` for one task instead of a shuffle.
        num_partitions: Output partitions; default: as few as memory allows.
        target_bytes: Size of an output partition, instead of their number.

    Raises:
        OptionsError: A number of partitions or a strategy that cannot work.
    """

    strategy: str | Strategy = "auto"
    num_partitions: int | None = None
    target_bytes: int | None = None

    def __post_init__(self) -> None:
        check_strategy(self.strategy, [AUTO, WHOLE, *strategy_names()])
        if self.num_partitions is not None:
            check_num_partitions(self.num_partitions)
        if self.is_whole and (self.num_partitions, self.target_bytes) != (None, None):
            raise OptionsError(
                'strategy="whole" makes one partition; leave out num_partitions and the target size, or strategy'
            )

    @property
    def is_whole(self) -> bool:
        """Whether one task was asked for instead of a shuffle."""
        return self.strategy == WHOLE


def check_count(name: str, count: object) -> None:
    """Raises ``OptionsError`` unless an argument of this name is a number of rows."""
    if not is_whole(count) or count < 0:
        raise OptionsError(f"{name} is {shown(count)}; it must be a whole number from 0 on")
    if int(count) > MAX_ROWS:
        raise OptionsError(f"{name} is {count}; it must be at most 2**63 - 1, or left out")
