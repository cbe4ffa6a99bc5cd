"""Decides whether an operator runs in one piece: all of its rows, and what finishing them takes, must fit into a task.

Two looks. Before any row is read, sizes in footers and in the store tell whether it is worth trying (``why_shuffled``).
Once the rows of all sides are in the store, their real sizes decide (``fits``). So a wrong guess costs one pass through
the store, and never a wrong result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.block_input import BlockInput
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.inputs.ranges import ROW_BYTES, RangeInput
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.top import TopJob
from exoshuffle.dataset.jobs.unshuffled import piece_bytes
from exoshuffle.dataset.tree.nodes import ShuffleOptions
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures import Engine, slice_bytes
from exoshuffle.operators.core.at_once import InParts
from exoshuffle.operators.core.order import ByKeys
from exoshuffle.operators.core.shuffle import Shuffle, Side
from exoshuffle.operators.steps.step import Step, required_columns
from exoshuffle.plan.memory import USABLE_PERCENT
from exoshuffle.plan.workload import BUFFER_BYTES, Workload
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
#: All are at most this share of the budget.
BUDGET_SHARE = 4
#: Bytes of a value of no fixed size, to compare columns with each other.
_TEXT_BYTES = 24
#: Bytes of a row without any column of a fixed size.
_LEAST_ROW_BYTES = 0.125


def why_shuffled(job: ShuffleJob, options: ShuffleOptions) -> str:
    """Returns why an operator is shuffled, for people; nothing if it is tried in one piece.

    Args:
        job: The shuffle; it is not measured.
        options: What the user asked for.

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


def most_sent(inputs: Sequence[Input], schema: pa.Schema) -> Workload | None:
    """Returns the most rows and bytes that inputs can have; None if footers and the store do not tell."""
    num_rows = num_bytes = 0
    for source in inputs:
        if isinstance(source, FileInput):
            makes_rows = any(step.makes_rows for step in source.steps)
            rows = source.source.rows
            if rows is None or makes_rows or not all(map(_is_fixed, schema.types)):
                return None
            num_rows += rows
            num_bytes += int(rows * _row_bytes(schema))
        elif isinstance(source, BlockInput):
            measured = source.measure(Side(schema, ByKeys()))
            num_rows += measured.num_rows
            num_bytes += measured.total_bytes
        else:
            return None
    return Workload(num_bytes, num_rows)


def _is_fixed(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _steps(job: ShuffleJob) -> list[Step]:
    return [*job.behind, *(step for source, _ in job.inputs for step in source.steps)]


def fits(engine: Engine, num_bytes: int, needed_bytes: int) -> bool:
    """Whether one task should finish so many bytes in the store, with so much working memory."""
    most = min(MAX_BYTES, engine.budget_bytes // BUDGET_SHARE)
    return num_bytes <= most and num_bytes + needed_bytes <= usable_bytes(engine)


def usable_bytes(engine: Engine) -> int:
    """Returns the bytes that the rows of all sides and the task may take together."""
    return engine.budget_bytes * USABLE_PERCENT // 100


def finish_bytes(shuffle: Shuffle, num_bytes: Sequence[int]) -> int:
    """Returns the working memory of the task that finishes rows of so many bytes on each side.

    The store does not tell how many rows these are, so they are taken for as many as their types allow.
    """
    num_rows = [
        int(size / _row_bytes(side.schema))
        for side, size in zip(shuffle.sides, num_bytes, strict=True)
    ]
    return BUFFER_BYTES + shuffle.finish.whole_bytes(
        sum(num_bytes), sum(num_rows), shuffle.reduce_percent, shuffle.reduce_row_bytes
    )


def _sent_bytes(job: ShuffleJob, source: Input, side: Side) -> int:
    """Returns about the bytes that the maps of an input send, before filters and aggregates."""
    size = _read_bytes(source, side)
    num_rows = source.source.rows if isinstance(source, FileInput) else None
    if not num_rows or not isinstance(job, TopJob):
        return size
    assert isinstance(source, FileInput)
    num_maps = source.source.memory_bytes // piece_bytes(job.engine) + len(source.source.files)
    return min(size, size * job.count * num_maps // num_rows)


def _read_bytes(source: Input, side: Side) -> int:
    if isinstance(source, FileInput):
        schema = schema_of(source.source)
        read = required_columns((*source.steps, *side.steps), schema, side.schema.names)
        share = _width(schema.field(name).type for name in read) / _width(schema.types)
        return int(source.source.memory_bytes * min(1.0, share))
    if isinstance(source, BlockInput):
        return sum(map(sum, slice_bytes(source.refs)))
    if isinstance(source, RangeInput):
        return len(source.numbers) * ROW_BYTES
    return source.measure(side).total_bytes


def _width(types: Iterable[pa.DataType]) -> float:
    """Returns about the bytes of a row of some columns."""
    return sum(_fixed_bytes(kind) or _TEXT_BYTES for kind in types)


def _row_bytes(schema: pa.Schema) -> float:
    """Returns the fewest bytes that a row can take in a block."""
    return max(_LEAST_ROW_BYTES, sum(_fixed_bytes(kind) for kind in schema.types))


def _fixed_bytes(kind: pa.DataType) -> float:
    """Returns the bytes of a value of a type, or the fewest if they differ."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _fixed_bytes(kind.index_type)
    if types.is_string(kind) or types.is_binary(kind) or types.is_list(kind) or types.is_map(kind):
        return 4
    if types.is_large_string(kind) or types.is_large_binary(kind) or types.is_large_list(kind):
        return 8
    if str(kind).endswith("_view"):
        return 16
    if types.is_struct(kind):
        return sum(_fixed_bytes(kind.field(index).type) for index in range(kind.num_fields))
    try:
        return float(kind.bit_width) / 8
    except ValueError:  # lists of a fixed size, among others
        return 0
