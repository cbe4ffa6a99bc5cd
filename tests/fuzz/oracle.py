"""Asks DuckDB about tables, and brings rows of tables into an order that it finds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import duckdb
import pyarrow as pa

#: The number of a row, which orders rows that SQL leaves unordered.
ROW = "fuzz_row"


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"disabled_optimizers": "join_filter_pushdown"})


def query(sql: str, *, zone: str = "UTC", **named: pa.Table) -> pa.Table:
    """Returns the result of a query of tables, in a time zone."""
    connection = _connection()
    # DuckDB knows some offsets.
    connection.execute(f"set timezone = '{f'GMT{zone}' if zone[0] == '+' else zone}'")
    for name, table in named.items():
        connection.register(name, table)
    try:
        return connection.sql(sql).to_arrow_table()
    finally:
        for name in named:
            connection.unregister(name)


def numbered(table: pa.Table) -> pa.Table:
    """Returns the table with the numbers of its rows."""
    return table.append_column(ROW, pa.array(range(table.num_rows), pa.int64()))


def in_order(table: pa.Table, order: str) -> pa.Table:
    """Returns the rows in an order that DuckDB finds; equal rows keep theirs."""
    keys = list(dict.fromkeys(name for name in table.column_names if f'"{name}"' in order))
    found = query(f"select {ROW} from t order by {order}, {ROW}", t=numbered(table.select(keys)))  # noqa: S608
    return taken(table, found.column(0))


def where(table: pa.Table, condition: str, columns: Sequence[str], zone: str = "UTC") -> pa.Table:
    """Returns the rows for which a condition on some columns holds."""
    found = query(
        f"select {ROW} from t where {condition} order by {ROW}",  # noqa: S608
        zone=zone,
        t=numbered(table.select(columns)),
    )
    return taken(table, found.column(0))


def taken(table: pa.Table, rows: pa.ChunkedArray | Sequence[int]) -> pa.Table:
    """Returns some rows by their numbers, whatever the types are."""
    numbers = rows if isinstance(rows, pa.ChunkedArray) else pa.array(rows, pa.int64())
    made = [_taken(column, numbers) for column in table.columns]
    return pa.Table.from_arrays(made, schema=table.schema)


def _taken(column: pa.ChunkedArray, rows: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    """Takes values, also from views and runs, where pyarrow cannot."""
    kind = column.type
    if pa.types.is_string_view(kind):
        return column.cast(pa.string()).take(rows).cast(kind)
    if pa.types.is_binary_view(kind):
        return column.cast(pa.binary()).take(rows).cast(kind)
    try:
        return column.take(rows)
    except pa.ArrowNotImplementedError:
        # Columns of runs, or with views in them, are taken one slice at a time.
        slices = [column.slice(row, 1).chunk(0) for row in rows.to_pylist()]
        return pa.chunked_array(slices, kind)
