"""DuckDB at db-benchmark: the query of the question, over Parquet files."""

from __future__ import annotations

from pathlib import Path

from benchmarks.db_questions import QUESTIONS
from benchmarks.peers.duckdb import connect, write
from benchmarks.peers.job import Job, run_named


def answer(job: Job) -> None:
    """Answers the question that is the job's operator."""
    with connect(job) as connection:
        # Nobody asks for an order here; without this, threads wait for each other and rows for their turn.
        connection.execute("SET preserve_insertion_order = false")
        for table in sorted(Path(job.input).iterdir()):
            files = f"read_parquet('{table}/*.parquet')"
            connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM {files}")
        write(connection, job, QUESTIONS[job.operator].query)


if __name__ == "__main__":
    run_named(dict.fromkeys(QUESTIONS, answer))
