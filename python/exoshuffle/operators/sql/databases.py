"""DuckDB's databases of this process: one for groups and joins, one for expressions, each within a memory limit.

Guarantee: the memory that DuckDB counts stays below the limit, or the query fails and says so (``is_out_of_memory``).
DuckDB counts hash tables, sorts and the text that expressions make. It does not count the vectors of lists, nor the
Arrow data that it hands over.

Groups and joins are planned, so their limit, the whole budget, only stops what the plan did not foresee. Nobody can
plan how much an expression makes of a value, so each task has a share of the budget for it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from exoshuffle.futures.session import engine_in_use

if TYPE_CHECKING:
    import duckdb

Cursor: TypeAlias = "duckdb.DuckDBPyConnection"
Relation: TypeAlias = "duckdb.DuckDBPyRelation"

#: Share of the budget that expressions of all tasks may take, and as much again as Arrow data.
EXPRESSION_SHARE = 8
#: The least share of a task.
MIN_EXPRESSION_BYTES = 8_000_000
#: The share of a task outside an engine.
UNMANAGED_BYTES = 64_000_000


class Database:
    """A database in memory with a memory limit that can be changed.

    Args:
        threads: Threads of a query.
        disabled: Names of optimizers that queries do without, with commas.
    """

    def __init__(self, threads: int = 1, disabled: str = "join_filter_pushdown") -> None:
        import duckdb

        # Most tasks are one thread each. Only the engine may write spill files.
        self._connection = duckdb.connect(
            ":memory:", config={"threads": threads, "temp_directory": ""}
        )
        # DuckDB 1.5 has pyarrow drop rows of one side whose keys the other side lacks, and pyarrow also drops NaN.
        self._connection.execute(f"SET GLOBAL disabled_optimizers = '{disabled}'")
        # Results must not depend on the zone of the machine that a task happens to run on.
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        self._limit: int | None = None
        # DuckDB refuses a connection that another thread is using.
        self._lock = threading.Lock()

    def cursor(self, limit: int | None) -> Cursor:
        """Returns a connection for one query, with its own transaction.

        Args:
            limit: Bytes that all queries may take together from now on; None: DuckDB's default.
        """
        with self._lock:
            if limit != self._limit:
                chosen = f"SET GLOBAL memory_limit = '{limit}B'"
                self._connection.execute("RESET GLOBAL memory_limit" if limit is None else chosen)
                self._limit = limit
            return self._connection.cursor()

    @contextlib.contextmanager
    def lent(self, limit: int) -> Iterator[Cursor]:
        """Gives out a connection for rows whose order does not matter; then closes the database, with its threads."""
        try:
            self._connection.execute("SET GLOBAL preserve_insertion_order = false")
            with self.cursor(limit) as cursor:
                yield cursor
        finally:
            self._connection.close()


def relational_cursor() -> Cursor:
    """Returns a connection for groups and joins."""
    engine = engine_in_use()
    limit = None if engine is None else max(MIN_EXPRESSION_BYTES, engine.budget_bytes)
    return _database("relational", os.getpid()).cursor(limit)


def idle_cursor() -> Cursor:
    """Returns a connection for a query of no rows, to the database of expressions if there is one.

    Why: queries are tried without rows when they are written. Another database takes 17 ms.
    """
    has_expressions = bool(_threads)
    return expression_cursor() if has_expressions else relational_cursor()


def expression_bytes() -> int:
    """Returns the bytes that the expressions of a task may take, for some rows at a time."""
    engine = engine_in_use()
    if engine is None:
        return UNMANAGED_BYTES
    share = engine.budget_bytes // (EXPRESSION_SHARE * engine.num_cpus)
    return max(MIN_EXPRESSION_BYTES, share)


def expression_cursor() -> Cursor:
    """Returns a connection for expressions; every thread that computes some adds its task's share to the limit."""
    _threads.add(threading.current_thread())
    engine = engine_in_use()
    # Threads whose tasks wait do not run, so they do not count.
    num_sharing = len(_threads) if engine is None else min(len(_threads), engine.num_cpus)
    return _database("expressions", os.getpid()).cursor(expression_bytes() * num_sharing)


def lone_cursor() -> Cursor:
    """Returns a connection for an expression that other tasks left no memory: a database with one task's share.

    Cost: 12 ms and 4 MB.
    """
    return Database().cursor(expression_bytes())


@functools.cache
def has_unchecked_sums() -> bool:
    """Returns whether queries may use the sum of integers that does not look for overflow; DuckDB 1.5 refuses that.

    Cost: a query of a millisecond, once.
    """
    try:
        idle_cursor().execute("SELECT sum_no_overflow(1)")
    except Exception:  # noqa: BLE001  DuckDB's, of a kind that depends on its version
        return False
    return True


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether a query failed because of the memory limit; errors through Arrow have only a text."""
    return "Out of Memory Error" in str(error)


@functools.cache
def _database(purpose: str, process: int) -> Database:
    """Returns a database of this process: a parent's may have locks held by threads that a forked child lacks."""
    del purpose, process
    return Database()


_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
