"""Parquet is written with the compression of the input, zstd where that has none, or the one that is named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

TABLE = pa.table({"id": range(1000), "text": ["a text"] * 1000})


def codecs(folder: Path) -> set[str]:
    """The compressions of all column chunks below a folder."""
    footers = [pq.read_metadata(path) for path in folder.rglob("*.parquet")]
    groups = [footer.row_group(at) for footer in footers for at in range(footer.num_row_groups)]
    return {group.column(at).compression for group in groups for at in range(group.num_columns)}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("snappy", "SNAPPY"),
        ("zstd", "ZSTD"),
        ("gzip", "GZIP"),
        ("lz4", "LZ4"),
        ("brotli", "ZSTD"),
        ("none", "ZSTD"),
    ],
)
def test_the_codec_of_the_input(given: str, made: str, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "in.parquet", compression=given)
    rows = xs.read_parquet(tmp_path / "in.parquet")
    rows.sort("id").write_parquet(tmp_path / "sorted")
    rows.select("text").write_parquet(tmp_path / "scanned")
    rows.write_parquet(tmp_path / "folders", partition_by="text")
    assert codecs(tmp_path / "sorted") == codecs(tmp_path / "scanned") == {made}
    assert codecs(tmp_path / "folders") == {made}


def test_the_codec_of_most_bytes_of_the_first_file(tmp_path: Path) -> None:
    each = {"id": "gzip", "text": "snappy"}
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    table = pa.table({"id": range(5000), "text": ["a"] * 5000})
    pq.write_table(table, files[0], compression=each, use_dictionary=False)
    pq.write_table(table, files[1], compression="zstd")
    xs.read_parquet(files).write_parquet(tmp_path / "out")
    assert codecs(tmp_path / "out") == {"GZIP"}


def test_zstd_where_no_parquet_is_read(tmp_path: Path) -> None:
    xs.from_arrow(TABLE).write_csv(tmp_path / "csv")
    xs.read_csv(tmp_path / "csv").write_parquet(tmp_path / "a")
    xs.from_arrow(TABLE).sort("id").write_parquet(tmp_path / "b")
    xs.range(10).write_parquet(tmp_path / "c.parquet")
    pq.write_table(TABLE.slice(0, 0), tmp_path / "none.parquet", compression="none")
    read = xs.read_parquet(tmp_path / "none.parquet").union(xs.from_arrow(TABLE))
    read.write_parquet(tmp_path / "d")
    for name in ("a", "b", "d"):
        assert codecs(tmp_path / name) == {"ZSTD"}
    assert pq.read_metadata(tmp_path / "c.parquet").row_group(0).column(0).compression == "ZSTD"


def test_the_codec_that_is_named(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "in.parquet", compression="zstd")
    rows = xs.read_parquet(tmp_path / "in.parquet")
    rows.write_parquet(tmp_path / "none", compression="none")
    rows.write_parquet(tmp_path / "snappy", compression="snappy")
    assert codecs(tmp_path / "none") == {"UNCOMPRESSED"}
    assert codecs(tmp_path / "snappy") == {"SNAPPY"}


def test_the_bill_knows(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "in.parquet", compression="snappy", use_dictionary=False)
    rows = xs.read_parquet(tmp_path / "in.parquet").sort("id")
    assert rows.explain(tmp_path / "out").output_is_most
