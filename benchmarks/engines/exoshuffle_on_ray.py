"""Exoshuffle on a one-machine Ray of its own; the memory limit is the size of the object store, as for Ray Data."""

from __future__ import annotations

from benchmarks.engines.job import Job, run


def sort(job: Job) -> None:
    """See ``Job``."""
    import ray  # noqa: F401  to say that it is missing in the way that the others do

    import exoshuffle as xs

    xs.init(
        engine="ray",
        num_cpus=job.num_threads,
        object_store_memory=job.memory_limit_bytes,
        spill_dirs=job.scratch,
    )
    xs.read_parquet(job.input).sort("key").write_parquet(job.output, compression="none")
    xs.shutdown()


if __name__ == "__main__":
    run(sort)
