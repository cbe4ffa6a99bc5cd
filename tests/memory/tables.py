"""Tables of random numbers and texts, larger than the memory limits of these tests."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def numbers(count: int, seed: int) -> pa.Array:
    """Random 64-bit integers."""
    data = random.Random(seed).randbytes(8 * count)
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(data)])


def texts(count: int, width: int, seed: int) -> pa.Array:
    """Random ASCII strings of equal length."""
    noise = bytes(byte % 64 + 48 for byte in random.Random(seed).randbytes(1 << 18))
    data = (noise * (count * width // len(noise) + 1))[: count * width]
    offsets = struct.pack(f"<{count + 1}i", *range(0, count * width + 1, width))
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def write_table(folder: Path, num_files: int, num_rows: int, width: int) -> Path:
    """Files of a key and, unless ``width`` is 0, a string of that length."""
    folder.mkdir()
    for index in range(num_files):
        columns = {"key": numbers(num_rows, index)}
        if width:
            columns["text"] = texts(num_rows, width, index)
        path = folder / f"{index}.parquet"
        pq.write_table(
            pa.table(columns),
            path,
            row_group_size=-(-num_rows // 4),
            use_dictionary=False,
            compression="none",
        )
    return folder
