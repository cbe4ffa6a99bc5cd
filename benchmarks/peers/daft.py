"""Daft: the native runner. It has no memory limit to set, so the job's is not passed on."""

from __future__ import annotations

from benchmarks.peers.job import Job, run


def sort(job: Job) -> None:
    """See ``Job``."""
    import daft

    daft.set_runner_native(num_threads=job.num_threads)
    rows = daft.read_parquet(f"{job.input}/*.parquet").sort("key")
    rows.write_parquet(job.output, compression="none")


if __name__ == "__main__":
    run(sort)
