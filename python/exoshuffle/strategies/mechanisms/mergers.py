"""The mergers of ``push``: each takes one node's range of partitions from the map outputs, and merges it there."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from exoshuffle.futures import Ref, Refs
from exoshuffle.plan.grouping import neighbours
from exoshuffle.strategies.mechanisms.copies import Copied
from exoshuffle.strategies.mechanisms.groups import Group, Output
from exoshuffle.strategies.mechanisms.node_ranges import NodeRange, Reading
from exoshuffle.strategies.task_set import TaskSet, stage


class Merger:
    """The merges of a node: they take its range of partitions, and run there; copies of slow ones run elsewhere."""

    def __init__(self, tasks: TaskSet, where: NodeRange, elsewhere: str | None) -> None:
        self._where = where
        self._elsewhere = elsewhere
        count = len(where.partitions)
        self._run = stage(tasks, "merge", num_returns=count, node=where.node)
        self._run_copied = self._run.options(tells_begin=True)
        self._groups: list[Group] = []

    def groups_of(
        self,
        blocks: Sequence[Ref],
        start: int,
        sizes: Sequence[Sequence[int]] | None,
        limit: int | None,
        merge_factor: int,
    ) -> list[Group]:
        """Groups the outputs of a round to be merged together.

        Args:
            blocks: The outputs.
            start: The number of the first map.
            sizes: Bytes of the slices of each, if groups are limited by bytes.
            limit: The most bytes of the range in a group.
            merge_factor: The most outputs in a group.
        """
        mine = self._where.partitions
        num_bytes = [0] * len(blocks)
        if sizes is not None:
            num_bytes = [sum(each[mine.start : mine.stop]) for each in sizes]
        outputs = [
            Output(index, block, num_bytes=size)
            for index, (block, size) in enumerate(zip(blocks, num_bytes, strict=True), start)
        ]
        groups = [
            Group(outputs[group.start : group.stop], None if self._where.is_all else mine)
            for group in neighbours(num_bytes, limit or 0, merge_factor)
        ]
        self._groups += groups
        return groups

    def merge(self, group: Group, copied: Copied | None) -> None:
        """Submits the merge of a group, with a copy if it is slow; the inputs are dropped when that race is over."""
        pieces = group.inputs
        run = self._run if copied is None else self._run_copied
        group.merged = run.remote(*pieces)
        if copied is not None:

            def submit_copy(node: str | None) -> Ref:
                ref: Ref = self._run.options(node=node or self._elsewhere).remote(*pieces)
                return ref

            copied.add(group.merged, submit_copy, functools.partial(_keep, group))

    def reading(self) -> Reading:
        """Returns what the reduces of the node read."""
        sources = [source for group in self._groups for source in group.sources()]
        blocks = Refs((source.block for source in sources), (source.first for source in sources))
        return Reading(self._where, blocks, [source.num_maps for source in sources])


def _keep(group: Group, merged: Ref) -> None:
    """Keeps the merge that was first to succeed, and no input."""
    group.merged = merged
    group.drop_inputs()
