"""The writers of Parquet and Arrow IPC files, each with options that the seed says."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

_CODECS = ["none", "snappy", "zstd", "gzip", "lz4", "brotli"]
Options = random.Random
#: From so many rows on, row groups and pages have the usual sizes.
MANY_ROWS = 20_000


def _encoding(kind: pa.DataType, options: Options) -> str:
    """Returns one of the encodings that a writer knows for this type."""
    types = pa.types
    if types.is_integer(kind) and kind.bit_width in (32, 64):
        return options.choice(["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
    if types.is_floating(kind):
        return options.choice(["PLAIN", "BYTE_STREAM_SPLIT"])
    if types.is_string(kind) or types.is_binary(kind):
        return options.choice(["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
    return "RLE" if types.is_boolean(kind) else "PLAIN"


def write_pyarrow(table: pa.Table, path: Path, options: Options) -> None:
    dictionary = options.random() < 0.5
    encodings = {field.name: _encoding(field.type, options) for field in table.schema}
    flat = {name: each for name, each in encodings.items() if each != "PLAIN"}
    pq.write_table(
        table,
        path.with_suffix(".parquet"),
        compression=options.choice(_CODECS),
        row_group_size=options.choice([7, 100, 10**6]) if table.num_rows < MANY_ROWS else 10**5,
        data_page_size=options.choice([64, 4096, 10**6]),
        data_page_version=options.choice(["1.0", "2.0"]),
        version=options.choice(["1.0", "2.4", "2.6"]),
        use_dictionary=dictionary,
        column_encoding=flat if flat and not dictionary and options.random() < 0.7 else None,
        write_statistics=options.random() < 0.5,
        write_page_index=options.random() < 0.5,
        write_page_checksum=options.random() < 0.5,
        store_schema=options.random() < 0.8,
        # Old versions have no nanoseconds.
        allow_truncated_timestamps=True,
    )


def write_spark(table: pa.Table, path: Path, options: Options) -> None:
    (path.parent / "_SUCCESS").touch()
    name = f"part-{path.name}-5a0c-c000.snappy.parquet"
    del options
    pq.write_table(
        table,
        path.with_name(name),
        flavor="spark",
        compression="snappy",
        version="1.0",
        store_schema=False,
    )


def write_polars(table: pa.Table, path: Path, options: Options) -> None:
    import polars as pl

    pl.from_arrow(table).write_parquet(
        path.with_suffix(".parquet"),
        compression=options.choice(["uncompressed", "snappy", "zstd", "gzip", "lz4"]),
        row_group_size=options.choice([50, None]) if table.num_rows < MANY_ROWS else None,
        data_page_size=options.choice([256, None]),
        statistics=options.random() < 0.5,
    )


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def copy_by_duckdb(table: pa.Table, path: Path, how: str) -> None:
    """Has DuckDB write a file."""
    connection = _connection()
    connection.register("t", table)
    connection.execute(f"copy t to '{path}' ({how})")
    connection.unregister("t")


def write_duckdb(table: pa.Table, path: Path, options: Options) -> None:
    codec = options.choice(["uncompressed", "snappy", "zstd", "gzip", "lz4_raw", "brotli"])
    version = options.choice(["V1", "V2"])
    if {pa.int32(), pa.uint32()} & set(table.schema.types):
        # DuckDB writes deltas of more than 32 bits between such numbers, which the Parquet crate refuses.
        version = "V1"
    how = f"format parquet, codec '{codec}', row_group_size 2048, parquet_version {version}"
    copy_by_duckdb(table, path.with_suffix(".parquet"), how)


def write_parquet_rs(table: pa.Table, path: Path, options: Options) -> None:
    from arro3.io import write_parquet

    write_parquet(
        table,
        str(path.with_suffix(".parquet")),
        compression=options.choice(
            ["uncompressed", "snappy", "zstd(3)", "gzip(3)", "lz4_raw", "brotli(3)"]
        ),
        max_row_group_size=options.choice([9, 1000, 10**6]) if table.num_rows < MANY_ROWS else None,
        data_page_size_limit=options.choice([64, 4096, None]),
        data_page_row_count_limit=options.choice([3, None]) if table.num_rows < 500 else None,
        dictionary_enabled=options.random() < 0.5,
        dictionary_page_size_limit=options.choice([128, None]),
        writer_version=options.choice(["parquet_1_0", "parquet_2_0"]),
        skip_arrow_metadata=options.random() < 0.2,
        bloom_filter_enabled=options.random() < 0.2,
    )


def write_ipc(table: pa.Table, path: Path, options: Options) -> None:
    how = pa.ipc.IpcWriteOptions(compression=options.choice([None, "lz4", "zstd"]))
    opened = options.choice([pa.ipc.new_file, pa.ipc.new_stream])
    rows = options.choice([1, 33, 10**6]) if table.num_rows < 5000 else 10**4
    with opened(str(path.with_suffix(".arrow")), table.schema, options=how) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=rows)


def write_feather(table: pa.Table, path: Path, options: Options) -> None:
    """Writes a file by Polars, which has text as views."""
    import polars as pl

    codec = options.choice(["uncompressed", "lz4", "zstd"])
    pl.from_arrow(table).write_ipc(path.with_suffix(".feather"), compression=codec)
