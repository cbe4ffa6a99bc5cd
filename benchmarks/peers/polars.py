"""Polars: the streaming engine from scan to sink. Its out-of-core mode is set by variables read at import."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks.peers.job import Job, run

if TYPE_CHECKING:
    import polars as pl


def sort(job: Job) -> None:
    """See ``Job``."""
    write(scan(job, job.input).sort("key"), job)


def group_by(job: Job) -> None:
    """See ``Job``. Polars' own remainder has the sign of the divisor, so this takes that of the absolute value."""
    rows = scan(job, job.input)
    import polars as pl

    key, row = pl.col("key"), pl.col("row")
    groups = rows.group_by(k=key.abs() % job.num_keys * key.sign())
    write(groups.agg(n=pl.len(), total=row.sum(), lowest=row.min()), job)


def scan(job: Job, folder: str) -> pl.LazyFrame:
    """Scans the Parquet files of a folder, within the limits of the job."""
    os.environ["POLARS_MAX_THREADS"] = str(job.num_threads)
    if job.memory_limit_bytes is not None:
        os.environ["POLARS_OOC_MEMORY_BUDGET_MB"] = str(job.memory_limit_bytes // 1_000_000)
        os.environ["POLARS_OOC_SPILL_DIR"] = job.scratch
    import polars as pl

    return pl.scan_parquet(f"{folder}/*.parquet")


def write(rows: pl.LazyFrame, job: Job) -> None:
    """Runs a query into the output of the job."""
    rows.sink_parquet(job.output, compression="uncompressed", engine="streaming")


if __name__ == "__main__":
    run(sort, group_by)
