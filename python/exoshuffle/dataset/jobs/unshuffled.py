"""Jobs without a shuffle of their own: a scan of the input, and steps or a limit behind another job.

Guarantee: parts come in the order of the input. A limit runs no more of the other job than it needs, and a few parts
ahead.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.jobs.following import bounded, in_advance
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.futures import Engine, Ref, RefStream, SliceRef, Value, get, remote
from exoshuffle.futures.options import Executor
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.at_once import ROWS_SHARE
from exoshuffle.operators.core.inputs import MapInput
from exoshuffle.operators.core.order import ByKeys
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.sinks import BlocksSink, SteppedSink
from exoshuffle.operators.core.streams import as_reader, own_errors
from exoshuffle.operators.steps.cast import Cast
from exoshuffle.operators.steps.columns import Filter, Rename, Select, WithColumns
from exoshuffle.operators.steps.first import First, Leading
from exoshuffle.operators.steps.nulls import FillNull
from exoshuffle.operators.steps.step import Step, executor_of, functions_bytes
from exoshuffle.plan.memory import USABLE_PERCENT
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import BUFFER_BYTES, Workload, buffer_bytes, table_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: Bounds of the bytes that a task of a scan reads.
MAX_SCAN_BYTES = 32_000_000
MIN_SCAN_BYTES = 1_000_000
#: This part of a CPU's share of the budget is read at once.
SCAN_PART = 8
#: A part that should have a page has this share more, as row groups have a little beside their pages.
_PAGE_PERCENT = 105
#: Behind these steps a part may be as large as a page, because they hold no more than a batch. Smaller parts decode the
#: page again. Those of DuckDB have 100 MB: 17 parts of 240,000 lines took 3.0 s of CPU, and 6 take 1.9. Parts of two
#: pages took 1.5, but had 845 MB resident within 700. A page of 100 MB that is packed to a fifth took 0.45 s in three
#: parts, and takes 0.27 in one.
_STREAMING = (Select, WithColumns, Filter, Rename, Cast, FillNull)


@dataclass
class ScanJob:
    """Reads in order and hands every item to the sink, without any shuffle.

    Attributes:
        inputs: The inputs.
        schema: Schema of the rows.
        engine: The engine that runs it.
        steps: The steps of the maps of an operator, behind those of the inputs.
        first_item: Number of the first item that is read, among those of all inputs.
    """

    inputs: Sequence[Input]
    schema: pa.Schema
    engine: Engine
    steps: tuple[Step, ...] = ()
    plan: ShufflePlan | None = None
    first_item: int = 0

    def task_memory_bytes(
        self, executor: Executor, row_copies: int | None = None, behind: Sequence[Step] = ()
    ) -> int:
        """Returns the working memory of a task on this executor.

        It includes the memory of decoding, and the memory that functions on the way declare.

        Args:
            executor: The executor of the task.
            row_copies: The most copies of a large row in what takes the rows; None if unknown.
            behind: The steps of the sink, without the memory that their functions declare.
        """
        side = replace(self._side, row_copies=row_copies)
        decoding = max((source.decoding_bytes(side) for source in self.inputs), default=0)
        columns = buffer_bytes(len(self.schema)) - BUFFER_BYTES
        declared = max((functions_bytes(source.steps) for source in self.inputs), default=0)
        pieces = task_memory_bytes(self.engine, executor)
        # The steps of maps aggregate many rows at once, or choose among them.
        at_once = self.engine.budget_bytes // (ROWS_SHARE * self.engine.num_cpus)
        memory = pieces + decoding + columns + declared + (at_once if self.steps else 0)
        if not behind and not self.steps and not any(source.steps for source in self.inputs):
            return memory
        # Where there is no room for the tables of many columns beside the rest, one task runs at a time.
        return min(memory + table_bytes(len(self.schema)), max(memory, usable_bytes(self.engine)))

    @property
    def num_tasks(self) -> int:
        """The number of tasks: one for each item."""
        return sum(map(len, self.items))

    @cached_property
    def items(self) -> list[list[object]]:
        """The items that the tasks read, input by input."""
        unknown = Workload(0, 0)
        return [source.cut(self._side, self._part_bytes(source), unknown) for source in self.inputs]

    def _part_bytes(self, source: Input) -> int:
        """Returns the bytes that a task reads of an input: those of a page at least, where rows stream on."""
        size = piece_bytes(self.engine)
        if not all(isinstance(step, _STREAMING) for step in (*source.steps, *self.steps)):
            return size
        return max(size, source.page_bytes(self._side) * _PAGE_PERCENT // 100)

    @property
    def _side(self) -> Side:
        return Side(self.schema, ByKeys(), self.steps)

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``."""
        steps = [step for source in self.inputs for step in source.steps]
        executor = executor_of("thread", (*steps, *sink.all_steps))
        declared = functions_bytes(sink.all_steps)
        memory = self.task_memory_bytes(executor, sink.row_copies, sink.all_steps) + declared
        index = 0
        for source, items in zip(self.inputs, self.items, strict=True):
            map_input = source.map_input(replace(self._side, row_copies=sink.row_copies))
            # As code, a function that closes over too much is refused before it is copied, and is pickled once.
            run = remote(
                functools.partial(scan, map_input, sink),
                num_returns=sink.num_returns,
                memory=memory,
                name="scan",
                executor=executor,
            )
            for item in items:
                if index >= self.first_item:
                    yield run.remote(index, item)
                index += 1


@dataclass
class SteppedJob:
    """Another job, and steps behind it.

    Attributes:
        job: The other job.
        steps: Applied to its rows.
    """

    job: Job
    steps: tuple[Step, ...]

    @property
    def plan(self) -> ShufflePlan | None:
        """See ``Job``."""
        return self.job.plan

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``."""
        return self.job.run(SteppedSink(self.steps, sink))


@dataclass
class LimitJob:
    """The first rows of another job; runs no more of it than needed, and a few parts ahead.

    Attributes:
        job: The other job.
        count: Number of rows.
        engine: The engine that runs it; makes as many parts ahead as it has CPUs, while earlier parts are counted.
    """

    job: Job
    count: int
    engine: Engine
    plan: ShufflePlan | None = None

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``."""
        executor = executor_of("thread", sink.all_steps)
        run = remote(
            functools.partial(rewrite, sink),
            num_returns=sink.num_returns,
            memory=task_memory_bytes(self.engine, executor) + functions_bytes(sink.all_steps),
            name="limit",
            executor=executor,
        )
        for index, (ref, rows) in enumerate(self._blocks()):
            yield run.remote(index, ref, rows)

    def _blocks(self) -> Iterator[tuple[Ref | SliceRef, int]]:
        """Yields blocks, each with the number of its rows that are wanted."""
        # Rows are counted where they lie, which takes no memory.
        run_count = remote(count_rows, name="count", executor="thread")
        ahead, sink = self.engine.num_cpus, BlocksSink(piece_bytes(self.engine))
        left = self.count
        # A part of a join may have far more rows than are wanted, and than memory has room for.
        first = Leading if isinstance(self.job, ScanJob) else First
        streams = self.job.run(SteppedSink((first(self.count),), sink))
        blocks = (ref for stream in in_advance(bounded(streams, sink), ahead) for ref in stream)
        parts = ((ref, run_count.remote(ref)) for ref in blocks)
        for ref, counted in in_advance(parts, ahead):
            rows = min(get(counted), left)
            yield ref, rows
            left -= rows
            if left <= 0:
                return


def piece_bytes(engine: Engine) -> int:
    """Returns the number of bytes that a task of a scan reads."""
    num_bytes = engine.budget_bytes // (SCAN_PART * engine.num_cpus)
    return min(MAX_SCAN_BYTES, max(MIN_SCAN_BYTES, num_bytes))


def usable_bytes(engine: Engine) -> int:
    """Returns the bytes that the rows of all sides and of tasks may take together."""
    return engine.budget_bytes * USABLE_PERCENT // 100


def task_memory_bytes(engine: Engine, executor: Executor) -> int:
    """Returns the working memory of a task that hands a piece to a sink.

    A worker process has buffers and allocators of its own: without room for them, functions before a limit peaked at
    363 MB within 300. Where that much is scarce, fewer tasks run at once, so that their results have room.
    """
    pieces = 2 * piece_bytes(engine)
    if executor == "thread":
        return pieces
    needed = pieces + BUFFER_BYTES
    room = engine.budget_bytes - engine.workers_bytes(executor)
    at_once = max(1, (room - engine.num_cpus * pieces) // needed)
    return needed if at_once >= engine.num_cpus else max(pieces, room // (at_once + 1) + 1)


def scan(map_input: MapInput, sink: Sink, index: int, item: Value) -> object:
    """Task: applies the steps to an item, and hands its rows to a sink."""
    return handed(sink, _scanned(map_input, index, item, sink))


def _scanned(map_input: MapInput, index: int, item: Value, sink: Sink) -> Iterator[object]:
    with own_errors():
        yield from sink(index, map_input.rows(index, item))


def count_rows(block: Buffer) -> int:
    """Task: returns the number of rows of a block."""
    return sum(batch.num_rows for batch in as_reader(_native.Rows.from_ipc(block)))


def rewrite(sink: Sink, index: int, block: Buffer, num_rows: int) -> object:
    """Task: hands the first rows of a block to a sink."""
    return handed(sink, _rewritten(index, block, num_rows, sink))


def _rewritten(index: int, block: Buffer, num_rows: int, sink: Sink) -> Iterator[object]:
    import pyarrow as pa

    reader = as_reader(_native.Rows.from_ipc(block))
    first = pa.Table.from_batches(reader, reader.schema).slice(0, num_rows)
    with own_errors():
        yield from sink(index, _native.Rows.from_batches(first))
