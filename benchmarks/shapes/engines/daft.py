"""Daft: the query of the shape in its own SQL, on the native runner. It has no memory limit to set.

A query that its SQL does not know is an error in the table. Its output is a folder of files whose names have no order.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.job import Job, run_named
from benchmarks.shapes.catalogue import shapes


def answer(job: Job) -> None:
    """Answers the shape that is the job's operator."""
    import daft

    daft.set_runner_native(num_threads=job.num_threads)
    tables = {}
    for folder in Path(job.input).iterdir():
        is_csv = any(folder.glob("*.csv"))
        read = daft.read_csv if is_csv else daft.read_parquet
        tables[folder.name] = read(f"{folder}/*")
    rows = daft.sql(shapes(job.scale)[job.operator].query, **tables)
    if job.written_as == "csv":
        rows.write_csv(job.output)
    else:
        codec = "zstd" if job.written_as == "zstd" else "none"
        rows.write_parquet(job.output, compression=codec)


if __name__ == "__main__":
    run_named(dict.fromkeys(shapes(1), answer))
