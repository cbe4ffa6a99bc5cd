"""Decides whether an operator runs in one piece: all of its rows, and what finishing them takes, must fit into a task.

Two looks. Before any row is read, sizes in footers and in the store tell whether it is worth trying (``why_shuffled``).
Once the rows of all sides are in the store, their real sizes decide (``fits``). So a wrong guess costs one pass through
the store, and never a wrong result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.inputs.widths import least_row_bytes
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.top import TopJob
from exoshuffle.dataset.jobs.unshuffled import piece_bytes, usable_bytes
from exoshuffle.dataset.tree.nodes import ShuffleOptions
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures import Engine
from exoshuffle.operators.core.at_once import InParts
from exoshuffle.operators.core.shuffle import Shuffle, Side
from exoshuffle.operators.steps.step import Step
from exoshuffle.plan.workload import BUFFER_BYTES, Workload, table_bytes
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: Most bytes that one task finishes while the other CPUs have nothing to do.
MAX_BYTES = 64_000_000
#: Files are tried up to this size of the columns that are read: filters and aggregates often leave a part of it.
MAX_READ_BYTES = 256_000_000
#: A sort, whose rows all travel, is faster as a shuffle above this size.
MAX_SORTED_BYTES = 4_000_000
#: Sides of a join are not measured to find a small one, if no more is read.
LITTLE_BYTES = MAX_BYTES // 4
#: So many rows, or rows of so many bytes, are not combined first, as each query of DuckDB takes 2 ms and a column some.
FEW_ROWS = 4096
FEW_BYTES = 250_000
#: All are at most this share of the budget.
BUDGET_SHARE = 4


def why_shuffled(job: ShuffleJob, options: ShuffleOptions) -> str:
    """Returns why an operator is shuffled, for people; nothing if it is tried in one piece.

    Args:
        job: The shuffle; it is not measured.
        options: The options that the user gave.

    Cost: looks at nothing but sizes that are known.
    """
    shuffle, engine = job.shuffle, job.engine
    if shuffle.whole is None:
        return f"{shuffle.name} deals rows out to partitions"
    if any(step.is_function for step in _steps(job)):
        return "functions run in worker processes"
    if options.is_whole:
        return ""
    if options != ShuffleOptions():
        return "strategy or num_partitions was given"
    if len(engine.nodes()) > 1:
        return "several nodes share the work"
    size = sum(_sent_bytes(job, source, side) for source, side in job.inputs)
    most = MAX_SORTED_BYTES if shuffle.keeps_rows else MAX_READ_BYTES
    most = min(most, engine.budget_bytes // BUDGET_SHARE)
    if size > most:
        return f"it takes {format_bytes(size)}, and one task at most {format_bytes(most)}"
    needed = _sure_bytes(job)
    if needed > usable_bytes(engine):
        return f"one task would need {format_bytes(needed)}, and has {format_bytes(usable_bytes(engine))}"
    return ""


def _sure_bytes(job: ShuffleJob) -> int:
    """Returns the bytes of all rows and of finishing them; 0 if nobody knows how many rows the maps combine."""
    sides = job.shuffle.sides
    if any(isinstance(step, InParts) for side in sides for step in side.steps):
        return 0
    sizes = [0] * len(sides)
    for source, side in job.inputs:
        sizes[side.tag] += _sent_bytes(job, source, side)
    return sum(sizes) + finish_bytes(job.shuffle, sizes)


def fitting_job(job: ShuffleJob) -> ShuffleJob | None:
    """Returns the job if it fits into memory, else None."""
    with contextlib.suppress(MemoryLimitError):
        job.check_fits()
        return job
    return None


def is_little(job: ShuffleJob) -> bool:
    """Whether an operator is tried in one piece, and is not worth a closer look at its inputs."""
    if why_shuffled(job, ShuffleOptions()):
        return False
    return sum(_sent_bytes(job, source, side) for source, side in job.inputs) <= LITTLE_BYTES


def is_sooner_whole(job: ShuffleJob) -> bool:
    """Whether rows are so few that combining those of each map takes more than sending all of them to one task."""
    if any(step.makes_rows for step in _steps(job)):
        return False
    size = sum(_sent_bytes(job, source, side) for source, side in job.inputs)
    num_rows = [source.known_rows for source, _ in job.inputs]
    is_short = None not in num_rows and sum(filter(None, num_rows)) <= FEW_ROWS
    return size <= (MAX_BYTES if is_short else FEW_BYTES)


def most_sent(inputs: Sequence[Input], schema: pa.Schema) -> Workload | None:
    """Returns the most rows and bytes that inputs can have; None if footers and the store do not tell."""
    num_rows = num_bytes = 0
    for source in inputs:
        size = source.most(schema)
        if size is None:
            return None
        num_rows += size.num_rows
        num_bytes += size.total_bytes
    return Workload(num_bytes, num_rows)


def _steps(job: ShuffleJob) -> list[Step]:
    return [*job.behind, *(step for source, _ in job.inputs for step in source.steps)]


def fits(engine: Engine, num_bytes: int, needed_bytes: int) -> bool:
    """Whether one task should finish so many bytes in the store, with so much working memory."""
    most = min(MAX_BYTES, engine.budget_bytes // BUDGET_SHARE)
    return num_bytes <= most and num_bytes + needed_bytes <= usable_bytes(engine)


def finish_bytes(shuffle: Shuffle, num_bytes: Sequence[int]) -> int:
    """Returns the working memory of the task that finishes rows of so many bytes on each side.

    The store does not tell how many rows these are, so they are taken for as many as their types allow.
    """
    num_rows = [
        int(size / least_row_bytes(side.schema))
        for side, size in zip(shuffle.sides, num_bytes, strict=True)
    ]
    return (
        BUFFER_BYTES
        + table_bytes(shuffle.num_columns)
        + shuffle.finish.whole_bytes(
            sum(num_bytes), sum(num_rows), shuffle.reduce_percent, shuffle.reduce_row_bytes
        )
    )


def _sent_bytes(job: ShuffleJob, source: Input, side: Side) -> int:
    """Returns about the bytes that the maps of an input send, before filters and aggregates."""
    size, num_rows = source.read_bytes(side), source.known_rows
    if not num_rows or not isinstance(job, TopJob):
        return size
    num_maps = source.num_pieces(piece_bytes(job.engine))
    return min(size, size * job.count * num_maps // num_rows)
