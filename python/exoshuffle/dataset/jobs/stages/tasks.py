"""The tasks of a stage: each takes blocks, applies the steps, and yields blocks of about one size as they are made.

A task whose steps may skip rows yields notes of what it skipped at its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.jobs.stages.skipped import noting
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.sinks import SteppedSink
from exoshuffle.operators.core.streams import as_reader, as_rows, own_errors
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    from typing_extensions import Buffer


def run_stage(steps: tuple[Step, ...], index: int, sink: Sink, *blocks: Buffer) -> Iterator[object]:
    """Task: yields what the sink makes of the rows of the blocks, after the steps."""
    steps, notes = noting(steps)
    with own_errors():
        yield from SteppedSink(steps, sink)(index, _rows_of(blocks))
    if notes:
        yield notes


class StageWorker:
    """Actor: an object of a user's class, made once, with the other steps of its stage."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = tuple(
            step.started() if isinstance(step, MapBatches) else step for step in steps
        )

    def run(self, index: int, sink: Sink, *blocks: Buffer) -> Iterator[object]:
        """Yields as ``run_stage`` does."""
        return run_stage(self._steps, index, sink, *blocks)


def hand_part(index: int, sink: Sink, block: Buffer) -> object:
    """Task: hands a block that the last stage has made to the sink of the job."""
    return handed(sink, _handed(index, sink, block))


def _handed(index: int, sink: Sink, block: Buffer) -> Iterator[object]:
    with own_errors():
        yield from sink(index, _rows_of([block]))


def _rows_of(blocks: Sequence[Buffer]) -> _native.Rows:
    """Returns the rows of blocks, one after the other."""
    import pyarrow as pa

    if len(blocks) == 1:
        return _native.Rows.from_ipc(blocks[0])
    readers = [as_reader(_native.Rows.from_ipc(block)) for block in blocks]
    batches = itertools.chain.from_iterable(readers)
    return as_rows(pa.RecordBatchReader.from_batches(readers[0].schema, batches))
