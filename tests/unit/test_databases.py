"""DuckDB's databases: threads of tasks ask for connections and change the limit at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from exoshuffle.operators.sql import databases, groups
from exoshuffle.operators.sql.databases import Cursor, Database, lent_cursor

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


def _settings(cursor: Cursor) -> tuple[str, int]:
    """Returns the memory limit and the number of threads."""
    found = cursor.execute(
        "SELECT current_setting('memory_limit'), current_setting('threads')"
    ).fetchone()
    assert found is not None
    return found


def test_a_lent_connection_brings_memory_and_threads_while_it_is_lent() -> None:
    database = Database()
    before = _settings(database.cursor(100 << 20))
    with database.lent(200 << 20, 3) as lent:
        assert _settings(lent) == ("300.0 MiB", 3)
        with database.lent(50 << 20, 2) as second:
            assert _settings(second) == ("350.0 MiB", 3)
        assert _settings(database.cursor(10 << 20)) == ("210.0 MiB", 3)
    assert before == ("100.0 MiB", 1)
    assert _settings(database.cursor(100 << 20)) == before


def test_a_lent_connection_has_a_limit_where_nothing_else_has_one() -> None:
    database = Database()
    with database.lent(200 << 20, 2) as lent:
        assert _settings(lent) == ("200.0 MiB", 2)
    default = _settings(Database().cursor(None))
    assert _settings(database.cursor(None)) == default


def test_a_query_does_without_the_optimizers_that_another_must_not_have() -> None:
    def disabled(cursor: Cursor) -> set[str]:
        found = cursor.execute("SELECT current_setting('disabled_optimizers')").fetchone()
        assert found is not None
        return set(found[0].replace(" ", "").split(","))

    database = Database()
    usual = disabled(database.cursor(None))
    with database.lent(200 << 20, 2, databases.OPTIMIZED) as files:
        assert disabled(files) == {"statistics_propagation", "compressed_materialization"}
        with database.lent(200 << 20, 2) as streams:
            assert {"join_order", "join_filter_pushdown"} <= disabled(streams)
        assert "join_order" not in disabled(files)
    assert disabled(database.cursor(None)) == usual == {"join_filter_pushdown"}


@pytest.mark.parametrize("error", ["Out of Memory Error: no room", "INTERNAL Error: a bug"])
def test_after_an_error_of_duckdb_itself_the_database_is_another(error: str) -> None:
    with lent_cursor(100 << 20, 2) as first:
        first.execute("CREATE TABLE kept AS SELECT 1 AS x")
    with pytest.raises(RuntimeError), lent_cursor(100 << 20, 2):
        raise RuntimeError(error)
    with lent_cursor(100 << 20, 2) as second:
        tables = second.execute("SHOW TABLES").fetchall()
        second.execute("DROP TABLE IF EXISTS kept")
    assert bool(tables) == ("Memory" in error)


def test_sums_are_right_where_duckdb_keeps_the_unchecked_one_to_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DuckDB 1.5.6 refuses ``sum_no_overflow``: every group-by with a sum of integers failed."""
    monkeypatch.setattr(groups, "has_unchecked_sums", lambda: False)
    operands = groups.Operands(pa.table({"k": [1, 1, 2], "v": [3, 4, 5]}), ["k"])
    query = operands.grouped([operands.sql("{sum}", "v")])
    assert "sum_no_overflow" not in query
    assert operands.in_order(query)["r0"].to_pylist() == [7, 5]
