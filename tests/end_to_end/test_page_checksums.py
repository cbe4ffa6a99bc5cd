"""Parquet that is written carries a checksum for every page, and a page that was changed is not read."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import CorruptFileError

ROWS = 20_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = random.Random(1)
    return pa.table(
        {
            "id": range(ROWS),
            "few": pa.array([f"word {i % 7}" for i in range(ROWS)]).dictionary_encode(),
            "words": [f"word {rng.randrange(50)}" for _ in range(ROWS)],
            "maybe": [None if i % 3 else rng.random() for i in range(ROWS)],
            "text": [f"{rng.getrandbits(60):x}" * (i % 5) for i in range(ROWS)],
            "lists": [[i, None][: i % 3] for i in range(ROWS)],
            "points": [{"x": i, "y": f"{i % 4}"} for i in range(ROWS)],
        }
    )


@pytest.fixture
def written(table: pa.Table, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=3000)
    request.getfixturevalue("engine")
    xs.read_parquet(tmp_path / "in.parquet").sort("id").write_parquet(
        tmp_path / "out.parquet", compression=request.param
    )
    return tmp_path / "out.parquet"


def checked(path: Path) -> pa.Table:
    """As pyarrow reads it, which looks at the checksums that there are."""
    return pq.read_table(path, page_checksum_verification=True)


COMPRESSIONS = pytest.mark.parametrize("written", ["none", "zstd"], indirect=True)


@COMPRESSIONS
def test_others_read_it(written: Path, table: pa.Table) -> None:
    rows = table.to_pylist()
    assert checked(written).to_pylist() == rows
    sql = (
        "select count(*), sum(id), count(distinct text), min(words), max(few) from read_parquet(?)"
    )
    found, wanted = (
        duckdb.connect().execute(sql, [str(path)]).fetchall()
        for path in (written, written.parent / "in.parquet")
    )
    assert found == wanted
    assert xs.read_parquet(written).to_arrow().to_pylist() == rows


@COMPRESSIONS
def test_sizes_and_offsets_are_right(written: Path) -> None:
    """Column chunks follow each other, and pages are found by the index: filters jump to them."""
    metadata, end = pq.read_metadata(written), 4
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            assert start == end
            assert chunk.has_offset_index
            end = start + chunk.total_compressed_size
    found = xs.read_parquet(written).filter("id between 7000 and 7010").to_arrow()
    assert found["id"].to_pylist() == list(range(7000, 7011))
    sql = "select id, words, few from read_parquet(?) where id between 7000 and 7010 order by id"
    rows = duckdb.connect().execute(sql, [str(written)]).fetchall()
    assert [row[0] for row in rows] == list(range(7000, 7011))
    assert [row[1] for row in rows] == found["words"].to_pylist()


@COMPRESSIONS
def test_every_byte_of_a_page_counts(written: Path) -> None:
    """Of each column chunk, a byte in its middle, its last, and the last of the dictionary if it has one."""
    content = written.read_bytes()
    chunks = [
        pq.read_metadata(written).row_group(0).column(column)
        for column in range(pq.read_metadata(written).num_columns)
    ]
    for chunk in chunks:
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        size = chunk.total_compressed_size
        for place in {start + size // 2, start + size - 1, chunk.data_page_offset - 1} - {
            start - 1
        }:
            changed = bytearray(content)
            changed[place] ^= 1
            written.write_bytes(changed)
            with pytest.raises(OSError, match="CRC checksum"):
                checked(written)
            with pytest.raises(CorruptFileError, match=r"out\.parquet"):
                xs.read_parquet(written).to_arrow()
    written.write_bytes(content)
    assert xs.read_parquet(written).to_arrow().num_rows == ROWS


@pytest.mark.usefixtures("engine")
def test_checksums_of_others_are_looked_at(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(
        table.select(["id"]),
        path,
        write_page_checksum=True,
        compression="none",
        use_dictionary=False,
    )
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"in\.parquet.*checksum"):
        xs.read_parquet(path).sort("id").to_arrow()
