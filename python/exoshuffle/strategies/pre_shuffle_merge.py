"""The pre-shuffle merge strategy: map outputs are merged on the node where they lie, while other maps still run.

Source: Riffle §4 ("Riffle: Optimized Shuffle Service for Large-Scale Data Analytics"); Exoshuffle §3.2.2, listing 2.
M x R small slices become about (M / N) x R larger ones. The price is that all rows are read and written once more,
beside the maps rather than after them. Unlike in ``push``, map outputs stay until the last reduce is submitted, so that
merging can be given up at any moment:

* best effort (Exoshuffle §3.5, listing 5): when all maps and ``percent`` of the merges are done, the other merges are
  cancelled;
* where a merge fails, or its result is lost, reduces read its inputs instead: no map runs again.

Where it is fastest: on one node whose turning disk pays for each request, with many small partitions in little memory.
Its merges take more blocks at once than those of ``push``, whose rounds need memory for two kinds of blocks. Groups
that memory does not hold are merged in pieces (Riffle §4.1.2, ``mechanisms.pieces``). 1 GB in 1,000 partitions within
500 MB (16 CPUs), in virtual time: 84 s, 182 by ``push``, 1,126 by ``simple``. ``auto`` chooses it there; where bytes
decide, as on SSDs, it hardly does, since it spills all rows twice.

``mechanisms.groups`` says why the bytes of the result are those of ``simple``. A failed merge is not an error of the
shuffle, even if the merge function is wrong. A warning of the logger ``exoshuffle`` shows the first such error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from exoshuffle.arguments import check_function, check_instance
from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures import Ref, current_engine, locate, nodes
from exoshuffle.plan.candidate import MAX_MERGED, Basis, Candidate, merge_factors
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import ceil_div
from exoshuffle.strategies.mechanisms.best_effort import BestEffort
from exoshuffle.strategies.mechanisms.groups import Group, Groups, Output, merge_memory
from exoshuffle.strategies.mechanisms.in_flight import as_finished
from exoshuffle.strategies.mechanisms.merge_policy import FixedFiles, MergePolicy
from exoshuffle.strategies.mechanisms.merges import Merges
from exoshuffle.strategies.mechanisms.node_ranges import PIECES, cuts, node_ranges
from exoshuffle.strategies.mechanisms.pieces import (
    group_memory_bytes,
    in_pieces,
    num_pieces,
    piece_ranges,
    piece_readings,
)
from exoshuffle.strategies.mechanisms.reduces import run_readings
from exoshuffle.strategies.mechanisms.speculation import Speculation, check_speculation
from exoshuffle.strategies.strategy import PlannedStrategy
from exoshuffle.strategies.task_set import TaskSet, stage
from exoshuffle.units import option_bytes

#: Share of the budget for merges: a plan fills 80 % of it, and maps half of that.
MERGE_MEMORY_PERCENT = 40


@dataclass(frozen=True)
class MergeOptions:
    """Options of a pre-shuffle merge: ``strategy=PreShuffleMerge(MergeOptions(...))``.

    Attributes:
        policy: ``FixedFiles`` or ``FixedBlockSize``. Default: groups of the plan's ``merge_factor``.
        percent: Share of the merges; once so many have ended, and all maps, the others are cancelled. Default: all are
            awaited, since reduces read the inputs of the others slice by slice.
        timeout_seconds: So long after the last map, all merges that have not ended are cancelled. Default: no limit.
        memory_bytes: Memory for the merges that run at once on a node, inputs and results together, as a number or a
            size as text. No merge needs more: large groups are merged in pieces (``mechanisms.pieces``). Default: the
            plan's number; without one, ``MERGE_MEMORY_PERCENT`` of the engine's budget.
        clock: Returns seconds that only grow.

    Raises:
        OptionsError: A value cannot work.
    """

    policy: MergePolicy | None = None
    percent: int = 100
    timeout_seconds: float | None = None
    memory_bytes: int | str | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        _ = self.effort, self.memory_limit_bytes  # these check
        check_function("clock", self.clock)
        policy = self.policy
        is_one = isinstance(policy, MergePolicy) and not isinstance(policy, type)
        if policy is not None and not is_one:
            raise OptionsError(
                f"policy is {shown(policy)}; give a policy, such as FixedFiles(20) or FixedBlockSize('1MB')"
            )

    @property
    def effort(self) -> BestEffort:
        """The rule for when to stop waiting."""
        return BestEffort(self.percent, self.timeout_seconds)

    @property
    def memory_limit_bytes(self) -> int | None:
        """``memory_bytes`` as a number."""
        return (
            None
            if self.memory_bytes is None
            else option_bytes("memory_bytes", self.memory_bytes, 0)
        )


class PreShuffleMerge(PlannedStrategy):
    """Riffle's shuffle.

    Args:
        options: Default: groups as planned, all of them awaited.
        speculation: Copies of slow maps and reduces; default: none.

    Raises:
        OptionsError: An argument is something else.
    """

    name = "pre_shuffle_merge"
    steps: ClassVar[tuple[str, ...]] = ("map", "merge", "reduce")

    def __init__(
        self, options: MergeOptions | None = None, speculation: Speculation | None = None
    ) -> None:
        if options is not None:
            check_instance("options", options, MergeOptions)
        check_speculation(speculation)
        self.options = options or MergeOptions()
        self.speculation = speculation

    def candidates(self, basis: Basis) -> list[Candidate]:
        """See ``PlannedStrategy``; returns one for each number of blocks that memory allows to merge at once."""
        memory, split = _planned_bytes(basis), basis.sizes.split_bytes
        found: list[Candidate] = []
        for factor in merge_factors(MAX_MERGED, basis.sizes.num_splits):
            pieces = num_pieces(factor * split, split, basis.num_partitions, memory)
            if merge_memory([factor * split]) <= group_memory_bytes(pieces, memory):
                found.append(self._candidate(basis, factor, pieces, memory))
        return found

    def _candidate(self, basis: Basis, factor: int, pieces: int, memory_bytes: int) -> Candidate:
        """Returns a candidate with merges of so many blocks, which stay where they lie, with their inputs beside them.

        Take 4 GB in 1,000 partitions within 1 GB, on a turning disk, in virtual time. With five of a hundred merges
        given up it took 640 s, with none 331 s. They make 39,000 requests of the disk.
        """
        total, num_merges = basis.total_bytes, ceil_div(basis.num_splits, factor)
        num_given_up = num_merges - self.options.effort.enough(num_merges)
        num_read = num_merges + num_given_up * (factor - 1)
        return Candidate(
            num_slices=num_read * basis.num_partitions,
            merge_factor=factor,
            num_merges=num_merges * pieces,
            num_copies=2,
            merged_bytes=total,
            tail_bytes=min(total, factor * basis.sizes.split_bytes),
            merge_reads=basis.num_splits * pieces,
            reread_bytes=total,
            merge_memory_bytes=memory_bytes,
        )

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        num_returns, where = plan.num_partitions, cuts(node_ranges(plan.num_partitions), PIECES)
        run_map = stage(
            tasks,
            "map",
            memory=plan.map_memory_bytes,
            num_returns=num_returns,
            cuts=where,
            tells_begin=self.speculation is not None,
        )
        run_merge = stage(tasks, "merge", num_returns=num_returns, cuts=where)
        options, memory = self.options, _memory_bytes(self.options, plan)
        places = [node.name for node in nodes() if node.resources.get("CPU", 0) > 0]
        policy = options.policy or FixedFiles(max(2, plan.merge_factor))
        layout = _Layout(len(splits), places, policy)
        pieces = num_pieces(policy.group_bytes(plan), plan.split_bytes, num_returns, memory)
        ranges = piece_ranges(num_returns, pieces)
        room = group_memory_bytes(pieces, memory)
        groups = [Groups(maps, policy, plan, room) for maps in layout.stripes]

        def merge(group: Group) -> Ref:
            mine = group.partitions or range(num_returns)
            inside = where and tuple(
                cut - mine.start for cut in where if mine.start < cut < mine.stop
            )
            run = run_merge.options(node=group.node, num_returns=len(mine), cuts=inside)
            ref: Ref = run.remote(*group.inputs)
            return ref

        merges = Merges(merge, memory)

        def submit(index: int) -> Ref:
            ref: Ref = run_map.options(node=layout.node(index)).remote(index, splits[index])
            return ref

        def submit_copy(index: int, node: str | None) -> Ref:
            ref: Ref = run_map.options(node=node).remote(index, splits[index])
            return ref

        done = as_finished(submit, layout.order, self.speculation, submit_copy, merges.poll)
        for index, block in done:
            node = next(iter(locate(block)), layout.node(index))
            output = Output(index, block, node, policy.size(block, plan))
            for group in groups[layout.stripe(index)].add(output):
                for piece in in_pieces(group, ranges):
                    merges.add(piece)
        merges.finish(options.effort, options.clock)

        # ``merges`` keeps the map outputs until this function ends.
        wanted = ranges if pieces > 1 else [None]
        sources = [merges.sources(each) for each in wanted]
        readings = piece_readings(ranges, sources, num_returns)
        yield from run_readings(tasks, readings, plan, self.speculation)


class _Layout:
    """The place and the order of maps: stripes are dealt out to the nodes, and all nodes get maps from the start."""

    def __init__(self, num_maps: int, names: Sequence[str], policy: MergePolicy) -> None:
        self._names = names
        self._length = length = policy.stripe_length(num_maps, len(names))
        self.stripes = [
            range(start, min(start + length, num_maps)) for start in range(0, num_maps, length)
        ]
        width = length * len(names)
        self.order = sorted(range(num_maps), key=lambda index: (index // width, index % length))

    def stripe(self, index: int) -> int:
        return index // self._length

    def node(self, index: int) -> str:
        return self._names[self.stripe(index) % len(self._names)]


def _planned_bytes(basis: Basis) -> int:
    """Returns the memory for the merges that run at once on a node; enough for two outputs at least."""
    resources = basis.resources
    share = resources.budget_bytes * MERGE_MEMORY_PERCENT // (100 * resources.num_nodes)
    return max(share, merge_memory([basis.sizes.split_bytes] * 2))


def _memory_bytes(options: MergeOptions, plan: ShufflePlan) -> int:
    if options.memory_limit_bytes is not None:
        return options.memory_limit_bytes
    if plan.merge_memory_bytes:
        return plan.merge_memory_bytes
    share = current_engine().budget_bytes * MERGE_MEMORY_PERCENT // 100
    return max(share, merge_memory([plan.split_bytes] * 2))
