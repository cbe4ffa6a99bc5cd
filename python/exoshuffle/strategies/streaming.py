"""The streaming strategy: maps in rounds, and every partition folds the slices of a round into its state.

Source: Exoshuffle §3.6.1 (online aggregation); Wang's dissertation, §3.3.3.1, listing 6. After every round the states
are results for the maps so far, which the program may look at while the next round runs. The last states are the result
of the shuffle. The strategy takes a task set that can ``fold`` (``StreamingTaskSet``). Where states are slices, such as
those of the operators on tables, the last states are reduced. A partition too large to be in one piece is refused.

Guarantee: slices reach a state in the order of the maps. At most one round of maps and one of folds run at once. States
of a round are let go once folded, and so are map outputs unless they are kept. A lost state is computed again from all
map outputs; those that are not there any more are made again. One of three nodes was lost after four of five rounds of
tasks that wait. That took 1.71 of the time without a loss, and 1.12 with map outputs kept. Where these are spilled,
keeping them does not pay: a sort of 400 MB took 1.3 of the time without any loss.

Each node has a range of the partitions: their states are made and reduced there. On Ray, folds that ran anywhere took
states across nodes whose stores were full. Ray drops an object that arrives there, and asks again after 10 s. A
spilling sort of 800 MB on three nodes took 22 to 35 s; now it takes 13.7 to 15.5 s (four and three runs).

Partitions are folded upwards and downwards in turn. An engine that spills the oldest blocks first has the states in
memory that were made last. With folds always upwards, it had spilled the states that were read next. Sorting 108 MB
within 90, 120, 150 and 190 MB spilled 625, 388, 218 and 149 MB (one run each). Now it spills 579, 298, 149 and 108 MB
at most (three or four runs).
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from exoshuffle.arguments import check_flag, check_function, is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures import Ref, Refs, raise_errors, wait
from exoshuffle.plan.candidate import Basis, Candidate
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Workload, ceil_div
from exoshuffle.strategies.mechanisms.copies import Copied
from exoshuffle.strategies.mechanisms.folds import are_slices, check_states, folded_states
from exoshuffle.strategies.mechanisms.in_flight import run_all
from exoshuffle.strategies.mechanisms.node_ranges import PIECES, cuts, homes, node_ranges
from exoshuffle.strategies.mechanisms.partition_sizes import partition_bytes
from exoshuffle.strategies.mechanisms.speculation import Speculation, check_speculation
from exoshuffle.strategies.mechanisms.state_reduces import reduce_states
from exoshuffle.strategies.strategy import PlannedStrategy
from exoshuffle.strategies.task_set import StreamingTaskSet, TaskSet, stage

#: The number of rounds, where nobody says how large they are: each makes all states once more.
NUM_ROUNDS = 10
#: A fold that concatenates holds the state before and slices, and the state that it makes of them: the partition twice.
FOLD_PERCENT = 100
#: Map outputs are kept by default where so many times their size fits into memory: there are states, old and new, too.
KEPT_SHARE = 4


@dataclass(frozen=True)
class Round:
    """The states after a round; they are not awaited, so that the receiver decides whether to look at them.

    Attributes:
        num_maps: Maps whose rows are in the states.
        is_last: Whether these are all maps.
        states: One reference for each partition.
        sizes: Bytes of each state, where states are slices of a task set that can ``divide``; else zeros.
        nodes: The node of each partition, where its state is made; None if any will do.
        kept: Map outputs that are kept, of this round and those before it.
    """

    num_maps: int
    is_last: bool
    states: Sequence[Ref]
    sizes: Sequence[int]
    nodes: Sequence[str | None]
    kept: Sequence[Refs] = ()


class Streaming(PlannedStrategy):
    """Exoshuffle's streaming shuffle.

    Args:
        on_round: Called in the program with each round when its folds are submitted; the next round is submitted when
            it returns. ``get(round.states)`` in it waits for the round.
        round_size: Maps per round; default: the plan's, but at most a tenth of the maps.
        speculation: Copies of slow maps, folds and reduces; default: none. With it, the maps of a round are awaited,
            and its folds before ``on_round`` is called. The states before a round are kept until its folds are done.
        keep_map_outputs: Keep map outputs until the shuffle is over. States that a node takes along are then made of
            them, and otherwise of all maps. Default: on several nodes, if a quarter of the memory holds them.

    Raises:
        OptionsError: A value cannot work.
    """

    name = "streaming"
    steps: ClassVar[tuple[str, ...]] = ("map", "fold")

    def __init__(
        self,
        on_round: Callable[[Round], None] | None = None,
        round_size: int | None = None,
        speculation: Speculation | None = None,
        keep_map_outputs: bool | None = None,
    ) -> None:
        if keep_map_outputs is not None:
            check_flag("keep_map_outputs", keep_map_outputs)
        if on_round is not None:
            check_function("on_round", on_round)
        if round_size is not None and not (is_whole(round_size) and round_size >= 1):
            raise OptionsError(
                f"round_size is {shown(round_size)}; it must be a whole number, at least 1"
            )
        check_speculation(speculation)
        self.on_round = on_round
        self.round_size = round_size
        self.speculation = speculation
        self.keep_map_outputs = keep_map_outputs

    def adapted(self, workload: Workload) -> Workload:
        """See ``PlannedStrategy``; a partition is in one piece, and folds take memory as reduces do."""
        percent = max(workload.reduce_percent, FOLD_PERCENT)
        return replace(workload, reduce_percent=percent, is_passed_on=False)

    def candidates(self, basis: Basis) -> list[Candidate]:
        """See ``PlannedStrategy``; returns one, with rounds as large as was asked for."""
        size = self.round_size or ceil_div(basis.num_splits, NUM_ROUNDS)
        num_rounds = ceil_div(basis.num_splits, size)
        num_folds = num_rounds * basis.num_partitions
        states = _state_bytes(basis.block_bytes, num_rounds)
        return [
            Candidate(
                # Folds read slices in the place of reduces, and each state is read once.
                num_slices=basis.num_splits * basis.num_partitions + num_folds,
                round_size=size,
                num_folds=num_folds,
                num_copies=2 if self._would_keep(basis) else 1,
                state_bytes=states,
                merged_bytes=sum(states),
                # Nothing runs beside the last folds, but they run on all CPUs.
                tail_bytes=min(sum(states), ceil_div(basis.total_bytes, basis.resources.num_cpus)),
                moved_again_bytes=sum(states),
            )
        ]

    def _would_keep(self, basis: Basis) -> bool:
        if self.keep_map_outputs is not None:
            return self.keep_map_outputs
        resources = basis.resources
        return resources.num_nodes > 1 and KEPT_SHARE * basis.block_bytes <= resources.budget_bytes

    def _keeps(self, plan: ShufflePlan) -> bool:
        """Whether map outputs are kept; by default the plan has decided, which knows how large they are."""
        return plan.num_copies > 1 if self.keep_map_outputs is None else self.keep_map_outputs

    def shuffle(
        self, tasks: TaskSet | StreamingTaskSet, splits: Sequence[object], plan: ShufflePlan
    ) -> Iterator[Ref]:
        """See ``Strategy``; yields the states after the last round, or, if they are slices, their reduces' results.

        Raises:
            OptionsError: The task set cannot ``fold``.
            LargeGroupError: A partition is too large to be in one piece.
        """
        for folded in self.rounds(tasks, splits, plan):
            states, sizes, kept = deque(folded.states), folded.sizes, folded.kept
            nodes = folded.nodes
            if self.on_round is not None:
                self.on_round(folded)
        del folded
        if are_slices(tasks):
            yield from reduce_states(tasks, states, sizes, plan, nodes, self.speculation)
        else:
            yield from states
        del kept  # Until here a lost state is made of them.

    def rounds(
        self, tasks: TaskSet | StreamingTaskSet, splits: Sequence[object], plan: ShufflePlan
    ) -> Iterator[Round]:
        """Yields the states after each round; the next round is submitted when it is asked for.

        Raises:
            OptionsError: The task set cannot ``fold``.
            TaskError: A map or a fold has failed.
            LargeGroupError: As in ``shuffle``.
        """
        tells = self.speculation is not None
        num_returns, memory = plan.num_partitions, plan.map_memory_bytes
        run_map = stage(tasks, "map", num_returns=num_returns, memory=memory, tells_begin=tells)
        memory = 0 if are_slices(tasks) else plan.reduce_memory_bytes
        run_fold = stage(tasks, "fold", memory=memory, tells_begin=tells)

        def submit(index: int) -> Ref:
            return submit_copy(index, None)

        def submit_copy(index: int, node: str | None) -> Ref:
            where = cuts(ranges, PIECES)
            ref: Ref = run_map.options(node=node, cuts=where).remote(index, splits[index])
            return ref

        sizes = [0] * plan.num_partitions
        num_maps = len(splits)
        size = self.round_size or max(1, min(plan.round_size, -(-num_maps // NUM_ROUNDS)))
        states: list[Ref] = []
        kept: list[Refs] = []
        copied: Copied | None = None
        # Without any input there is still one round: every partition needs a state.
        for start in range(0, max(num_maps, 1), size):
            stop = min(start + size, num_maps)
            # A node that was lost has none in the next round, and one that has come has some.
            ranges = node_ranges(plan.num_partitions)
            nodes = homes(ranges)
            meanwhile = tuple if copied is None else copied.poll
            maps = run_all(submit, range(start, stop), self.speculation, submit_copy, meanwhile)
            blocks = Refs(maps)
            del maps
            if copied is not None:
                copied.finish()
            wait(states, num_ready=len(states))
            raise_errors(states)
            if are_slices(tasks):
                sizes = list(
                    map(
                        operator.add,
                        sizes,
                        partition_bytes(tasks, blocks, range(plan.num_partitions)),
                    )
                )
                check_states(sizes, plan)
            # The last round goes downwards, as the reduces go up.
            downwards = -(-(num_maps - stop) // size) % 2 == 0
            partitions = range(plan.num_partitions)[:: -1 if downwards else 1]
            copied = None if self.speculation is None else Copied(self.speculation)
            states = folded_states(run_fold, states, blocks, partitions, nodes, copied)
            if self._keeps(plan):
                kept.append(blocks)
            del blocks
            if copied is not None and (stop == num_maps or self.on_round is not None):
                copied.finish()
            yield Round(stop, stop == num_maps, states, sizes, nodes, kept)


def _state_bytes(blocks: int, rounds: int) -> tuple[int, ...]:
    """Returns the sizes of the states after each round.

    Earlier states are let go. So memory has to hold the states of one round, and beside them the map outputs of the
    next round. Together these are as large as the next states. Sorting 108 MB within 90 to 190 MB spilled 0.58 to 1.17
    of the bytes that follow from that (19 runs).
    """
    return tuple(blocks * number // rounds for number in range(1, rounds + 1))
