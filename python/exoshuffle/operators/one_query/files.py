"""Parquet files that DuckDB reads itself, inside the one query.

Guarantee: the rows are those that our reader makes. DuckDB looks at no checksums, and believes what headers of pages
and the footer tell. So only files come here that were looked through before (``can_open``): checksums match, and sizes
can be. Pages have as many values as the footer tells, and types are stored in the usual way. Types are compared with
those of DuckDB before the query, and behind it that files have not changed. Our reader reads all else that DuckDB
refuses, and it has the words. Row groups, pages and the values made of them count against the memory limit of the
query. Dictionaries do not, and are small in such files.

Bounds in footers are believed where a filter leaves out row groups, as in narrowing. Those of floats leave out NaN,
which is the greatest value, so DuckDB is told that there may be some. DuckDB would also compute with bounds, and a
wrong one would make wrong rows; it does without (``databases``).

Why: DuckDB decodes columns late, filters one file by keys of another, and knows sizes, by which it orders joins.
The 22 queries of TPC-H at scale 1 took 0.87 of the CPU time of streams: 19.0 of 21.9 s of whole processes. That is one
run each, by a build with assertions. Q1, Q4, Q6 and Q12 of files with checksums took 0.70 (2.7 of 3.9 s, the best of
three runs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.operators.one_query.columns import Unfit, duck_type
from exoshuffle.operators.sql.relational import quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle import _native
    from exoshuffle.futures import Engine
    from exoshuffle.operators.sql.databases import Cursor

#: DuckDB takes paths with these for patterns, escapes, or places elsewhere.
_SPECIAL = frozenset("*?[]{}\\:")
#: The row groups that all threads hold may take this share of the budget. Their pages take as much again, and more.
GROUPS_SHARE = 8


def can_open(source: _native.Source, schema: pa.Schema, engine: Engine) -> bool:
    """Returns whether DuckDB makes the same of these columns as our reader, and has room for their row groups."""
    if any(path.startswith("~") or _SPECIAL.intersection(path) for path in source.files):
        return False
    group_bytes = engine.budget_bytes // (GROUPS_SHARE * engine.num_cpus)
    return source.are_open(set(schema.names), group_bytes)


def open_files(cursor: Cursor, name: str, source: _native.Source, schema_ipc: bytes) -> None:
    """Makes a view of some columns of files.

    Raises:
        Unfit: DuckDB has another type for one of them.
    """
    import pyarrow as pa

    schema = pa.ipc.read_schema(pa.py_buffer(schema_ipc))
    paths = ", ".join(f"'{_escaped(path)}'" for path in source.files)
    listed = ", ".join(map(quoted, schema.names))
    # Bounds of floats leave NaN out, which is greater than all numbers.
    read = f"read_parquet([{paths}], hive_partitioning = false, can_have_nan = true)"
    cursor.execute(f"CREATE TEMP VIEW {name} AS SELECT {listed} FROM {read}")  # noqa: S608  paths and names are quoted
    found = [row[1] for row in cursor.execute(f"DESCRIBE {name}").fetchall()]
    wanted = [duck_type(field.type).replace(", ", ",") for field in schema]
    if found != wanted:
        raise Unfit("DuckDB has other types for the columns of a file")


def _escaped(path: str) -> str:
    return path.replace("'", "''")
