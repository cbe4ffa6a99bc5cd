"""The Parquet data set of the benchmarks: a random int64 key, an int64 row number and an 84-byte string.

Guarantee: the same ``--gb`` gives the same rows on every machine (one seed per file), and memory stays below 200 MB.
Why the standard library draws the numbers: a hundred bytes a row from ``random.randbytes`` are as fast as the disk. And
numpy is not a dependency.

    python -m benchmarks.data --gb 4
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_GB = 10_000_000
NUM_FILES = 16
TEXT_BYTES = 84
#: Small enough that an engine can spread one file over its threads.
ROW_GROUP_ROWS = 125_000

SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("row", pa.int64()),
        ("text", pa.string()),
    ]
)


def parquet_input(gb: float, root: Path) -> Path:
    """Returns the folder of the data set, which the first call generates.

    A half-written data set is never taken for a whole one: the folder gets its name when it is complete.
    """
    folder = root / f"parquet-{gb:g}gb"
    if folder.exists():
        return folder
    unfinished = root / f"{folder.name}.unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    num_rows = round(gb * ROWS_PER_GB)
    for index in range(NUM_FILES):
        first, last = (num_rows * i // NUM_FILES for i in (index, index + 1))
        _write_file(unfinished / f"part-{index:05}.parquet", index, first, last)
    unfinished.rename(folder)
    return folder


def _write_file(path: Path, seed: int, first_row: int, last_row: int) -> None:
    source = random.Random(seed)
    with pq.ParquetWriter(path, SCHEMA, compression="none", use_dictionary=False) as writer:
        for start in range(first_row, last_row, ROW_GROUP_ROWS):
            stop = min(start + ROW_GROUP_ROWS, last_row)
            writer.write_batch(_batch(source, start, stop))


def _batch(source: random.Random, start: int, stop: int) -> pa.RecordBatch:
    num_rows = stop - start
    key = pa.py_buffer(source.randbytes(num_rows * 8))
    text = pa.py_buffer(source.randbytes(num_rows * TEXT_BYTES // 2).hex().encode())
    ends = pa.array(range(0, (num_rows + 1) * TEXT_BYTES, TEXT_BYTES), pa.int32())
    return pa.record_batch(
        [
            pa.Array.from_buffers(pa.int64(), num_rows, [None, key]),
            pa.array(range(start, stop), pa.int64()),
            pa.Array.from_buffers(pa.string(), num_rows, [None, ends.buffers()[1], text]),
        ],
        schema=SCHEMA,
    )


def main() -> None:
    """Generates one data set and prints where it is."""
    parser = argparse.ArgumentParser(description="Generate the Parquet data set of the benchmarks.")
    parser.add_argument("--gb", type=float, default=4, help="size in units of ten million rows")
    parser.add_argument("--root", type=Path, default=Path("bench-data"))
    options = parser.parse_args()
    print(parquet_input(options.gb, options.root))


if __name__ == "__main__":
    main()
