"""DuckDB: one query each, into one file, spilling to its temporary directory at its memory limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.consume import consume
from benchmarks.peers.job import Job, run

if TYPE_CHECKING:
    import duckdb


def sort(job: Job) -> None:
    """See ``Job``."""
    with connect(job) as connection:
        write(connection, job, f"SELECT * FROM {_rows(job)} ORDER BY key")


def random_shuffle(job: Job) -> None:
    """See ``Job``. A relation streams its result; a cursor (``execute``) would hold all of it, limit or not."""
    with connect(job) as connection:
        rows = connection.sql(f"SELECT * FROM {_rows(job)} ORDER BY random()")
        consume(rows.to_arrow_reader())


def group_by(job: Job) -> None:
    """See ``Job``. A sum of BIGINT is a HUGEINT, which Parquet lacks, so it is cast."""
    with connect(job) as connection:
        write(
            connection,
            job,
            f"SELECT key % {job.num_keys} AS k, count(*) AS n, sum(row)::BIGINT AS total, min(row) AS lowest "
            f"FROM {_rows(job)} GROUP BY k",
        )


def join(job: Job) -> None:
    """See ``Job``."""
    with connect(job) as connection:
        # Nobody asks for an order here; without this, threads wait for each other and rows for their turn.
        connection.execute("SET preserve_insertion_order = false")
        tables = [
            f"read_parquet('{job.input}/{name}/*.parquet')" for name in ("lineitem", "orders")
        ]
        on = "l_orderkey = o_orderkey"
        write(connection, job, f"SELECT * FROM {tables[0]} JOIN {tables[1]} ON {on}")


def connect(job: Job) -> duckdb.DuckDBPyConnection:
    """Opens a connection within the limits of the job."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": job.num_threads,
        "temp_directory": job.scratch,
    }
    if job.memory_limit_bytes is not None:
        config["memory_limit"] = f"{job.memory_limit_bytes} bytes"
    return duckdb.connect(config=config)


def _rows(job: Job) -> str:
    return f"read_parquet('{job.input}/*.parquet')"


def write(connection: duckdb.DuckDBPyConnection, job: Job, query: str) -> None:
    """Writes the result of a query to the output of the job."""
    connection.execute(
        f"COPY ({query}) TO '{job.output}' (FORMAT parquet, COMPRESSION uncompressed)"
    )


if __name__ == "__main__":
    run(sort, random_shuffle, group_by, join)
