"""Exoshuffle on a one-machine Ray of its own; the memory limit is the size of the object store, as for Ray Data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks.peers.exoshuffle import group_by, join, random_shuffle, within
from benchmarks.peers.job import Job, run_named


def sort(job: Job) -> None:
    """See ``Job``."""
    import exoshuffle as xs

    xs.read_parquet(job.input).sort("key").write_parquet(job.output, compression="none")


@contextlib.contextmanager
def started(job: Job) -> Iterator[None]:
    """Starts Ray with the CPUs and the object store of the job."""
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
    run_named(within(started, sort, random_shuffle, group_by, join))
