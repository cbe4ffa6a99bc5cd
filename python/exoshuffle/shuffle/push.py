"""The push strategy: maps in rounds; while the maps of round k run, the outputs of round k-1 are merged.

Source: Exoshuffle §3.2.3 and §3.3, listing 3. Two variants, which differ in one reference:

* ``keep_map_outputs=False`` (default), the papers' ES-push* (Cosco): the map outputs of a round are dropped once
  merged, so that with rounds that fit into memory only merged blocks are ever written to disk. A lost merged block
  costs its maps again.
* ``keep_map_outputs=True``, ES-push (Magnet): map outputs stay, are spilled too, and a lost merge is cheap to repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from exoshuffle.errors import OptionsError
from exoshuffle.futures import Ref, Refs, raise_errors, wait
from exoshuffle.shuffle.plan import ShufflePlan
from exoshuffle.shuffle.reduces import run_reduces
from exoshuffle.shuffle.sizes import block_sizes
from exoshuffle.shuffle.speculation import Speculation, run_all
from exoshuffle.shuffle.strategy import TaskSet, stage


class Push:
    """Exoshuffle's pipelined two-stage shuffle.

    Args:
        keep_map_outputs: Keep map outputs until the shuffle is over.
        merge_bytes: A merge takes blocks of so many bytes together at most, and ``plan.merge_factor`` of them, so
            that skewed maps do not make merges that memory is too small for (Wang's dissertation, §4.1.5.2). A block
            that finds no other goes to the reduces as it is. Blocks are measured for it, for which the maps of a
            round are awaited. Default: no limit.
        speculation: Copies of slow maps; default: none. With it, too, the maps of a round are awaited.

    Raises:
        OptionsError: ``merge_bytes`` below 1.
    """

    steps: ClassVar[tuple[str, ...]] = ("map", "merge", "reduce")

    def __init__(
        self,
        keep_map_outputs: bool = False,
        merge_bytes: int | None = None,
        speculation: Speculation | None = None,
    ) -> None:
        if merge_bytes is not None and merge_bytes < 1:
            raise OptionsError(f"merge_bytes is {merge_bytes}; it must be at least 1")
        self.keep_map_outputs = keep_map_outputs
        self.merge_bytes = merge_bytes
        self.speculation = speculation

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        run_map = stage(tasks, "map", num_returns=plan.num_partitions, memory=plan.map_memory_bytes)
        run_merge = stage(tasks, "merge", num_returns=plan.num_partitions)

        def submit(index: int) -> Ref:
            ref: Ref = run_map.remote(index, splits[index])
            return ref

        merged: list[Ref] = []
        num_merged: list[int] = []
        kept: list[Ref] = []
        merging: list[Ref] = []
        for start in range(0, len(splits), plan.round_size):
            stop = min(start + plan.round_size, len(splits))
            mapped = run_all(submit, range(start, stop), self.speculation)
            wait(merging, num_ready=len(merging))
            raise_errors(merging)
            groups = self._groups(mapped, plan.merge_factor)
            merging = [
                run_merge.remote(*group) if self.merge_bytes is None or group[1:] else group[0]
                for group in groups
            ]
            merged += merging
            num_merged += map(len, groups)
            if self.keep_map_outputs:
                kept += mapped
            del mapped, groups
        blocks = Refs(merged)
        yield from run_reduces(tasks, blocks, plan, num_merged)

    def _groups(self, blocks: list[Ref], merge_factor: int) -> list[list[Ref]]:
        """What is merged with what."""
        if self.merge_bytes is None:
            return [
                blocks[first : first + merge_factor]
                for first in range(0, len(blocks), merge_factor)
            ]
        groups: list[list[Ref]] = []
        room = 0
        for block, size in zip(blocks, block_sizes(blocks), strict=True):
            if not groups or size > room or len(groups[-1]) == merge_factor:
                groups.append([])
                room = self.merge_bytes
            groups[-1].append(block)
            room -= size
        return groups
