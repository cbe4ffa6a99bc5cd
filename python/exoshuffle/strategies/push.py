"""The push strategy: maps in rounds; while the maps of round k run, the outputs of round k-1 are merged.

Source: Exoshuffle §3.2.3 and §3.3, listing 3; for several nodes Luan's dissertation, listing 7 and §4.1.3. There each
node has a range of the partitions, and a *merger*. This takes that range of each map output, merges some of them at a
time, and keeps the results for the reduces of its node. So all rows are pushed to the node that reduces them while maps
run, and reduces read what lies with them. On one node there is one merger, of all partitions.

A round is submitted when the merges of the round before the last are done, on all nodes. So a merger that is behind
holds up all maps, since each of them has rows for it.

Two variants, which differ in one reference:

* ``keep_map_outputs=False`` (default), the papers' ES-push* (Cosco): the map outputs of a round are dropped once
  merged. So with rounds that fit into memory only merged blocks are ever written to disk. If a merged block is lost,
  its maps run again.
* ``keep_map_outputs=True``, ES-push (Magnet): map outputs stay, and are spilled too. So reduces read the inputs of a
  merge that fails, comes late or is lost, as in ``pre_shuffle_merge`` (``merges``). Every map output reaches every
  reduce once, in the order of the maps, by itself or within a merge.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import ClassVar

from exoshuffle.arguments import check_flag, check_instance
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Ref, raise_errors, slice_bytes, wait
from exoshuffle.plan.candidate import Basis, Candidate, merge_factors
from exoshuffle.plan.memory import ROUND_BLOCKS
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Resources, ceil_div
from exoshuffle.strategies.mechanisms.best_effort import BestEffort
from exoshuffle.strategies.mechanisms.copies import Copied
from exoshuffle.strategies.mechanisms.groups import Group
from exoshuffle.strategies.mechanisms.in_flight import run_all
from exoshuffle.strategies.mechanisms.mergers import Merger
from exoshuffle.strategies.mechanisms.node_ranges import NodeRange, cuts, node_ranges
from exoshuffle.strategies.mechanisms.reduces import run_readings
from exoshuffle.strategies.mechanisms.speculation import Speculation, check_speculation
from exoshuffle.strategies.strategy import PlannedStrategy
from exoshuffle.strategies.task_set import TaskSet, stage
from exoshuffle.units import option_bytes


class Push(PlannedStrategy):
    """Exoshuffle's pipelined two-stage shuffle.

    Args:
        keep_map_outputs: Keep map outputs until the shuffle is over.
        merge_bytes: A merge takes blocks of at most so many bytes (or ``"100MB"``) together, and at most
            ``plan.merge_factor`` of them. So skewed maps do not make merges that are too large for memory (Wang's
            dissertation, §4.1.5.2). A block that finds no other goes to the reduces as it is. To measure blocks, the
            maps of a round are awaited. Default: no limit.
        speculation: Copies of slow maps and reduces; default: none. With it the maps of a round are awaited. Merges
            have copies, too, unless map outputs are kept, which take the place of late ones (``best_effort``).
        best_effort: Applies to the merges of each round when the next round's are due; only with ``keep_map_outputs``.
            Default: all are awaited, and only failed and lost ones are replaced.

    Raises:
        OptionsError: A value cannot work, or ``best_effort`` comes without the inputs that it falls back on.
    """

    name = "push"
    steps: ClassVar[tuple[str, ...]] = ("map", "merge", "reduce")

    def __init__(
        self,
        keep_map_outputs: bool = False,
        merge_bytes: int | str | None = None,
        speculation: Speculation | None = None,
        best_effort: BestEffort | None = None,
    ) -> None:
        check_flag("keep_map_outputs", keep_map_outputs)
        check_speculation(speculation)
        if best_effort is not None:
            check_instance("best_effort", best_effort, BestEffort)
        if best_effort is not None and not keep_map_outputs:
            raise OptionsError(
                f"best_effort is {best_effort}, and without map outputs nothing can take the place of a merge; "
                "add keep_map_outputs=True"
            )
        self.keep_map_outputs = keep_map_outputs
        self.merge_bytes = None if merge_bytes is None else option_bytes("merge_bytes", merge_bytes)
        self.speculation = speculation
        self.best_effort = best_effort or BestEffort()

    def candidates(self, basis: Basis) -> list[Candidate]:
        """See ``PlannedStrategy``; returns one for each number of blocks that memory allows to merge at once."""
        sizes = basis.sizes
        left = sizes.usable_bytes - basis.resources.num_cpus * sizes.map_memory_bytes
        most = left // (ROUND_BLOCKS * sizes.split_bytes)
        # Map outputs that are kept are spilled beside the merges.
        copies = 2 if self.keep_map_outputs else 1
        nodes = basis.resources.num_nodes
        # Each CPU of a node should have a merge of each round.
        at_once = max(1, basis.resources.num_cpus // nodes)
        factors = merge_factors(most, sizes.num_splits, nodes, at_once)
        return [_candidate(basis, factor, most, copies) for factor in factors]

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        ranges = node_ranges(plan.num_partitions)
        elsewhere = [where.node for where in (*ranges[1:], ranges[0])]
        mergers = list(map(functools.partial(Merger, tasks), ranges, elsewhere))
        memory, num_returns = plan.map_memory_bytes, plan.num_partitions
        run_map = stage(
            tasks,
            "map",
            memory=memory,
            num_returns=num_returns,
            cuts=self._cuts(ranges),
            tells_begin=self.speculation is not None,
        )

        def submit(index: int) -> Ref:
            ref: Ref = run_map.remote(index, splits[index])
            return ref

        def submit_copy(index: int, node: str | None) -> Ref:
            ref: Ref = run_map.options(node=node).remote(index, splits[index])
            return ref

        merging: list[Group] = []
        copied = (
            None if self.speculation is None or self.keep_map_outputs else Copied(self.speculation)
        )
        for start in range(0, len(splits), plan.round_size):
            indices = range(start, min(start + plan.round_size, len(splits)))
            meanwhile = copied.poll if copied else tuple
            mapped = run_all(submit, indices, self.speculation, submit_copy, meanwhile)
            self._finish(merging, copied)
            merging = self._merge(mapped, start, mergers, plan, copied)
            del mapped
        if self.keep_map_outputs or copied:
            self._finish(merging, copied)

        # ``mergers`` keep blocks until this function ends.
        readings = [merger.reading() for merger in mergers]
        yield from run_readings(tasks, readings, plan, self.speculation)

    def _cuts(self, ranges: Sequence[NodeRange]) -> tuple[int, ...] | None:
        """Returns where to cut map outputs: merges take all of a range, and on one node the whole of them.

        Where reduces may read some of them, one node leaves it to the engine.
        """
        are_read = self.keep_map_outputs or self.merge_bytes is not None
        return None if are_read and len(ranges) < 2 else cuts(ranges)

    def _merge(
        self,
        blocks: list[Ref],
        start: int,
        mergers: Sequence[Merger],
        plan: ShufflePlan,
        copied: Copied | None,
    ) -> list[Group]:
        """Submits the merges of a round, whose first map is ``start``; returns the groups of all mergers."""
        sizes = None if self.merge_bytes is None else slice_bytes(blocks)
        found: list[Group] = []
        for merger in mergers:
            for group in merger.groups_of(
                blocks, start, sizes, self.merge_bytes, plan.merge_factor
            ):
                if self.merge_bytes is None or len(group.outputs) > 1:
                    merger.merge(group, copied)
                if not self.keep_map_outputs and copied is None:
                    group.drop_inputs()
                found.append(group)
        return found

    def _finish(self, groups: list[Group], copied: Copied | None) -> None:
        """Waits for the merges of a round, or for as many as are worth it.

        Raises:
            TaskError: A map has failed; or a merge has failed, and nothing can take its place.
        """
        merges = [group.merged for group in groups if group.merged is not None]
        kept = [output.block for group in groups for output in group.outputs]
        wait(kept, num_ready=len(kept))
        raise_errors(kept)
        if copied is not None:
            copied.finish()
            return
        self.best_effort.finish(merges)
        if not self.keep_map_outputs:
            raise_errors(merges)


def _candidate(basis: Basis, factor: int, most: int, copies: int) -> Candidate:
    """Returns a candidate that merges so many blocks at a time, in rounds of at most ``most``."""
    total, resources = basis.total_bytes, basis.resources
    num_nodes = resources.num_nodes
    num_merges = ceil_div(basis.num_splits, factor)
    round_size = min(most // factor, _merges_of_round(factor, resources)) * factor
    return Candidate(
        num_slices=num_merges * basis.num_partitions,
        round_size=round_size,
        merge_factor=factor,
        num_merges=num_merges * num_nodes,
        num_copies=copies,
        blocks_at_once=ROUND_BLOCKS * round_size,
        merged_bytes=total,
        tail_bytes=min(total, factor * basis.sizes.split_bytes) // num_nodes,
        moved_again_bytes=total,
        local_bytes=total if num_nodes > 1 else 0,
    )


def _merges_of_round(factor: int, resources: Resources) -> int:
    """Returns how many merges of each node make a round wide enough: one map for each CPU of the cluster.

    On several nodes it is also a merge for each CPU: mergers then work as fast as maps. On one node fewer merges are
    larger ones, beside as many maps.
    """
    for_maps = ceil_div(resources.num_cpus, factor)
    if resources.num_nodes == 1:
        return for_maps
    return max(for_maps, resources.num_cpus // resources.num_nodes)
