"""Decides whether the maps of a shuffle combine rows or send them as they are, whichever makes fewer bytes.

Also decides whether rows go by counted values too. Guarantee: each decision is made once, from the input, before
anything is planned; the result is the same either way. Why not by each map: all must send the same columns, and
combined rows have wider ones. If a key has many rows that travel as they are, the rows of its partition are combined
later (``operators.division``).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.weighing import measuring, weigh
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.futures import Value, get
from exoshuffle.operators.batches import chunks_of
from exoshuffle.operators.core.at_once import ANY_BYTES, rows_at_once
from exoshuffle.operators.core.inputs import MapInput, SplitInput
from exoshuffle.operators.core.streams import as_reader
from exoshuffle.operators.sql.groups import first_rows
from exoshuffle.plan.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa

#: If the rows fill fewer partitions than this, it is soon enough to divide a partition that is larger than planned.
MIN_GROUPS = 2


def lighter(job: ShuffleJob) -> ShuffleJob:
    """Returns the job, or the same job with rows that travel as they are, whichever sends fewer bytes.

    Sizes are measured from short stretches of files. Stretches can show that combining pays, but not that it does not.
    A key that comes once in each stretch may come often in a split. In that case a split is read as well.

    Cost: measures the input twice, and reads a split to estimate how often keys repeat. Where they do, it reads the
    split twice more, to weigh it.
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
    if source.is_held:
        return other  # blocks were measured as a whole
    middle = items[len(items) // 2]
    combined, alone = (_map_input(way, number) for way in (job, other))
    memory = source.decoding_bytes(side)
    if not get(measuring(in_split, alone, memory).remote(middle, combines)):
        return other
    ways = [measuring(weigh, way, memory) for way in (combined, alone)]
    weighed: list[Workload] = get([run.remote([middle], 1) for run in ways])
    return job if weighed[0].total_bytes <= weighed[1].total_bytes else other


def counts_by_values(job: ShuffleJob) -> bool:
    """Whether groups are larger than the plan has memory for, by the number of keys in a part of the input.

    If so, rows go by the counted values as well. Where that part has few keys by chance, only time is lost. Cost: reads
    the part.
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
    return bool(get(run.remote(items[len(items) // 2], few)))


def _hardly_combine(
    rows: pa.Table, keys: Sequence[str], most: int, combines: Callable[[pa.Table], bool] | None
) -> bool:
    """Whether rows have fewer than ``most`` keys, and maps would not combine them."""
    return len(first_rows(rows, keys)) < most and not (combines and combines(rows))


def _map_input(job: ShuffleJob, number: int) -> MapInput:
    source, side = job.inputs[number]
    found = source.map_input(side)
    return found.in_batches() if isinstance(found, SplitInput) else found


def in_split(map_input: MapInput, item: Value, holds: Callable[[pa.Table], bool]) -> bool:
    """Task: whether ``holds`` is true of the first rows of a split, as many as are aggregated at once."""
    rows = chunks_of(as_reader(map_input.rows(0, item)), ANY_BYTES, rows_at_once())
    return all(map(holds, itertools.islice(rows, 1)))
