"""DuckDB as the oracle, opened once: a connection costs 27 ms of CPU, a cursor 2, and tests ask many questions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import duckdb
import pyarrow as pa


@contextlib.contextmanager
def duck(**tables: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that knows tables by these names; what else it makes has to be temporary, since all share one."""
    with _database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        yield connection


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    # Else DuckDB 1.5 has pyarrow drop rows of joins whose key is NaN.
    return duckdb.connect(config={"disabled_optimizers": "join_filter_pushdown"})
