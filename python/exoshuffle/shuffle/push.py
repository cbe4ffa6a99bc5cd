"""The push strategy: maps in rounds; while the maps of round k run, the outputs of round k-1 are merged.

Source: Exoshuffle §3.2.3 and §3.3, listing 3. Two variants, which differ in one reference:

* ``keep_map_outputs=False`` (default), the papers' ES-push* (Cosco): the map outputs of a round are dropped once
  merged, so that with rounds that fit into memory only merged blocks are ever written to disk. A lost merged block
  costs its maps again.
* ``keep_map_outputs=True``, ES-push (Magnet): map outputs stay, are spilled too, and a lost merge is cheap to repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from exoshuffle.futures import Ref, Refs, raise_errors, wait
from exoshuffle.shuffle.plan import ShufflePlan
from exoshuffle.shuffle.strategy import TaskSet, stage


class Push:
    """Exoshuffle's pipelined two-stage shuffle.

    Args:
        keep_map_outputs: Keep map outputs until the shuffle is over.
    """

    def __init__(self, keep_map_outputs: bool = False) -> None:
        self.keep_map_outputs = keep_map_outputs

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        run_map = stage(tasks, "map", num_returns=plan.num_partitions, memory=plan.map_memory_bytes)
        run_merge = stage(tasks, "merge", num_returns=plan.num_partitions)
        run_reduce = stage(tasks, "reduce", memory=plan.reduce_memory_bytes)

        merged: list[Ref] = []
        kept: list[Ref] = []
        merging: list[Ref] = []
        for start in range(0, len(splits), plan.round_size):
            stop = min(start + plan.round_size, len(splits))
            mapped = [run_map.remote(index, splits[index]) for index in range(start, stop)]
            wait(merging, num_ready=len(merging))
            raise_errors(merging)
            merging = [
                run_merge.remote(*mapped[first : first + plan.merge_factor])
                for first in range(0, len(mapped), plan.merge_factor)
            ]
            merged += merging
            if self.keep_map_outputs:
                kept += mapped
            del mapped
        blocks = Refs(merged)
        for partition in range(plan.num_partitions):
            yield run_reduce.remote(partition, blocks.column(partition))
