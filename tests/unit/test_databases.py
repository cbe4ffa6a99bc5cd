"""DuckDB's databases: threads of tasks ask for connections and change the limit at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from exoshuffle.operators.sql import groups
from exoshuffle.operators.sql.databases import Database

THREADS = 8


def test_threads_that_change_the_limit_get_connections() -> None:
    database, together = Database(), threading.Barrier(THREADS)

    def ask(number: int) -> int:
        together.wait()
        for step in range(100):
            cursor = database.cursor((number * 100 + step + 1) * 1_000_000)
            assert cursor.execute("select 1").fetchall() == [(1,)]
        return number

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(ask, range(THREADS))) == list(range(THREADS))


def test_without_an_engine_the_limit_is_not_that_of_the_last_one() -> None:
    """Groups that fit were out of memory once an engine of a small limit had been there."""
    database = Database()
    limits = [
        database.cursor(limit).execute("SELECT current_setting('memory_limit')").fetchone()
        for limit in (None, 50_000_000, None)
    ]
    assert limits[0] == limits[2] != limits[1]


def test_sums_are_right_where_duckdb_keeps_the_unchecked_one_to_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DuckDB 1.5.6 refuses ``sum_no_overflow``: every group-by with a sum of integers failed."""
    monkeypatch.setattr(groups, "has_unchecked_sums", lambda: False)
    operands = groups.Operands(pa.table({"k": [1, 1, 2], "v": [3, 4, 5]}), ["k"])
    query = operands.grouped([operands.sql("{sum}", "v")])
    assert "sum_no_overflow" not in query
    assert operands.in_order(query)["r0"].to_pylist() == [7, 5]
