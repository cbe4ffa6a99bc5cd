"""Tables that DuckDB generates, large enough for several maps and partitions, and comparisons that ignore row order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.support.duck import duck

#: Rows with few and with many keys, nulls, special numbers, a string and a nested column.
_QUERY = """
select
    i as id,
    (hash(i, {seed}) % {keys})::bigint as k,
    case when hash(i, 1) % 10 = 0 then null else (hash(i, 2) % 7)::int end as small,
    case hash(i, 3) % 50 when 0 then 'nan'::double when 1 then '-0.0'::double when 2 then 0.0 when 3 then null
        else (hash(i, 4) % 1000) / 8 end as x,
    repeat('x', (hash(i, 5) % 30)::int) || (hash(i, 6) % 500) as text,
    [i % 3, null] as nested,
    timestamp '2020-01-01' + interval (i % 1000) minute as moment
from range({rows}) rows(i)
"""


def generated(rows: int, keys: int = 1000, seed: int = 0) -> pa.Table:
    """A table of about 80 bytes per row; column ``id`` numbers the rows."""
    with duck() as connection:
        return connection.sql(_QUERY.format(rows=rows, keys=keys, seed=seed)).to_arrow_table()


def query(sql: str, **tables: pa.Table) -> pa.Table:
    """The rows that DuckDB makes of a query over tables."""
    with duck(**tables) as connection:
        return connection.sql(sql).to_arrow_table()


def assert_same_rows(actual: pa.Table, wanted: pa.Table) -> None:
    """The same rows in any order, each as often; NaN equals NaN, −0.0 equals 0.0."""
    assert actual.column_names == wanted.column_names
    assert actual.num_rows == wanted.num_rows
    # As many rows, and none that the other has not, or not as often: then there is none missing either.
    surplus = _differences(actual, wanted)
    assert not surplus, f"{surplus} instead of {_differences(wanted, actual)}"


def _differences(these: pa.Table, others: pa.Table) -> list[Any]:
    with duck(these=these, others=others) as connection:
        sql = "select * from these except all select * from others limit 3"
        return connection.sql(sql).fetchall()
