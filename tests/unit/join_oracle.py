"""DuckDB as the oracle of joins."""

from __future__ import annotations

import functools

import duckdb


@functools.cache
def oracle() -> duckdb.DuckDBPyConnection:
    """A database of the tests' own; without the option DuckDB 1.5 has pyarrow drop rows whose key is NaN."""
    return duckdb.connect(config={"threads": 1, "disabled_optimizers": "join_filter_pushdown"})
