"""Blocks as an input: those that an earlier shuffle made, or those that it will make."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.inputs import WithoutFiles, by_bytes, evenly, numbers_rows
from exoshuffle.dataset.inputs.weighing import MEASURED_STRETCHES, sampled, together, weighed
from exoshuffle.futures import Ref, Refs, Value, current_engine, slice_bytes
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.inputs import BatchInput, MapInput
from exoshuffle.operators.core.order import ByKeys
from exoshuffle.operators.core.readers import BlockReader
from exoshuffle.operators.core.shuffle import Side, rows_config
from exoshuffle.operators.steps.step import Step
from exoshuffle.plan.grouping import neighbours
from exoshuffle.plan.workload import Workload, ceil_div

if TYPE_CHECKING:
    import pyarrow as pa

#: Memory for weighing a block, beside the block and in its sizes: its rows after the steps, and as they travel.
WEIGHED_COPIES = 3
#: Most blocks that a map reads: each is an argument, and engines do not cope well with thousands of arguments.
MAX_TOGETHER = 256


@dataclass(frozen=True)
class BlockInput(WithoutFiles):
    """Blocks in the store, with steps on the way: of an earlier shuffle, or of rows that the program gave.

    Attributes:
        refs: References to Arrow IPC streams.
        steps: Applied to the rows as they are read, before the steps of the shuffle.
        known_rows: Number of rows before the steps, if the program gave them.
    """

    refs: tuple[Ref, ...]
    steps: tuple[Step, ...] = ()
    known_rows: int | None = None
    is_held = True

    @property
    def likely_bytes(self) -> int:
        """See ``Input``."""
        return self.told_bytes

    @property
    def told_bytes(self) -> int:
        """See ``Input``."""
        return sum(map(sum, slice_bytes(self.refs)))

    def most(self, schema: pa.Schema) -> Workload | None:
        """See ``Input``."""
        measured = self.measure(Side(schema, ByKeys()))
        return Workload(measured.total_bytes, measured.num_rows)

    def read_bytes(self, side: Side) -> int:
        """See ``Input``: blocks are read whole."""
        del side
        return self.told_bytes

    def measure(self, side: Side) -> Workload:
        """See ``Input``."""
        chosen = evenly(list(self.refs), MEASURED_STRETCHES)
        if not chosen:
            return Workload(0, 0)
        share = len(self.refs) / len(chosen)
        engine = current_engine()
        most = max(sum(sizes) for sizes in slice_bytes(chosen))
        memory = min(WEIGHED_COPIES * most, engine.budget_bytes // (2 * engine.num_cpus))
        measured = weighed(self.map_input(side), chosen, share, memory)
        largest = max(work.total_bytes for work in measured)
        return dataclasses.replace(together(measured), max_item_bytes=int(largest / share))

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Value]:
        """See ``Input``; several blocks of an item are in the order of the input, and so are their rows.

        Where rows are numbered, they are known by their block, so each block is an item by itself.
        """
        if not workload.total_bytes or numbers_rows(self.steps, side):
            return list(self.refs)
        sizes = [sum(each) for each in slice_bytes(self.refs)]
        # A map holds its blocks, beside the rows that it makes of them.
        target = split_bytes * sum(sizes) // max(workload.total_bytes, sum(sizes))
        return [
            Refs(self.refs[i] for i in group) if len(group) > 1 else self.refs[group[0]]
            for group in neighbours(sizes, target, MAX_TOGETHER)
        ]

    def decoding_bytes(self, side: Side) -> int:
        """See ``Input``: blocks are read where they lie."""
        del side
        return 0

    def num_rows(self, items: Sequence[Value], workload: Workload) -> list[float]:
        """See ``Input``."""
        blocks = [tuple(item) if isinstance(item, Refs) else (item,) for item in items]
        sizes = [sum(map(sum, slice_bytes(each))) for each in blocks]
        return by_bytes(sizes, workload)

    def map_input(self, side: Side) -> MapInput:
        """See ``Input``."""
        return BatchInput(
            BlockReader(), self.steps + side.steps, rows_config(side.schema, side.order), side.tag
        )

    def sample(
        self, side: Side, items: Sequence[tuple[int, object]], num_rows: Sequence[int]
    ) -> list[Ref]:
        """See ``Input``."""
        return sampled(self.map_input(side), items, num_rows)


@dataclass(frozen=True)
class UnmadeInput(WithoutFiles):
    """The result of a shuffle that has not run.

    Attributes:
        workload: Its estimated size.
        num_blocks: The number of its partitions.
        steps: Steps behind it.
    """

    workload: Workload
    num_blocks: int
    steps: tuple[Step, ...] = ()
    is_held = True
    #: Nobody knows before it is made.
    likely_bytes = 0
    refs = ()

    @property
    def told_bytes(self) -> int:
        """See ``Input``."""
        return self.workload.total_bytes

    def most(self, schema: pa.Schema) -> Workload | None:
        """See ``Input``."""
        del schema
        return None

    def read_bytes(self, side: Side) -> int:
        """See ``Input``."""
        return self.measure(side).total_bytes

    def measure(self, side: Side) -> Workload:
        """See ``Input``."""
        del side
        return self.workload

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Value]:
        """See ``Input``."""
        if not workload.total_bytes or numbers_rows(self.steps, side):
            return [None] * self.num_blocks
        sizes = [ceil_div(workload.total_bytes, self.num_blocks)] * self.num_blocks
        return [None for _ in neighbours(sizes, split_bytes, MAX_TOGETHER)]

    def decoding_bytes(self, side: Side) -> int:
        """See ``Input``."""
        del side
        return 0

    def num_rows(self, items: Sequence[Value], workload: Workload) -> list[float]:
        """See ``Input``."""
        return by_bytes([1] * len(items), workload)

    def map_input(self, side: Side) -> MapInput:
        """See ``Input``."""
        return BatchInput(BlockReader(), self.steps, rows_config(side.schema, side.order))

    def sample(
        self, side: Side, items: Sequence[tuple[int, object]], num_rows: Sequence[int]
    ) -> list[Ref]:
        """See ``Input``."""
        del side, items, num_rows
        return []
