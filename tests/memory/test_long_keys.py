"""Resident memory stays under ``--memory-limit`` where sampled keys are so long that as many as usual would not fit."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

LIMIT_BYTES = 300_000_000
ROWS, KEY_BYTES = 4_000, 60_000


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(KEY_BYTES)], ids=["text", "bytes"])
def test_a_sort_by_long_keys(
    kind: pa.DataType, measure: Callable[..., Any], tmp_path: Path
) -> None:
    """Sorts by 240 MB of keys, all of which would be sampled."""
    draw = random.Random(1)
    pool = draw.randbytes(1 << 19).hex()
    starts = [draw.randrange(len(pool) - KEY_BYTES) for _ in range(ROWS)]
    keys = pa.array([pool[start : start + KEY_BYTES] for start in starts]).cast(pa.binary())
    keys = keys.cast(kind)
    path, made = tmp_path / "in.parquet", tmp_path / "out"
    pq.write_table(pa.table({"key": keys}), path, row_group_size=500, use_dictionary=False)
    del keys
    measured = measure("sort", path, made, "--by", "key", "--memory-limit", LIMIT_BYTES)
    assert measured.peak_bytes <= LIMIT_BYTES
    rows = f"read_parquet('{made}/*.parquet', filename=true, file_row_number=true)"
    earlier = "lag(key) over (order by filename, file_row_number)"
    with duckdb.connect() as connection:
        found = connection.sql(
            f"select count(*), count(*) filter (earlier > key) from (select key, {earlier} earlier from {rows})"  # noqa: S608
        ).fetchall()
    assert found == [(ROWS, 0)]
