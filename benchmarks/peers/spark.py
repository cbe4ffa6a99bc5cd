"""Spark in local mode; the memory limit becomes the heap of its one JVM. Needs pyspark and Java."""

from __future__ import annotations

import shutil

from benchmarks.peers.job import Job, run


def sort(job: Job) -> None:
    """See ``Job``."""
    from pyspark.sql import SparkSession

    if shutil.which("java") is None:
        raise ImportError("no Java on the PATH")
    builder = (
        SparkSession.builder.master(f"local[{job.num_threads}]")
        .config("spark.local.dir", job.scratch)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.parquet.compression.codec", "uncompressed")
    )
    if job.memory_limit_bytes is not None:
        builder = builder.config("spark.driver.memory", f"{job.memory_limit_bytes // 2**20}m")
    session = builder.getOrCreate()
    session.read.parquet(job.input).sort("key").write.parquet(job.output)
    session.stop()


if __name__ == "__main__":
    run(sort)
