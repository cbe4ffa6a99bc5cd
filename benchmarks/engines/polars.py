"""Polars: the streaming engine from scan to sink. Its out-of-core mode is set by variables read at import."""

from __future__ import annotations

import os

from benchmarks.engines.job import SortJob, run


def sort(job: SortJob) -> None:
    """See ``SortJob``."""
    os.environ["POLARS_MAX_THREADS"] = str(job.num_threads)
    if job.memory_limit_bytes is not None:
        os.environ["POLARS_OOC_MEMORY_BUDGET_MB"] = str(job.memory_limit_bytes // 1_000_000)
        os.environ["POLARS_OOC_SPILL_DIR"] = job.scratch
    import polars as pl

    rows = pl.scan_parquet(f"{job.input}/*.parquet").sort("key")
    rows.sink_parquet(job.output, compression="uncompressed", engine="streaming")


if __name__ == "__main__":
    run(sort)
