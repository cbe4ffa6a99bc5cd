"""Tables for the tests of the native module, and the short ways into it and out of it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from exoshuffle import _native

#: Ascending, nulls last.
Key = tuple[str, bool, bool]


def ascending(*columns: str) -> list[Key]:
    """Sort keys of these columns."""
    return [(column, False, False) for column in columns]


def sorter(schema: pa.Schema, keys: Sequence[Key] = ()) -> _native.Sorter:
    """A sorter of tables of this schema."""
    return _native.Sorter.table(_native.ReadOptions(), schema.serialize().to_pybytes(), list(keys))


def slices(scattered: _native.Scattered) -> list[bytes]:
    """The slices that a map wrote."""
    block = bytearray(scattered.offsets[-1])
    scattered.write_into(block)
    ends = scattered.offsets
    return [bytes(block[a:b]) for a, b in itertools.pairwise(ends)]


def opened(slices: Sequence[Any], partition: int = 0, first: int = 0) -> _native.Sections:
    """The slices of a partition, which have the output of maps from number ``first`` on."""
    return _native.Sections(list(slices), partition, first)


def read_ipc(rows: _native.Rows) -> pa.Table:
    """All rows, by the way that results of tasks take."""
    stream = rows.to_ipc_stream()
    block = bytearray(stream.num_bytes)
    stream.write_into(block)
    return pa.ipc.open_stream(bytes(block)).read_all()


def rows_of(*tables: pa.Table) -> list[str]:
    """All rows as text that tells -0.0 from 0.0 and takes NaN for itself."""
    return [repr(tuple(row.values())) for table in tables for row in table.to_pylist()]


def parquet_splits(directory: Path, table: pa.Table, split_bytes: int) -> list[_native.Split]:
    """The table as one Parquet file with small row groups, cut into splits."""
    path = directory / "table.parquet"
    pq.write_table(table, path, row_group_size=500)
    return _native.Source([str(path)], _native.ReadOptions()).splits(split_bytes)


def mixed_table(num_rows: int, seed: int = 0) -> pa.Table:
    """Columns of many types with nulls, few distinct values in the keys, a column that does not fit into rows."""
    chosen = random.Random(seed)

    def column(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
        drawn = [None if chosen.random() < 0.1 else chosen.choice(values) for _ in range(num_rows)]
        return pa.array(drawn, kind)

    floats = [0.0, -0.0, float("nan"), 1.5, -2.5, float("inf")]
    words = ["", "a", "b\0", "a word of more than twelve bytes", "é" * 9]
    return pa.table(
        {
            "id": pa.array(range(num_rows), pa.int64()),
            "k": column(pa.int32(), range(-9, 9)),
            "f": column(pa.float64(), floats),
            "s": column(pa.string(), words),
            "ls": column(pa.large_string(), words),
            "v": column(pa.string_view(), words),
            "d": column(pa.dictionary(pa.int8(), pa.string()), words),
            "b": column(pa.bool_(), [True, False]),
            "n": column(pa.decimal128(20, 2), [Decimal("1.10"), Decimal("-7.25")]),
            "t": column(pa.timestamp("us", "UTC"), range(5)),
            "l": column(pa.list_(pa.int16()), [[], [1], [2, None]]),
        }
    )
