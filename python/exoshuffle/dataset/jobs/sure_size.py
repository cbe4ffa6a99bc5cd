"""Tells how large the result of a job is as Arrow data, as far as that is sure before it runs.

The size is not sure in three cases. Conditions and functions may keep any number of rows, whatever stretches of the
input show. Nothing can tell the size of joins and groups. Dictionaries are smaller than the values in rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.unshuffled import ScanJob

if TYPE_CHECKING:
    import pyarrow as pa


def sure_bytes(job: Job, enough_bytes: int) -> int:
    """Returns the size of a result that has all rows of the input.

    0 if the result may well be smaller, or is much smaller than ``enough_bytes``.
    """
    if isinstance(job, ShuffleJob):
        inputs: list[Input] = [source for source, _ in job.inputs]
        if job.behind or not job.shuffle.keeps_rows or not _is_plain(inputs, job.shuffle.schema):
            return 0
        return job.workload.total_bytes
    from exoshuffle.dataset.jobs.joins import rows_size
    from exoshuffle.dataset.jobs.windows import WindowJob

    if not isinstance(job, ScanJob | WindowJob) or not _is_plain(job.inputs, job.schema):
        return 0
    # Measuring takes some 10 ms.
    if not any(source.likely_bytes >= enough_bytes for source in job.inputs):
        return 0
    return rows_size(job.inputs, job.schema).total_bytes


def _is_plain(inputs: Iterable[Input], schema: pa.Schema) -> bool:
    """Whether all rows come out, with their values unchanged."""
    import pyarrow as pa

    steps = (step for source in inputs for step in source.steps)
    has_dictionaries = any(map(pa.types.is_dictionary, schema.types))
    return not has_dictionaries and all(step.keeps_all for step in steps)
