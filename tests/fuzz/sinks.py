"""Destinations of results, and ways in which other programs read them again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from pyarrow import json as pa_json

import exoshuffle as xs
from tests.fuzz import tables
from tests.fuzz.operations import Operation

_COMPRESSIONS = {
    "parquet": ["none", "snappy", "zstd", "lz4", "gzip"],
    "arrow": ["none", "zstd", "lz4"],
}
#: Programs that read Parquet.
READERS = ["pyarrow", "duckdb", "polars"]
#: The folder of nulls.
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: Types that JSON lines hold as they are.
_JSON = (
    "int64",
    "text",
    "wide",
    "int32",
    "uint8",
    "int16",
    "int8",
    "bool",
    "large",
    "long",
    "dictionary",
)


@dataclass(frozen=True)
class Sink:
    """The destination of a result.

    Attributes:
        kind: ``table``, ``batches``, ``stream``, ``directory``, ``file``, ``folders`` or ``standard output``.
        format: Format of files.
        compression: Compression of files.
        target: Size of files of a directory.
        reader: The program that reads the result.
    """

    kind: str
    format: str = "arrow"
    compression: str = "none"
    target: str | None = None
    reader: str = "pyarrow"

    @property
    def options(self) -> list[str]:
        """Returns the same as options of the command line."""
        target = [] if self.target is None else ["--target-file-size", self.target]
        folders = ["--partition-by", "few"] if self.kind == "folders" else []
        return [
            "--output-format",
            self.format,
            "--compression",
            self.compression,
            *target,
            *folders,
        ]

    @property
    def name(self) -> str:
        """Returns the name of the output, beside the input."""
        return f"out.{self.format}" if self.kind == "file" else "out"

    def __str__(self) -> str:
        target = f" of {self.target}" if self.target else ""
        reader = f", read by {self.reader}" if self.reader != "pyarrow" else ""
        return f"{self.kind} ({self.format} {self.compression}{target}{reader})"

    def write(self, dataset: xs.Dataset, folder: Path) -> int:
        """Writes the result into a folder; returns how many bytes of it were in the caller's memory."""
        if self.kind in ("table", "batches", "stream"):
            return _write_stream(dataset, self.kind, folder / "out.stream")
        write = {
            "parquet": dataset.write_parquet,
            "arrow": dataset.write_ipc,
            "csv": dataset.write_csv,
            "jsonl": dataset.write_json,
        }[self.format]
        options = {} if self.format in ("csv", "jsonl") else {"compression": self.compression}
        if self.kind != "file":
            by = "few" if self.kind == "folders" else None
            options |= {"target_file_size": self.target, "partition_by": by}
        write(folder / self.name, **options)
        return 0

    def read(self, folder: Path, wanted: pa.Table) -> pa.Table:
        """Returns the rows that were written; text as the wanted types."""
        if self.kind in ("table", "batches", "stream"):
            return pa.ipc.open_stream((folder / "out.stream").read_bytes()).read_all()
        if self.kind == "standard output":
            file = folder / "out"
            if self.format == "arrow":
                return pa.ipc.open_stream(file.read_bytes()).read_all()
            return _read(file, self.format, wanted)
        files = sorted(file for file in (folder / "out").rglob(f"*.{self.format}"))
        if self.kind == "file":
            files = [folder / self.name]
        if self.kind != "folders" and self.reader != "pyarrow":
            return _read_by[self.reader]([str(file) for file in files])
        if self.kind in ("directory", "file"):
            return pa.concat_tables([_read(file, self.format, wanted) for file in files])
        plain = wanted.drop_columns(["few"])
        parts = [with_folder(_read(file, self.format, plain), file.parent.name) for file in files]
        return pa.concat_tables(parts) if parts else wanted.slice(0, 0)


def draw(
    rng: random.Random, columns: dict[str, str], operation: Operation, *, is_command: bool
) -> Sink:
    """Draws the destination of a case."""
    kinds = [tables.kinds()[kind] for kind in columns.values()]
    formats = ["parquet", "parquet", "arrow"]
    if not all(kind.in_parquet for kind in kinds):
        formats = ["arrow"]
    if operation.is_flat and all(kind.is_text for kind in kinds):
        formats.append("csv")
    if operation.is_flat and not operation.close and all(kind.name in _JSON for kind in kinds):
        formats.append("jsonl")
    ways = ["table", "batches", "stream", "directory", "directory", "directory", "file"]
    if operation.is_kept:
        ways.append("folders")
    if is_command:
        ways = ["directory", "file", "standard output"]
    form, kind = rng.choice(formats), rng.choice(ways)
    target = rng.choice([None, None, "20kB"]) if kind in ("directory", "folders") else None
    compression = rng.choice(_COMPRESSIONS.get(form, ["none"]))
    # Types that other programs have, too.
    is_plain = form == "parquet" and all(each.is_plain for each in kinds)
    reader = rng.choice(READERS) if is_plain else "pyarrow"
    return Sink(kind, form, compression, target, reader)


def folder_of(value: int | None) -> str:
    """Returns the name of the folder that says what ``few`` is."""
    return f"few={_NULL if value is None else value}"


def with_folder(table: pa.Table, folder: str) -> pa.Table:
    """Returns a table with the value that the name of the folder has."""
    text = folder.removeprefix("few=")
    value = None if text == _NULL else int(text)
    return table.append_column("few", pa.array([value] * table.num_rows, pa.int64()))


def _write_stream(dataset: xs.Dataset, kind: str, path: Path) -> int:
    kept: pa.Table | None = None
    if kind == "table":
        kept = dataset.to_arrow()
        batches = kept.to_batches()
    elif kind == "batches":
        batches = dataset.iter_batches()
    else:
        batches = pa.RecordBatchReader.from_stream(dataset)
    # A stream, since batches may have dictionaries of their own.
    with pa.ipc.new_stream(str(path), dataset.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return 0 if kept is None else int(kept.nbytes)


def _by_duckdb(files: list[str]) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        return connection.read_parquet(files).to_arrow_table()


def _by_polars(files: list[str]) -> pa.Table:
    import polars as pl

    return pl.read_parquet(files).to_arrow()


_read_by = {"duckdb": _by_duckdb, "polars": _by_polars}


def _read(file: Path, form: str, wanted: pa.Table) -> pa.Table:
    if form == "parquet":
        return pq.ParquetFile(file).read()
    if form == "arrow":
        return pa.ipc.open_file(str(file)).read_all()
    types = {field.name: _plain(field.type) for field in wanted.schema}
    if form == "csv":
        return csv.read_csv(
            file,
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )  # fmt: skip
    schema = pa.schema(list(types.items()))
    if not file.stat().st_size:
        return schema.empty_table()
    options = pa_json.ParseOptions(explicit_schema=schema, newlines_in_values=False)
    return pa_json.read_json(file, parse_options=options)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type that readers of text make of a type."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else kind
