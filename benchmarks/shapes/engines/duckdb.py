"""DuckDB: the query of the shape, within the memory limit, into one file."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.duckdb import connect
from benchmarks.peers.job import Job, run_named
from benchmarks.shapes.catalogue import shapes
from benchmarks.shapes.shape import OUTPUTS, Shape


def answer(shape: Shape, job: Job) -> None:
    """Answers a shape."""
    with connect(job) as connection:
        if not shape.ordered:
            # Without this, threads wait for each other and rows for their turn.
            connection.execute("SET preserve_insertion_order = false")
        for table in Path(job.input).iterdir():
            kind = "csv" if any(table.glob("*.csv")) else "parquet"
            files = f"read_{kind}('{table}/*.{kind}')"
            connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM {files}")
        connection.execute(f"COPY ({shape.query}) TO '{job.output}' ({OUTPUTS[job.written_as]})")


def main(job: Job) -> None:
    """Answers the shape that is the job's operator."""
    answer(shapes(job.scale)[job.operator], job)


if __name__ == "__main__":
    run_named(dict.fromkeys(shapes(1), main))
