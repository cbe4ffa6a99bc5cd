"""The streaming strategy: maps in rounds, and every partition folds the slices of a round into its state.

Source: Exoshuffle §3.6.1 (online aggregation); Wang's dissertation, §3.3.3.1, listing 6. After every round the states
are results for the maps that are in, which the program may look at while the next round runs; the last ones are the
result of the shuffle. It takes a task set that can ``fold`` (``StreamingTaskSet``).

Guarantee: slices reach a state in the order of the maps. At most one round of maps and one of folds run at once. Map
outputs and states of a round are let go once folded; what is lost is computed again from the maps, all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from exoshuffle.errors import OptionsError
from exoshuffle.futures import Ref, Refs, raise_errors, wait
from exoshuffle.shuffle.plan import ShufflePlan
from exoshuffle.shuffle.strategy import StreamingTaskSet, TaskSet, stage

#: A plan that knows no rounds is divided into so many.
NUM_ROUNDS = 10


@dataclass(frozen=True)
class Round:
    """The states after a round; not awaited, so that looking at them is up to who gets this.

    Attributes:
        num_maps: Maps whose rows are in the states.
        is_last: Whether these are all.
        states: One reference for each partition.
    """

    num_maps: int
    is_last: bool
    states: Sequence[Ref]


class Streaming:
    """Exoshuffle's streaming shuffle.

    Args:
        on_round: Called with each round when its folds are submitted, in the program, which submits the next one
            when it returns: ``get(round.states)`` in it waits for the round.
        round_size: Maps per round; default: the plan's, but at most a tenth of the maps.

    Raises:
        OptionsError: ``round_size`` below 1.
    """

    steps: ClassVar[tuple[str, ...]] = ("map", "fold")

    def __init__(
        self,
        on_round: Callable[[Round], None] | None = None,
        round_size: int | None = None,
    ) -> None:
        if round_size is not None and round_size < 1:
            raise OptionsError(f"round_size is {round_size}; it must be at least 1")
        self.on_round = on_round
        self.round_size = round_size

    def shuffle(
        self, tasks: TaskSet | StreamingTaskSet, splits: Sequence[Any], plan: ShufflePlan
    ) -> Iterator[Ref]:
        """See ``Strategy``: the states after the last round.

        Raises:
            OptionsError: The task set cannot ``fold``.
        """
        states: Sequence[Ref] = ()
        for folded in self.rounds(tasks, splits, plan):
            states = folded.states
            if self.on_round is not None:
                self.on_round(folded)
        yield from states

    def rounds(
        self, tasks: TaskSet | StreamingTaskSet, splits: Sequence[Any], plan: ShufflePlan
    ) -> Iterator[Round]:
        """The states after each round; the next one is submitted when it is asked for.

        Raises:
            OptionsError: The task set cannot ``fold``.
            TaskError: A map or a fold has failed.
        """
        run_map = stage(tasks, "map", num_returns=plan.num_partitions, memory=plan.map_memory_bytes)
        run_fold = stage(tasks, "fold", memory=plan.reduce_memory_bytes)
        num_maps = len(splits)
        size = self.round_size or max(1, min(plan.round_size, -(-num_maps // NUM_ROUNDS)))
        states: list[Ref] = []
        # Without any input there is one round all the same: a state is due for every partition.
        for start in range(0, max(num_maps, 1), size):
            stop = min(start + size, num_maps)
            blocks = Refs(run_map.remote(index, splits[index]) for index in range(start, stop))
            wait(states, num_ready=len(states))
            raise_errors(states)
            states = [
                run_fold.remote(
                    partition, states[partition] if states else None, blocks.column(partition)
                )
                for partition in range(plan.num_partitions)
            ]
            del blocks
            yield Round(stop, stop == num_maps, states)
