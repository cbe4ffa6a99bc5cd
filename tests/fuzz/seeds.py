"""Writes small real files as seeds for the targets of ``make cargo-fuzz``: ``python -m tests.fuzz.seeds``."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
from pyarrow import csv, ipc, parquet

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"
TABLE = pa.table(
    {
        "n": [1, None, -3],
        "u": pa.array([1, 2, 3_000_000_000], pa.uint32()),
        "x": [0.5, None, float("inf")],
        "text": ["a", 'b, "c"\nd', None],
        "long": pa.array(["prefix 1", "prefix 2", "prefix 3"], pa.string_view()),
        "coded": pa.array(["a", "b", "a"]).dictionary_encode(),
        "moment": pa.array([1, None, 3], pa.timestamp("us", "UTC")),
        "list": [[1], None, [2, 3]],
        "struct": [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}],
    }
)
FLAT = TABLE.drop_columns(["list", "struct"])


def _file(target: str, name: str) -> Path:
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    return CORPUS / target / name


def _texts() -> None:
    csv.write_csv(FLAT.drop_columns(["coded", "long"]), _file("csv", "pyarrow"))
    _file("csv", "short").write_bytes(b'a,b,c\r\n1,"x ""y""\n",2020-01-01 00:00:00\r\n007,,true\r')
    _file("json_lines", "short").write_bytes(b'{"a":1,"b":[{"c":"d"}]}\n{"a":2.5e3,"e":null}\n{}\n')
    source = "SELECT 1 AS n, 'x' AS s, [1, 2] AS l, {'a': 1.5} AS t FROM range(3)"
    duckdb.sql(f"COPY ({source}) TO '{_file('json_lines', 'duckdb')}' (FORMAT json)")


def _parquet() -> None:
    for codec in ("none", "snappy", "zstd", "lz4"):
        for version in ("1.0", "2.0"):
            path = _file("parquet", f"{codec}-{version}")
            parquet.write_table(
                TABLE, path, compression=codec, data_page_version=version, write_page_checksum=True
            )
    encodings = {
        "n": "DELTA_BINARY_PACKED",
        "x": "BYTE_STREAM_SPLIT",
        "text": "DELTA_LENGTH_BYTE_ARRAY",
        "long": "DELTA_BYTE_ARRAY",
    }
    plain = FLAT.set_column(4, "long", FLAT["long"].cast(pa.string())).drop_columns(["coded"])
    parquet.write_table(
        plain, _file("parquet", "deltas"), use_dictionary=False, column_encoding=encodings
    )
    source = "SELECT range AS n, 'text ' || range % 3 AS s FROM range(50)"
    path = _file("parquet", "duckdb")
    duckdb.sql(f"COPY ({source}) TO '{path}' (FORMAT parquet, PARQUET_VERSION V2)")


def _ipc() -> None:
    for codec in (None, "lz4", "zstd"):
        options = ipc.IpcWriteOptions(compression=codec)
        for kind, new in (("file", ipc.new_file), ("stream", ipc.new_stream)):
            with new(_file("ipc", f"{codec}-{kind}"), TABLE.schema, options=options) as writer:
                writer.write_table(TABLE, max_chunksize=2)


def _spill_indexes() -> None:
    _file("spill_index", "sound").write_bytes(bytes([3, 10, 0, 255]))
    _file("spill_index", "changed").write_bytes(bytes([2, 10, 20] + [0] * 17 + [1]))


if __name__ == "__main__":
    _texts()
    _parquet()
    _ipc()
    _spill_indexes()
