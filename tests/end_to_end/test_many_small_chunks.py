"""A file of many row groups and columns, whose column chunks are small, is read in few requests."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle import _native
from exoshuffle.operators.core.streams import as_reader

GROUPS, COLUMNS, ROWS = 300, 200, 40


def _num_reads() -> int:
    """Returns how often this process has read of a file."""
    text = Path("/proc/self/io").read_text(encoding="utf-8")
    return int(dict(line.split(": ") for line in text.splitlines())["syscr"])


def _written(folder: Path) -> Path:
    """Writes 60,000 column chunks of about 400 bytes."""
    file = folder / "in.parquet"
    schema = pa.schema([(f"c{column}", pa.int64()) for column in range(COLUMNS)])
    with pq.ParquetWriter(file, schema, use_dictionary=False, compression="none") as writer:
        for group in range(GROUPS):
            first = group * ROWS
            columns = [range(first + column, first + column + ROWS) for column in range(COLUMNS)]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))
    return file


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how often files are read")
def test_small_chunks_of_many_row_groups_are_read_together(tmp_path: Path) -> None:
    """Chunks of more than 16 MiB together were read one by one."""
    file = _written(tmp_path)
    options = _native.ReadOptions()
    source = _native.Source([str(file)], options)
    [split] = source.splits(1 << 40)
    before = _num_reads()
    rows = as_reader(_native.Rows.scan(options, source.schema_ipc, [split])).read_all()
    assert _num_reads() - before < 1000
    assert rows.equals(pq.read_table(file))
