"""Exoshuffle on a one-machine Ray of its own; the memory limit is the size of the object store, as for Ray Data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks.engines.exoshuffle import aggregate, join_tables, shuffle_randomly
from benchmarks.engines.job import Job, run


def sort(job: Job) -> None:
    """See ``Job``."""
    import exoshuffle as xs

    with started(job):
        xs.read_parquet(job.input).sort("key").write_parquet(job.output, compression="none")


def random_shuffle(job: Job) -> None:
    """See ``Job``."""
    with started(job):
        shuffle_randomly(job)


def group_by(job: Job) -> None:
    """See ``Job``."""
    with started(job):
        aggregate(job)


def join(job: Job) -> None:
    """See ``Job``."""
    with started(job):
        join_tables(job)


@contextlib.contextmanager
def started(job: Job) -> Iterator[None]:
    """Ray with the CPUs and the object store of the job."""
    import ray  # noqa: F401  to say that it is missing in the way that the others do

    import exoshuffle as xs

    xs.init(
        engine="ray",
        num_cpus=job.num_threads,
        object_store_memory=job.memory_limit_bytes,
        spill_dirs=job.scratch,
    )
    yield
    xs.shutdown()


if __name__ == "__main__":
    run(sort, random_shuffle, group_by, join)
