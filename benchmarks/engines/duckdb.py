"""DuckDB: ORDER BY into one file, spilling to its temporary directory at its memory limit."""

from __future__ import annotations

from benchmarks.engines.job import SortJob, run


def sort(job: SortJob) -> None:
    """See ``SortJob``."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": job.num_threads,
        "temp_directory": job.scratch,
    }
    if job.memory_limit_bytes is not None:
        config["memory_limit"] = f"{job.memory_limit_bytes} bytes"
    with duckdb.connect(config=config) as connection:
        connection.execute(
            f"COPY (SELECT * FROM read_parquet('{job.input}/*.parquet') ORDER BY key) "
            f"TO '{job.output}' (FORMAT parquet, COMPRESSION uncompressed)"
        )


if __name__ == "__main__":
    run(sort)
