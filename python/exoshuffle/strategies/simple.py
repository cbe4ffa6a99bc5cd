"""The simple strategy: M maps, R reduces, every reduce takes its slice of every map output.

Source: Exoshuffle §3.2.1, listing 1 (pull-based shuffle). This strategy moves rows least often, since it merges
nothing. It reads M x R slices, so it loses where these are small and spilled; ``push`` and ``pre_shuffle_merge`` are
for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from exoshuffle.futures import Ref, Refs
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.mechanisms.in_flight import run_all
from exoshuffle.strategies.mechanisms.node_ranges import PIECES, cuts, node_ranges
from exoshuffle.strategies.mechanisms.reduces import run_reduces
from exoshuffle.strategies.mechanisms.speculation import Speculation, check_speculation
from exoshuffle.strategies.strategy import PlannedStrategy
from exoshuffle.strategies.task_set import TaskSet, stage


class Simple(PlannedStrategy):
    """Exoshuffle's simple shuffle.

    Args:
        speculation: Copies of slow maps and reduces; default: none. With it, maps are awaited before the first reduce
            is submitted.

    Raises:
        OptionsError: ``speculation`` is no ``Speculation``.
    """

    name = "simple"
    steps: ClassVar[tuple[str, ...]] = ("map", "reduce")

    def __init__(self, speculation: Speculation | None = None) -> None:
        check_speculation(speculation)
        self.speculation = speculation

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        where = cuts(node_ranges(plan.num_partitions), PIECES)
        memory, num_returns = plan.map_memory_bytes, plan.num_partitions
        run_map = stage(
            tasks,
            "map",
            memory=memory,
            num_returns=num_returns,
            cuts=where,
            tells_begin=self.speculation is not None,
        )

        def submit(index: int) -> Ref:
            ref: Ref = run_map.remote(index, splits[index])
            return ref

        def submit_copy(index: int, node: str | None) -> Ref:
            ref: Ref = run_map.options(node=node).remote(index, splits[index])
            return ref

        blocks = Refs(run_all(submit, range(len(splits)), self.speculation, submit_copy))
        yield from run_reduces(tasks, blocks, plan, speculation=self.speculation)
