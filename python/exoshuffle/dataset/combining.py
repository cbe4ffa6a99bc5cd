"""Whether the maps of a shuffle combine rows, or rows travel as they are: what makes fewer bytes.

Guarantee: decided once, from the input, before anything is planned; the result is the same. Why not by each map: all
must send the same columns, and those of combined rows are wider. If a key turns out to have many rows that
travel as they are, those of its partition are combined later (``operators.division``).
"""

from __future__ import annotations

import dataclasses

from exoshuffle.dataset.inputs import FileInput, weighing
from exoshuffle.dataset.jobs import ShuffleJob
from exoshuffle.futures import Ref, get
from exoshuffle.shuffle.plan import Workload


def lighter(job: ShuffleJob) -> ShuffleJob:
    """The job, or the same with rows that travel as they are, where these are fewer bytes.

    Sizes are measured from short stretches of files. These tell that combining pays, but not that it does not: keys
    that come once in each may come often in a split. So then a split is looked at as well.

    Cost: measures the input twice, and may read a split twice.
    """
    plain = job.shuffle.plain
    if plain is None:
        return job
    [side] = plain.sides
    inputs = [(source, side) for source, _ in job.inputs]
    other = dataclasses.replace(job, inputs=inputs, shuffle=plain)
    if job.workload.total_bytes <= other.workload.total_bytes:
        return job
    number, items = max(enumerate(job.items), key=lambda numbered: len(numbered[1]))
    if not isinstance(job.inputs[number][0], FileInput):
        return other  # blocks were measured as a whole
    middle = items[len(items) // 2]
    weighed: list[Workload] = get([_weighed_split(way, number, middle) for way in (job, other)])
    combined, alone = weighed
    return job if combined.total_bytes <= alone.total_bytes else other


def _weighed_split(job: ShuffleJob, number: int, split: str) -> Ref:
    """What travels of a split of one of the inputs."""
    source, side = job.inputs[number]
    map_input = source.map_input(side)
    weighed: Ref = weighing(map_input).remote(map_input, [split], 1)
    return weighed
