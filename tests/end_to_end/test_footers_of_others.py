"""Footers of Parquet that pyarrow and DuckDB take, though the decoder does not: they are mended on the way."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


def _changed(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


@pytest.mark.usefixtures("engine")
def test_a_table_without_rows_of_fastparquet(tmp_path: Path) -> None:
    """It writes the empty list of row groups as one of no type."""
    path = tmp_path / "0.parquet"
    pq.ParquetWriter(path, SCHEMA, store_schema=False).close()
    # The number of rows, and the list of structures behind it.
    _changed(path, b"\x16\x00\x19\x0c", b"\x16\x00\x19\x00")
    assert pq.read_table(path).num_rows == 0
    assert duckdb.read_parquet(str(path)).fetchall() == []
    pq.write_table(pa.table({"k": [1], "s": ["a"]}, SCHEMA), tmp_path / "1.parquet")
    assert xs.read_parquet(path).to_arrow().equals(SCHEMA.empty_table())
    assert xs.read_parquet(tmp_path).sort("k").to_pylist() == [{"k": 1, "s": "a"}]


@pytest.mark.usefixtures("engine")
def test_metadata_that_is_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    rows = pa.table({"k": [1, 2], "s": ["a", "b"]}, SCHEMA)
    written = rows.replace_schema_metadata({"author": "somebody"})
    with pq.ParquetWriter(path, written.schema, store_schema=False) as writer:
        writer.write_table(written)
        writer.add_key_value_metadata({"author": "somebody"})
    _changed(path, b"somebody", b"some\xff\xfedy")
    assert pq.read_table(path).num_rows == 2
    found = xs.read_parquet(path).to_arrow()
    assert found.equals(rows)
    assert found.schema.metadata in (None, {b"author": b"some??dy"})
