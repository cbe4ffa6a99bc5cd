"""Files as people bring them: one table, cut into some files, by a writer and with options that the seed says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import exoshuffle as xs
from tests.fuzz import tables

_CODECS = ["none", "snappy", "zstd", "gzip", "lz4", "brotli"]


def _read_parquet(folder: Path, schema: pa.Schema, rng: random.Random) -> xs.Dataset:
    del schema, rng
    return xs.read_parquet(folder)


@dataclass(frozen=True)
class Format:
    """How a table is written and read.

    Attributes:
        name: Of the writer.
        types: Which columns it can hold.
        write: Writes a table to a path without ending, and returns the path.
        read: The dataset of a folder of such files.
    """

    name: str
    types: dict[str, Any]
    write: Callable[[pa.Table, Path, random.Random], Any]
    read: Callable[[Path, pa.Schema, random.Random], xs.Dataset] = _read_parquet


def _pyarrow(table: pa.Table, path: Path, rng: random.Random) -> None:
    pq.write_table(
        table,
        path.with_suffix(".parquet"),
        compression=rng.choice(_CODECS),
        row_group_size=rng.choice([7, 100, 10**6]),
        data_page_size=rng.choice([64, 4096, 10**6]),
        data_page_version=rng.choice(["1.0", "2.0"]),
        version=rng.choice(["1.0", "2.4", "2.6"]),
        use_dictionary=rng.random() < 0.5,
        write_statistics=rng.random() < 0.5,
        write_page_index=rng.random() < 0.5,
        write_page_checksum=rng.random() < 0.5,
        store_schema=rng.random() < 0.8,
    )


def _spark(table: pa.Table, path: Path, rng: random.Random) -> None:
    (path.parent / "_SUCCESS").touch()
    name = f"part-{path.name}-5a0c-c000.snappy.parquet"
    pq.write_table(
        table,
        path.with_name(name),
        flavor="spark",
        compression="snappy",
        version="1.0",
        store_schema=False,
    )
    del rng


def _polars(table: pa.Table, path: Path, rng: random.Random) -> None:
    pl.from_arrow(table).write_parquet(
        path.with_suffix(".parquet"),
        compression=rng.choice(["uncompressed", "snappy", "zstd", "gzip", "lz4"]),
        row_group_size=rng.choice([50, None]),
        data_page_size=rng.choice([256, None]),
        statistics=rng.random() < 0.5,
    )


def _duckdb(table: pa.Table, path: Path, rng: random.Random) -> None:
    codec = rng.choice(["uncompressed", "snappy", "zstd", "gzip", "lz4_raw", "brotli"])
    version = rng.choice(["V1", "V2"])
    if pa.uint32() in table.schema.types:
        # As deltas, DuckDB writes numbers from 2**31 on as the Parquet crate does not read them.
        version = "V1"
    with duckdb.connect() as connection:
        connection.register("t", table)
        connection.execute(
            f"copy t to '{path.with_suffix('.parquet')}' (format parquet, codec '{codec}', row_group_size 2048, "
            f"parquet_version {version})"
        )


def _ipc(table: pa.Table, path: Path, rng: random.Random) -> None:
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
    opened = rng.choice([pa.ipc.new_file, pa.ipc.new_stream])
    with opened(str(path.with_suffix(".arrow")), table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=rng.choice([1, 33, 10**6]))


def _field(value: Any, delimiter: str, quoted: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = (
        {"inf": "inf", "-inf": "-inf", "nan": "NaN"}.get(str(value), str(value))
        if isinstance(value, float)
        else str(value)
    )
    if quoted or text == "" or any(each in text for each in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


def _dialect(rng: random.Random) -> tuple[str, str, bool]:
    """Delimiter, line end, and whether text is always in quotes; drawn alike by writer and reader."""
    return rng.choice([",", "\t", ";", "|"]), rng.choice(["\n", "\r\n"]), rng.random() < 0.5


def _csv(table: pa.Table, path: Path, rng: random.Random) -> None:
    delimiter, end, quoted = _dialect(rng)
    is_text = [pa.types.is_string(kind) for kind in table.schema.types]
    lines = [delimiter.join(table.column_names)]
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        fields = [
            _field(value, delimiter, quoted and text)
            for value, text in zip(row, is_text, strict=True)
        ]
        lines.append(delimiter.join(fields))
    content = (end.join(lines) + rng.choice(["", end])).encode()
    path.with_suffix(".csv").write_bytes(content)


def _read_csv(folder: Path, schema: pa.Schema, rng: random.Random) -> xs.Dataset:
    return xs.read_csv(folder, delimiter=_dialect(rng)[0], schema=schema)


def _jsonl(table: pa.Table, path: Path, rng: random.Random) -> None:
    del rng
    with duckdb.connect() as connection:
        connection.register("t", table)
        connection.execute(f"copy t to '{path.with_suffix('.jsonl')}' (format json)")


def _read_ipc(folder: Path, schema: pa.Schema, rng: random.Random) -> xs.Dataset:
    del schema, rng
    return xs.read_ipc(folder)


def _read_json(folder: Path, schema: pa.Schema, rng: random.Random) -> xs.Dataset:
    del rng
    return xs.read_json(folder, schema=schema)


#: JSON has no infinities, and ids are in order.
_JSON = {name: tables.TYPES[name] for name in ("int64", "text", "bool", "int32", "uint8")}
#: By name.
FORMATS = {
    each.name: each
    for each in (
        Format("pyarrow", tables.TYPES, _pyarrow),
        Format(
            "spark",
            {k: v for k, v in tables.TYPES.items() if k not in ("uint32", "uint64", "uint8")},
            _spark,
        ),
        Format("polars", tables.TYPES, _polars),
        Format("duckdb", tables.TYPES, _duckdb),
        Format("ipc", tables.TYPES, _ipc, _read_ipc),
        Format("csv", tables.PLAIN, _csv, _read_csv),
        Format("jsonl", _JSON, _jsonl, _read_json),
    )
}
