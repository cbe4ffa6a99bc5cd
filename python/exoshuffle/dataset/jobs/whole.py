"""The job of an operator whose rows fit into one task: nothing is shuffled, planned, sampled or dealt out.

The rows of each side go into the store, behind the steps that maps would apply to them. One task then finishes all of
them like the only partition of a shuffle, with the same code. So rows, types and the order of ties are the same.

Guarantee: sizes in the store decide, not estimates. If one task should not take so much, or DuckDB finds no memory for
it, the rows are shuffled from the store. So none is lost or given twice. They are read again only where the memory
limit is so low that a shuffle does not fit beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

from exoshuffle import _native
from exoshuffle.dataset.inputs.block_input import BlockInput
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.jobs.fitting import (
    finish_bytes,
    fits,
    is_sooner_whole,
    why_shuffled,
)
from exoshuffle.dataset.jobs.following import await_first, collected
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.unshuffled import ScanJob, piece_bytes, usable_bytes
from exoshuffle.dataset.tree.nodes import ShuffleOptions
from exoshuffle.errors import MemoryLimitError, OptionsError, TaskError
from exoshuffle.futures import (
    Engine,
    Ref,
    Refs,
    RefStream,
    remote,
    slice_bytes,
)
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.shuffle import Shuffle, Side, Whole
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.core.streams import as_reader, as_rows, own_errors
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Workload
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: Makes the job of a shuffle from inputs that are behind the steps of its sides; None if it does not fit.
FromStore: TypeAlias = Callable[[Shuffle, Sequence[tuple[Input, Side]]], "Job | None"]


@dataclass
class WholeJob:
    """An operator in one piece.

    Attributes:
        inputs: The inputs, each with the side of the shuffle that reads it.
        shuffle: The operator.
        engine: The engine that runs it.
        shuffled: Makes the job of the same operator from inputs in the store, if they are too large for one task. None
            if a shuffle does not fit beside them.
        again: Makes the job of the same operator from what the inputs read.
        estimated: The same operator as a shuffle, which measures its sizes for bills.
        is_forced: Whether the user asked for one piece, so that rows which are too large are an error.
    """

    inputs: Sequence[tuple[Input, Side]]
    shuffle: Shuffle
    engine: Engine
    shuffled: FromStore
    again: Callable[[], Job]
    estimated: ShuffleJob
    is_forced: bool = False
    plan: ShufflePlan | None = None

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``. Waits until the first result is there.

        Raises:
            MemoryLimitError: The user asked for one piece, and it has no room.
        """
        stored = [self._stored(side) for side in self.shuffle.sides]
        sizes = [sum(map(sum, slice_bytes(refs))) for refs in stored]
        if progress := self.estimated.progress:
            progress.begin(sum(sizes))
            progress.advance(sum(sizes) / 2)
        needed = finish_bytes(self.shuffle, sizes)
        if self.is_forced:
            self._check_room(sum(sizes), needed)
        part: Ref | RefStream | None = None
        if self.is_forced or fits(self.engine, sum(sizes), needed):
            part = self._finished(stored, needed, sink)
        if part is not None:
            if progress:
                progress.advance(sum(sizes) / 2)
            yield part
            return
        job = self._from_store(stored)
        del stored
        yield from (job or self.again()).run(sink)

    def scan(self, side: Side) -> ScanJob:
        """Returns the job that reads the rows of a side, as maps would send them."""
        inputs = [source for source, its in self.inputs if its.tag == side.tag]
        return SideScan(inputs, side.schema, self.engine, side.steps)

    def _stored(self, side: Side) -> list[Ref]:
        # The sink makes a stream of blocks of each part.
        sink = BlocksSink(piece_bytes(self.engine))
        streams = cast("Iterator[RefStream]", self.scan(side).run(sink))
        return collected(streams, self.engine.num_cpus)

    def _from_store(self, stored: Sequence[Sequence[Ref]]) -> Job | None:
        """Returns the job that shuffles the rows in the store, which are behind the steps of their sides."""
        sides = tuple(replace(side, steps=()) for side in self.shuffle.sides)
        shuffle = replace(self.shuffle, sides=sides, plain=None, combines=None, by_values=None)
        inputs = [(BlockInput(tuple(refs)), side) for refs, side in zip(stored, sides, strict=True)]
        return self.shuffled(shuffle, inputs)

    def _check_room(self, num_bytes: int, needed: int) -> None:
        usable = usable_bytes(self.engine)
        if num_bytes + needed > usable:
            limit = self.engine.memory_limit + (num_bytes + needed - usable) * 4 // 3
            raise MemoryLimitError(
                f"{self.shuffle.name} in one piece takes {format_bytes(num_bytes + needed)}, and the memory limit of "
                f"{format_bytes(self.engine.memory_limit)} leaves {format_bytes(usable)} for it; leave out strategy, "
                f"or raise memory_limit to {format_bytes(limit)}"
            )

    def _finished(
        self, stored: Sequence[Sequence[Ref]], needed: int, sink: Sink
    ) -> Ref | RefStream | None:
        """Returns the only part of the result; None if DuckDB found no memory before anything was handed over."""
        run = remote(
            finish_whole,
            num_returns=sink.num_returns,
            memory=needed,
            name=self.shuffle.name,
            executor="thread",
        )
        schemas = [side.schema.serialize().to_pybytes() for side in self.shuffle.sides]
        assert self.shuffle.whole is not None
        part = run.remote(self.shuffle.whole, schemas, sink, *map(Refs, stored))
        try:
            await_first(part)
        except TaskError as error:
            if self.is_forced or not isinstance(error.__cause__, MemoryLimitError):
                raise
            return None
        return part


@dataclass
class SideScan(ScanJob):
    """Reads a side of an operator; small neighbouring blocks together, as maps do."""

    @cached_property
    def items(self) -> list[list[object]]:
        """See ``ScanJob``."""
        size, known, unknown = piece_bytes(self.engine), Workload(1, 0), Workload(0, 0)
        return [
            source.cut(self._side, size, known if source.is_held else unknown)
            for source in self.inputs
        ]


def in_one_piece(
    job: ShuffleJob, options: ShuffleOptions, shuffled: FromStore, again: Callable[[], Job]
) -> WholeJob | None:
    """Returns the job that does in one piece what another would shuffle; None if that has to be.

    Args:
        job: The operator as a shuffle, not measured.
        options: The options that the user gave.
        shuffled: Makes the job of the same operator from inputs in the store; see ``WholeJob``.
        again: Makes the job of the same operator from what the inputs read.

    Raises:
        OptionsError: One piece was asked for, and this operator does not run in one.
    """
    why_not = why_shuffled(job, options)
    if not why_not:
        job = _uncombined(job)
        return WholeJob(job.inputs, job.shuffle, job.engine, shuffled, again, job, options.is_whole)
    if options.is_whole:
        raise OptionsError(
            f'strategy="whole" runs an operator without a shuffle, and {why_not}; leave out strategy'
        )
    return None


def _uncombined(job: ShuffleJob) -> ShuffleJob:
    """Returns the job, or the same whose maps do not combine rows, where these are few."""
    plain = job.shuffle.plain
    if plain is None or not is_sooner_whole(job):
        return job
    [side] = plain.sides
    return replace(job, inputs=[(source, side) for source, _ in job.inputs], shuffle=plain)


def finish_whole(
    whole: Whole, schemas: Sequence[bytes], sink: Sink, *sides: Sequence[Buffer]
) -> object:
    """Task: finishes all rows of an operator, which blocks have, and hands them to a sink."""
    return handed(sink, _finished(whole, schemas, sink, sides))


def _finished(
    whole: Whole, schemas: Sequence[bytes], sink: Sink, sides: Sequence[Sequence[Buffer]]
) -> Iterator[object]:
    tables = [_table(schema, blocks) for schema, blocks in zip(schemas, sides, strict=True)]
    with own_errors():
        yield from sink(0, as_rows(whole(tables)))


def _table(schema: bytes, blocks: Sequence[Buffer]) -> pa.Table:
    """Returns the rows of blocks, where they lie."""
    import pyarrow as pa

    nothing = pa.Table.from_batches([], pa.ipc.read_schema(pa.py_buffer(schema)))
    rows = [as_reader(_native.Rows.from_ipc(block)).read_all() for block in blocks]
    return pa.concat_tables([nothing, *rows])
