"""Joins without keys, of two large sides: each piece of a side meets each piece of the other.

Guarantee: rows of a part come in the order of the left side, and for each in that of the right side. A shuffled
partition has the same order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.jobs.unshuffled import piece_bytes
from exoshuffle.futures import Engine, Ref, RefStream, remote
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.order import ByKeys
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.streams import as_reader, as_rows, own_errors
from exoshuffle.operators.join.join import Join
from exoshuffle.operators.join.payload import BATCH_BYTES
from exoshuffle.operators.steps.step import executor_of, functions_bytes
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer


def rows_size(inputs: Sequence[Input], schema: pa.Schema) -> Workload:
    """Measures the size of all rows of some inputs."""
    measured = [source.measure(Side(schema, ByKeys())) for source in inputs]
    return Workload(
        sum(work.total_bytes for work in measured),
        sum(work.num_rows for work in measured),
        max((work.max_row_bytes for work in measured), default=0),
    )


@dataclass
class CrossJob:
    """A cross join of two sides, neither of them small.

    Attributes:
        join: The join.
        lefts: The pieces of the left side, in the store.
        rights: The pieces of the right side.
        engine: The engine that runs it.

    Cost: a task for each two pieces, which reads both from the store.
    """

    join: Join
    lefts: Sequence[Ref]
    rights: Sequence[Ref]
    engine: Engine
    plan: ShufflePlan | None = None

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``."""
        memory = cross_memory_bytes(self.engine) + functions_bytes(sink.all_steps)
        executor = executor_of("thread", sink.all_steps)
        run = remote(
            functools.partial(cross, self.join, sink),
            num_returns=sink.num_returns,
            memory=memory,
            name="cross",
            executor=executor,
        )
        for index, (left, right) in enumerate(itertools.product(self.lefts, self.rights)):
            yield run.remote(index, left, right)


def cross_memory_bytes(engine: Engine) -> int:
    """Returns the working memory of a task of a ``CrossJob``: a copy of both pieces, and a batch of their pairs."""
    # Where memory is scarce, pieces are small and so are most batches.
    at_most = engine.budget_bytes // (2 * engine.num_cpus)
    return min(2 * piece_bytes(engine) + BATCH_BYTES, at_most)


def cross(join: Join, sink: Sink, index: int, left: Buffer, right: Buffer) -> object:
    """Task: hands all pairs of the rows of two pieces to a sink."""
    return handed(sink, _crossed(index, join, left, right, sink))


def _crossed(index: int, join: Join, left: Buffer, right: Buffer, sink: Sink) -> Iterator[object]:
    import pyarrow as pa

    sides = [as_reader(_native.Rows.from_ipc(block)).read_all() for block in (left, right)]
    batches = pa.RecordBatchReader.from_batches(join.output_schema, join.run(*sides))
    with own_errors():
        yield from sink(index, as_rows(batches))
