"""The push strategy: maps in rounds; while the maps of round k run, the outputs of round k-1 are merged.

Source: Exoshuffle §3.2.3 and §3.3, listing 3. Two variants, which differ in one reference:

* ``keep_map_outputs=False`` (default), the papers' ES-push* (Cosco): the map outputs of a round are dropped once
  merged. So with rounds that fit into memory only merged blocks are ever written to disk. If a merged block is lost,
  its maps run again.
* ``keep_map_outputs=True``, ES-push (Magnet): map outputs stay, and are spilled too. So reduces read the inputs of a
  merge that fails, comes late or is lost, as in ``pre_shuffle_merge`` (``merges``). Every map output reaches every
  reduce once, in the order of the maps, by itself or within a merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from exoshuffle.arguments import check_flag, check_instance
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Ref, Refs, RemoteFunction, raise_errors, slice_bytes, wait
from exoshuffle.plan.candidate import Basis, Candidate, merge_factors
from exoshuffle.plan.grouping import neighbours
from exoshuffle.plan.memory import ROUND_BLOCKS
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import ceil_div
from exoshuffle.strategies.mechanisms.best_effort import BestEffort
from exoshuffle.strategies.mechanisms.merges import Group, Output
from exoshuffle.strategies.mechanisms.reduces import run_reduces
from exoshuffle.strategies.mechanisms.speculation import Speculation, check_speculation, run_all
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
        speculation: Copies of slow maps; default: none. With it, too, the maps of a round are awaited.
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
        return [
            _candidate(basis, factor, copies) for factor in merge_factors(most, sizes.num_splits)
        ]

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        run_map = stage(tasks, "map", num_returns=plan.num_partitions, memory=plan.map_memory_bytes)
        run_merge = stage(tasks, "merge", num_returns=plan.num_partitions)

        def submit(index: int) -> Ref:
            ref: Ref = run_map.remote(index, splits[index])
            return ref

        groups: list[Group] = []
        merging: list[Group] = []
        for start in range(0, len(splits), plan.round_size):
            indices = range(start, min(start + plan.round_size, len(splits)))
            mapped = run_all(submit, indices, self.speculation)
            self._finish(merging)
            merging = self._groups(mapped, start, plan.merge_factor)
            self._merge(merging, run_merge)
            groups += merging
            del mapped
        if self.keep_map_outputs:
            self._finish(merging)

        # ``groups`` keeps blocks until this function ends.
        sources = [source for group in groups for source in group.sources()]
        blocks = Refs(block for block, _ in sources)
        yield from run_reduces(tasks, blocks, plan, [num_maps for _, num_maps in sources])

    def _merge(self, groups: list[Group], run_merge: RemoteFunction) -> None:
        for group in groups:
            if self.merge_bytes is None or len(group.outputs) > 1:
                group.merged = run_merge.remote(*(output.block for output in group.outputs))
            if not self.keep_map_outputs:
                group.drop_inputs()

    def _finish(self, groups: list[Group]) -> None:
        """Waits for the merges of a round, or for as many as are worth it.

        Raises:
            TaskError: A map has failed; or a merge has failed, and nothing can take its place.
        """
        merges = [group.merged for group in groups if group.merged is not None]
        kept = [output.block for group in groups for output in group.outputs]
        wait(kept, num_ready=len(kept))
        raise_errors(kept)
        self.best_effort.finish(merges)
        if not self.keep_map_outputs:
            raise_errors(merges)

    def _groups(self, blocks: list[Ref], start: int, merge_factor: int) -> list[Group]:
        """Groups the blocks to be merged together; ``start`` is the number of the first map."""
        limit = self.merge_bytes
        sizes = [0] * len(blocks) if limit is None else [sum(each) for each in slice_bytes(blocks)]
        outputs = [
            Output(index, block, num_bytes=size)
            for index, (block, size) in enumerate(zip(blocks, sizes, strict=True), start)
        ]
        groups = neighbours(sizes, limit or 0, merge_factor)
        return [Group(outputs[group.start : group.stop]) for group in groups]


def _candidate(basis: Basis, factor: int, copies: int) -> Candidate:
    """Returns a candidate with rounds of so many maps, each of which becomes one block."""
    total, num_merges = basis.total_bytes, ceil_div(basis.num_splits, factor)
    return Candidate(
        num_slices=num_merges * basis.num_partitions,
        round_size=factor,
        merge_factor=factor,
        num_merges=num_merges,
        num_copies=copies,
        blocks_at_once=ROUND_BLOCKS * factor,
        merged_bytes=total,
        tail_bytes=min(total, factor * basis.sizes.split_bytes),
        moved_again_bytes=total,
    )
