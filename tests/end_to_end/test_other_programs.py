"""Files that other programs write, as they do and Arrow's own writers do not."""

from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, ipc

import exoshuffle as xs
from exoshuffle.errors import InputError, SchemaError

pytestmark = pytest.mark.usefixtures("engine")

#: Years that int64 holds in nanoseconds, and others, which stand for "never" in many tables.
MOMENTS = [
    dt.datetime(year, 12, 31, 1, 2, 3, 456)  # noqa: DTZ001  without a zone
    for year in (1, 1500, 1677, 1970, 2024, 2262, 2263, 9999)
]


def test_timestamps_of_96_bits_keep_their_year(tmp_path: Path) -> None:
    """As Spark and Hive write them: without Arrow's schema in the footer."""
    kind = pa.timestamp("us")
    table = pa.table(
        {
            "i": range(len(MOMENTS) + 1),
            "ts": pa.array([*MOMENTS, None], kind),
            "nested": pa.array(
                [{"n": i, "l": [moment, None]} for i, moment in enumerate(MOMENTS)] + [None],
                pa.struct([("n", pa.int64()), ("l", pa.list_(kind))]),
            ),
        }
    )
    path = tmp_path / "in.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)
    data = xs.read_parquet(path)
    assert data.schema.field("ts").type == kind
    with duckdb.connect() as connection:
        wanted = connection.sql(f"FROM '{path}' ORDER BY ts DESC").to_arrow_table().to_pylist()
    assert data.sort("ts", descending=True).to_arrow().to_pylist() == wanted
    assert data.to_arrow().to_pylist() == table.to_pylist()
    assert data.filter("ts > '3000-01-01'").to_arrow()["i"].to_pylist() == [7]


def test_what_arrow_declares_of_them_holds(tmp_path: Path) -> None:
    table = pa.table({"ts": pa.array([1, None, 2**62], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "in.parquet", use_deprecated_int96_timestamps=True)
    assert xs.read_parquet(tmp_path / "in.parquet").to_arrow().equals(table)


@pytest.mark.usefixtures("engine")
def test_dictionaries_of_int96_timestamps(tmp_path: Path) -> None:
    """The schema that pyarrow writes beside them says that they are dictionaries; the decoder has none of these."""
    moments = pa.array([1, 2, None, 2], pa.timestamp("us"))
    table = pa.table({"d": moments.dictionary_encode(), "s": [{"m": each} for each in "abcd"]})
    path = tmp_path / "in.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert "INT96" in str(pq.ParquetFile(path).schema).upper()
    read = xs.read_parquet(path).to_arrow()
    assert read["d"].cast(pa.timestamp("us")).combine_chunks() == moments
    assert read["s"].to_pylist() == table["s"].to_pylist()


@pytest.mark.parametrize("number", ["4294967295 - i", "hash(i) % 4294967296"])
def test_numbers_with_steps_that_are_too_wide_are_named(number: str, tmp_path: Path) -> None:
    """DuckDB packs numbers of 32 bits without a sign as if they had 64; the decoder takes steps of 32."""
    path = tmp_path / "in.parquet"
    with duckdb.connect() as connection:
        rows = f"SELECT ({number})::UINTEGER AS u, i FROM range(1000) AS t(i)"  # noqa: S608
        connection.sql(f"COPY ({rows}) TO '{path}' (PARQUET_VERSION v2)")
    data = xs.read_parquet(path)
    with pytest.raises(InputError, match=r"column 'u' has numbers .* PARQUET_VERSION v1, or with"):
        data.sort("u").to_arrow()
    assert data.select("i").to_arrow()["i"].to_pylist() == list(range(1000))


@pytest.mark.parametrize("column", ["v", "[v]", "{'a': v}"])
def test_intervals_are_refused_where_they_are_read(column: str, tmp_path: Path) -> None:
    """The decoder leaves out their months."""
    path = tmp_path / "in.parquet"
    with duckdb.connect() as connection:
        rows = "SELECT i, to_months(i::INTEGER) + to_days(1) AS v FROM range(3) AS t(i)"
        connection.sql(f"COPY (SELECT {column} AS v, i FROM ({rows})) TO '{path}'")  # noqa: S608
    data = xs.read_parquet(path)
    words = r"in.parquet' has intervals in column 'v', .* months .* drop\('v'\)"
    for read in (data.to_arrow, data.sort("i").to_arrow, lambda: data.head(1)):
        with pytest.raises(SchemaError, match=words):
            read()
    with pytest.raises(SchemaError, match=words):
        data.write_parquet(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for others in (data.drop("v"), data.select("i").sort("i"), data.filter("i >= 0").select("i")):
        assert others.to_arrow().to_pydict() == {"i": [0, 1, 2]}
    assert data.count() == data.filter("i >= 0").count() == 3


def test_groups_of_intervals_are_refused_where_these_are_read(tmp_path: Path) -> None:
    """pyarrow makes no array of them, and its KeyError about that reached users."""
    path = tmp_path / "in.parquet"
    with duckdb.connect() as connection:
        connection.sql(f"COPY (SELECT 1 AS k, INTERVAL 1 DAY AS i) TO '{path}'")
    groups = xs.read_parquet(path).group_by("k").agg(m="max(i)", n="count_distinct(i)")
    with pytest.raises(SchemaError, match="has intervals in column 'i'"):
        groups.to_arrow()


def test_a_window_over_no_intervals(tmp_path: Path) -> None:
    """pyarrow makes no empty table of them, and its error about that reached users."""
    path = tmp_path / "in.parquet"
    with duckdb.connect() as connection:
        rows = "SELECT 1 AS k, INTERVAL 1 DAY AS i WHERE false"
        connection.sql(f"COPY ({rows}) TO '{path}'")
    data = xs.read_parquet(path)
    assert data.with_columns(n="row_number() OVER (ORDER BY k)").to_arrow().num_rows == 0


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_zones_stay_where_the_file_has_another_unit(unit: str, tmp_path: Path) -> None:
    """pyarrow stored microseconds for nanoseconds until version 13, and has no seconds in files."""
    moments = pa.array([0, 1_700_000_000, None]).cast(pa.timestamp("s"))
    table = pa.table(
        {"ts": moments.cast(pa.timestamp(unit)).cast(pa.timestamp(unit, "Asia/Tokyo"))}
    )
    pq.write_table(table, tmp_path / "in.parquet", version="2.4")
    data = xs.read_parquet(tmp_path / "in.parquet")
    assert data.schema.field("ts").type.tz == "Asia/Tokyo"
    assert data.with_columns(h="hour(ts)").to_arrow()["h"].to_pylist() == [9, 7, None]


def test_uuids_of_others_are_uuids(tmp_path: Path) -> None:
    """DuckDB and Polars declare them in Parquet alone, without Arrow's schema."""
    path = tmp_path / "in.parquet"
    text = "00000000-0000-0000-0000-000000000001"
    with duckdb.connect() as connection:
        connection.sql(f"COPY (SELECT '{text}'::UUID AS u) TO '{path}'")
    data = xs.read_parquet(path)
    assert data.filter(f"u = '{text}'").count() == 1
    data.write_parquet(tmp_path / "out.parquet")
    with duckdb.connect() as connection:
        (row,) = (
            connection.read_parquet(str(tmp_path / "out.parquet")).project("typeof(u)").fetchall()
        )
    assert row == ("UUID",)


@pytest.mark.parametrize("other", [pa.uuid(), pa.binary(16), pa.binary()], ids=str)
@pytest.mark.parametrize("strategy", ["simple", "whole"])
def test_uuids_are_keys_of_joins(strategy: str, other: pa.DataType) -> None:
    numbers = [number.to_bytes(16, "big") for number in range(8)]
    left = xs.from_arrow(pa.table({"u": pa.array(numbers, pa.uuid()), "a": range(8)}))
    right = xs.from_arrow(pa.table({"u": pa.array(numbers[5:], other), "b": range(5, 8)}))
    joined = left.join(right, on="u", strategy=strategy).sort("a").to_arrow()
    assert joined.schema.field("u").type == pa.uuid()
    assert joined.select(["a", "b"]).to_pydict() == {"a": [5, 6, 7], "b": [5, 6, 7]}


def test_other_extension_types_are_no_uuids() -> None:
    left = xs.from_arrow(pa.table({"u": pa.array(["{}"], pa.json_())}))
    right = xs.from_arrow(pa.table({"u": pa.array([bytes(16)], pa.uuid())}))
    with pytest.raises(xs.errors.SchemaError, match="cannot join"):
        left.join(right, on="u")


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_messages_of_arrow_0_8_to_0_17(kind: str, tmp_path: Path) -> None:
    """pyarrow writes them on demand, behind a footer that tells the newer version."""
    texts = pa.array(["a", None, "b", "a"])
    table = pa.table({"n": [1, None, 3, 4], "t": texts, "d": texts.dictionary_encode()})
    options = ipc.IpcWriteOptions(metadata_version=ipc.MetadataVersion.V4)
    make = ipc.new_file if kind == "file" else ipc.new_stream
    with make(tmp_path / "in.arrow", table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=3)
    assert xs.read_ipc(tmp_path / "in.arrow").sort("n").to_arrow().equals(table.sort_by("n"))


def test_feather_of_version_1_is_named(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        feather.write_feather(pa.table({"n": [1]}), tmp_path / "in.feather", version=1)
    with pytest.raises(
        InputError, match=r"it is Feather of version 1; pyarrow\.feather\.read_table"
    ):
        xs.read_ipc(tmp_path / "in.feather")


def test_a_column_of_json_lines_without_a_type_is_named(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"a":1,"b":[1]}\n{"a":2,"b":{"c":1}}\n')
    with pytest.raises(InputError, match="line 2: column 'b': an object in one row is"):
        xs.read_json(tmp_path / "in.jsonl")
