"""A task that reads a part of a row group reads the pages of its rows, and no others."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle import _native
from exoshuffle.operators.core.streams import as_reader

ROWS = 300_000


def _read_bytes() -> int:
    """Returns how many bytes this process has read of files."""
    text = Path("/proc/self/io").read_text(encoding="utf-8")
    return int(dict(line.split(": ") for line in text.splitlines())["rchar"])


def _written(folder: Path) -> Path:
    """Writes one row group in pages of 64 kB: numbers with and without nulls, and few texts."""
    draw = random.Random(3)
    numbers = [draw.random() for _ in range(ROWS)]
    columns = {
        "x": pa.array(numbers),
        "y": pa.array([None if number < 0.1 else number for number in numbers]),
        "z": pa.array([f"text {row % 50}" for row in range(ROWS)]),
    }
    file = folder / "in.parquet"
    options = {"row_group_size": ROWS, "data_page_size": 64_000, "compression": "none"}
    pq.write_table(pa.table(columns), file, use_dictionary=["z"], **options)
    return file


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the bytes that were read")
def test_parts_of_a_row_group_read_their_own_pages(tmp_path: Path) -> None:
    file = _written(tmp_path)
    options = _native.ReadOptions()
    source = _native.Source([str(file)], options)
    splits = source.splits(300_000)
    before = _read_bytes()
    parts = [
        as_reader(_native.Rows.scan(options, source.schema_ipc, [split])).read_all()
        for split in splits
    ]
    read = _read_bytes() - before
    assert len(splits) > 15
    assert pa.concat_tables(parts).equals(pq.read_table(file))
    # Each part reads the footer, headers of pages, and two pages that it has a part of.
    assert read < 5 * file.stat().st_size
