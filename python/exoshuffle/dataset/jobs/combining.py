"""Whether the maps of a shuffle combine rows, or rows travel as they are: what makes fewer bytes. And where these go.

Guarantee: decided once, from the input, before anything is planned; the result is the same. Why not by each map: all
must send the same columns, and those of combined rows are wider. If a key turns out to have many rows that
travel as they are, those of its partition are combined later (``operators.division``).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.inputs import FileInput, measuring, weigh
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.futures import get
from exoshuffle.operators.batches import chunks_of
from exoshuffle.operators.core.at_once import ANY_BYTES, rows_at_once
from exoshuffle.operators.core.inputs import BatchInput
from exoshuffle.operators.sql.groups import first_rows
from exoshuffle.plan.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa

#: Of fewer groups each a partition larger than planned is divided soon enough.
MIN_GROUPS = 2


def lighter(job: ShuffleJob) -> ShuffleJob:
    """The job, or the same with rows that travel as they are, where these are fewer bytes.

    Sizes are measured from short stretches of files. These tell that combining pays, but not that it does not: keys
    that come once in each may come often in a split. So then a split is looked at as well.

    Cost: measures the input twice, and reads a split, in which it estimates how often keys repeat; where they do, it
    reads the split twice more, to weigh it.
    """
    plain, combines = job.shuffle.plain, job.shuffle.combines
    if plain is None or combines is None:
        return job
    [side] = plain.sides
    inputs = [(source, side) for source, _ in job.inputs]
    other = dataclasses.replace(job, inputs=inputs, shuffle=plain)
    if job.workload.total_bytes <= other.workload.total_bytes:
        return job
    number, items = max(enumerate(job.items), key=lambda numbered: len(numbered[1]))
    source, side = other.inputs[number]
    if not isinstance(source, FileInput):
        return other  # blocks were measured as a whole
    middle = items[len(items) // 2]
    combined, alone = (_map_input(way, number) for way in (job, other))
    memory = source.decoding_bytes(side)
    if not get(measuring(in_split, alone, memory).remote(alone, middle, combines)):
        return other
    run = measuring(weigh, combined, memory)
    weighed: list[Workload] = get([run.remote(way, [middle], 1) for way in (combined, alone)])
    return job if weighed[0].total_bytes <= weighed[1].total_bytes else other


def counts_by_values(job: ShuffleJob) -> bool:
    """Whether groups are larger than what a plan has memory for, by the number of keys in a part of the input.

    Then rows go by the values that are counted as well. Where that part has few keys by chance, only time is lost.
    Cost: reads it.
    """
    if job.shuffle.by_values is None:
        return False
    most = job.workload.total_bytes // max(job.plan.max_partition_bytes, 1)
    if most < MIN_GROUPS:
        return False
    plain = job.shuffle.plain or job.shuffle
    [side] = plain.sides
    alone = dataclasses.replace(
        job, inputs=[(source, side) for source, _ in job.inputs], shuffle=plain
    )
    number, items = max(enumerate(job.items), key=lambda numbered: len(numbered[1]))
    few = functools.partial(
        _hardly_combine, keys=side.order.columns, most=most, combines=job.shuffle.combines
    )
    map_input = _map_input(alone, number)
    run = measuring(in_split, map_input, job.plan.map_memory_bytes)
    return bool(get(run.remote(map_input, items[len(items) // 2], few)))


def _hardly_combine(
    rows: pa.Table, keys: Sequence[str], most: int, combines: Callable[[pa.Table], bool] | None
) -> bool:
    """Whether rows have fewer keys than ``most``, and maps would not combine them."""
    return len(first_rows(rows, keys)) < most and not (combines and combines(rows))


def _map_input(job: ShuffleJob, number: int) -> BatchInput:
    source, side = job.inputs[number]
    map_input = source.map_input(side)
    assert isinstance(map_input, BatchInput)
    return map_input


def in_split(map_input: BatchInput, split: str, holds: Callable[[pa.Table], bool]) -> bool:
    """Task: whether something holds of the rows of a split, as many as are aggregated at once."""
    rows = chunks_of(map_input.open(0, split), ANY_BYTES, rows_at_once())
    return all(map(holds, itertools.islice(rows, 1)))
