"""Rows of a byte stay within ``memory_limit``: what an operator keeps for each row is far more than the row."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.memory.measuring import measured

NUM_ROWS = 20_000_000


def test_join_with_few(tmp_path: Path) -> None:
    """All rows of a task were looked up together: 467 MB were resident of 300."""
    path, rng = tmp_path / "in.parquet", random.Random(1)
    with pq.ParquetWriter(path, pa.schema({"b": pa.uint8()})) as file:
        for _ in range(NUM_ROWS // 1_000_000):
            values = pa.py_buffer(rng.randbytes(1_000_000))
            column = pa.Array.from_buffers(pa.uint8(), 1_000_000, [None, values])
            file.write_table(pa.table({"b": column}))
    program = """
import sys
import exoshuffle as xs
with xs.init(memory_limit="300MB", num_cpus=2, spill_dirs=sys.argv[1]):
    rows = xs.read_parquet(sys.argv[1] + "/in.parquet")
    even = xs.range(128).select(b=(xs.col("id") * 2).cast("uint8"), half="id")
    print(rows.join(even, on="b").filter("half * 2 <> b").count())
    print(rows.join(even, on="b", how="left").count())
"""
    told, peak_bytes = measured(program, str(tmp_path))
    assert told == f"0\n{NUM_ROWS}\n"
    assert peak_bytes <= 300_000_000
