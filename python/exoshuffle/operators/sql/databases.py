"""DuckDB's databases of this process: one for groups and joins, one for expressions, each within a memory limit.

Guarantee: the memory that DuckDB counts stays below the limit, or the query fails and says so (``is_out_of_memory``).
DuckDB counts hash tables, sorts and the text that expressions make. It does not count the vectors of lists, nor the
Arrow data that it hands over.

Groups and joins are planned, so their limit, the whole budget, only stops what the plan did not foresee. Nobody can
plan how much an expression makes of a value, so each task has a share of the budget for it.

A large query (``lent_cursor``) brings threads and memory of its own to the database of expressions, which a program has
anyhow. Another database takes 18 ms of CPU time to open, and 3 to close.
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

#: Resident memory of DuckDB 1.5 in a program once it is loaded, as measured.
LOADED_BYTES = 60_000_000
#: Share of the budget that expressions of all tasks may take, and as much again as Arrow data.
EXPRESSION_SHARE = 8
#: The least share of a task.
MIN_EXPRESSION_BYTES = 8_000_000
#: The share of a task outside an engine.
UNMANAGED_BYTES = 64_000_000
#: DuckDB has pyarrow drop rows of one side whose keys the other side lacks, and pyarrow also drops NaN.
_NO_PUSHDOWN = "join_filter_pushdown"
#: Bounds in the footers of files may be wrong. DuckDB would take a greatest value from there, and make keys narrower.
_NO_BOUNDS = "statistics_propagation,compressed_materialization"
#: Joins of large queries run as they are written; expressions have none.
AS_WRITTEN = f"{_NO_BOUNDS},{_NO_PUSHDOWN},join_order,build_side_probe_side"
#: The same where DuckDB reads all inputs itself, from files: it looks at all of their values.
FILES_AS_WRITTEN = f"{_NO_BOUNDS},join_order,build_side_probe_side"
#: Those that read files alone are left to the optimizer: it knows sizes, and filters one file by keys of another.
OPTIMIZED = _NO_BOUNDS


class Database:
    """A database in memory with a memory limit that can be changed. A query has one thread, unless it brings more.

    Args:
        disabled: Names of optimizers that queries do without, with commas.
    """

    def __init__(self, disabled: str = _NO_PUSHDOWN) -> None:
        import duckdb

        # Most tasks are one thread each. Only the engine may write spill files.
        self._connection = duckdb.connect(":memory:", config={"threads": 1, "temp_directory": ""})
        self._disabled = ""
        self._disable(disabled)
        # Results must not depend on the zone of the machine that a task happens to run on.
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        #: The memory for queries that bring none, and the limit that is set.
        self._limit: int | None = None
        self._set: int | None = None
        self._usual = disabled
        #: For each connection that is lent: the bytes and threads that its query brought, and optimizers to do without.
        self._lent: list[tuple[int, int, str]] = []
        # DuckDB refuses a connection that another thread is using.
        self._lock = threading.Lock()

    def cursor(self, limit: int | None) -> Cursor:
        """Returns a connection for one query, with its own transaction.

        Args:
            limit: Bytes that all queries may take together from now on, beside those with memory of their own; None:
                DuckDB's default.
        """
        with self._lock:
            self._limit = limit
            self._set_limit()
            return self._connection.cursor()

    @contextlib.contextmanager
    def lent(self, limit: int, threads: int, disabled: str = AS_WRITTEN) -> Iterator[Cursor]:
        """Gives out a connection for a query with so much more memory, and so many threads, while it runs."""
        brought = (limit, threads, disabled)
        with self._lock:
            self._lent.append(brought)
            self._set_limit()
            self._set_threads()
            self._set_optimizers()
            cursor = self._connection.cursor()
        try:
            with cursor:
                yield cursor
        finally:
            with self._lock:
                self._lent.remove(brought)
                self._set_threads()
                self._set_optimizers()
                # DuckDB refuses a limit below what others use at the moment. The next cursor sets it.
                with contextlib.suppress(Exception):
                    self._set_limit()

    def _set_threads(self) -> None:
        threads = max([1, *(threads for _, threads, _ in self._lent)])
        self._connection.execute(f"SET GLOBAL threads = {threads}")

    def _set_optimizers(self) -> None:
        """Optimizers are those of the whole database: a query does without what another one must not have."""
        lent = [disabled for _, _, disabled in self._lent]
        self._disable(max(lent, key=len, default=self._usual))

    def _disable(self, names: str) -> None:
        if names != self._disabled:
            self._connection.execute(f"SET GLOBAL disabled_optimizers = '{names}'")
            self._disabled = names

    def _set_limit(self) -> None:
        brought = sum(limit for limit, _, _ in self._lent)
        limit = self._limit if not brought else (self._limit or 0) + brought
        if limit != self._set:
            chosen = f"SET GLOBAL memory_limit = '{limit}B'"
            self._connection.execute("RESET GLOBAL memory_limit" if limit is None else chosen)
            self._set = limit


@contextlib.contextmanager
def lent_cursor(limit: int, threads: int, disabled: str = AS_WRITTEN) -> Iterator[Cursor]:
    """Gives out a connection for a large query, with memory and threads of its own.

    After an error that DuckDB may not survive, the next cursor is of another database.

    Args:
        limit: Bytes that the query may take.
        threads: Threads that may work on it.
        disabled: ``AS_WRITTEN``; or, where DuckDB reads all inputs itself, ``FILES_AS_WRITTEN`` or ``OPTIMIZED``.
    """
    database = _database("expressions", os.getpid())
    try:
        with database.lent(limit, threads, disabled) as cursor:
            yield cursor
    except Exception as error:
        if not is_out_of_memory(error):
            _database.cache_clear()
        raise


def load() -> None:
    """Loads DuckDB, so that its memory counts before tasks need what is left."""
    import duckdb  # noqa: F401  for its memory alone


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
    del process
    return Database(AS_WRITTEN if purpose == "expressions" else _NO_PUSHDOWN)


_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
