"""DuckDB's databases: threads of tasks ask for connections and change the limit at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

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
