"""CSV in its dialects and JSON lines, compressed or not."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

import exoshuffle as xs
from tests.fuzz.values import KINDS

CSV_KINDS = [kind.name for kind in KINDS if kind.is_text]
#: Types that are found by their text.
INFERRED_KINDS = [
    "int64",
    "text",
    "wide",
    "quarter",
    "bool",
    "date",
    "timestamp",
    "int32",
    "uint64",
    "long",
]
#: JSON has no infinities, and some programs write decimals as numbers, others as text.
JSON_KINDS = [
    "int64",
    "text",
    "wide",
    "bool",
    "int32",
    "uint8",
    "int16",
    "quarter",
    "large",
    "list",
    "texts",
    "struct",
]
#: The text for null, where null is not an empty field.
_NULL = "\\N"


@dataclass(frozen=True)
class Dialect:
    """The way CSV is written, drawn alike by writer and reader.

    Attributes:
        delimiter: The character between values.
        end: The end of lines; empty: a mix of all three.
        quote: The character around values.
        escape: The character before a quote within quotes, instead of a second quote.
        quoted: Whether text is always in quotes.
        header: Whether there is a header.
        comment: The beginning of comments, which some lines are.
        null: The text for null.
        skipped: Number of lines before the header.
        encoding: Encoding of the text.
        bom: Whether the file begins with a byte order mark.
        codec: How the file is compressed.
    """

    delimiter: str
    end: str
    quote: str
    escape: str | None
    quoted: bool
    header: bool
    comment: str | None
    null: str
    skipped: int
    encoding: str
    bom: bool
    codec: str | None

    @classmethod
    def draw(cls, options: random.Random) -> Dialect:
        """Draws the dialect of a seed: half of them are the usual one, but for the delimiter."""
        odd = options.random() < 0.5
        encoding = options.choice(["utf-8", "utf-8", "utf-8", "latin-1", "windows-1252"])
        return cls(
            options.choice([",", "\t", ";", "|"]),
            options.choice(["\n", "\r\n", "\r", ""] if odd else ["\n", "\n", "\r\n"]),
            options.choice(['"', "'"]) if odd else '"',
            options.choice([None, "\\"]) if odd else None,
            options.random() < 0.5,
            options.random() < 0.8,
            options.choice([None, "#"]) if odd else None,
            options.choice(["", _NULL]) if odd else "",
            options.choice([0, 2]) if odd else 0,
            encoding if odd else "utf-8",
            odd and encoding == "utf-8" and options.random() < 0.3,
            _codec(options),
        )

    def field(self, value: Any, is_text: bool) -> str:
        """Returns a value as it stands in a line."""
        if value is None:
            return self.null
        if isinstance(value, bool):
            return "true" if value else "false"
        written = "NaN" if value != value else str(value)  # noqa: PLR0124
        special = (self.delimiter, self.quote, "\n", "\r", self.comment or "\n", self.null or "\n")
        if (is_text and self.quoted) or not written or any(each in written for each in special):
            inner = written
            if self.escape is not None:
                inner = inner.replace(self.escape, self.escape * 2)
                inner = inner.replace(self.quote, self.escape + self.quote)
            else:
                inner = inner.replace(self.quote, self.quote * 2)
            return f"{self.quote}{inner}{self.quote}"
        return written


def _codec(options: random.Random) -> str | None:
    return options.choice([None, None, None, None, "gzip", "zstd"])


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def adapted(table: pa.Table, options: random.Random) -> pa.Table:
    """Returns the table with text that the encoding has."""
    if Dialect.draw(options).encoding == "utf-8":
        return table
    return _mapped(table, _in_latin)


def plainly_text(table: pa.Table, options: random.Random) -> pa.Table:
    """Returns the table with text that no reader takes for something else."""

    def marked(column: pa.ChunkedArray) -> pa.ChunkedArray:
        mark = pa.scalar("t", column.type)
        return pc.binary_join_element_wise(mark, column, pa.scalar("", column.type))

    return _mapped(adapted(table, options), marked)


def _mapped(table: pa.Table, change: Callable[[pa.ChunkedArray], Any]) -> pa.Table:
    columns = [change(each) if is_text(each.type) else each for each in table.columns]
    return pa.table(columns, table.column_names)


def _in_latin(column: pa.ChunkedArray) -> pa.Array:
    kept = [
        None if each is None else each.encode("latin-1", "ignore").decode("latin-1")
        for each in column.to_pylist()
    ]
    return pa.array(kept, column.type)


def write_csv(table: pa.Table, path: Path, options: random.Random) -> None:
    """Writes a file by hand."""
    dialect = Dialect.draw(options)
    _write_csv(table, path, dialect, options)


def write_inferred_csv(table: pa.Table, path: Path, options: random.Random) -> None:
    """Writes a file that tells the names of its columns."""
    _write_csv(table, path, replace(Dialect.draw(options), header=True), options)


def _write_csv(table: pa.Table, path: Path, dialect: Dialect, options: random.Random) -> None:
    encoding = dialect.encoding.replace("windows-", "cp")
    content = _rows(table, dialect, options).encode(encoding)
    mark = b"\xef\xbb\xbf" if dialect.bom else b""
    compressed(path.with_suffix(".csv"), mark + content, dialect.codec)


def _rows(table: pa.Table, dialect: Dialect, options: random.Random) -> str:
    are_text = [is_text(kind) for kind in table.schema.types]
    lines = ["what comes first is skipped"] * dialect.skipped
    if dialect.header:
        lines.append(dialect.delimiter.join(table.column_names))
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if dialect.comment and options.random() < 0.05:
            lines.append(f'{dialect.comment} no row: "{dialect.delimiter}')
        lines.append(dialect.delimiter.join(map(dialect.field, row, are_text)))
    ends = ["\n", "\r\n", "\r"] if dialect.end == "" else [dialect.end]
    body = "".join(line + options.choice(ends) for line in lines)
    return body if options.random() < 0.7 else body.rstrip("\r\n")


def read_csv(folder: Path, schema: pa.Schema, options: random.Random, hive: Any) -> xs.Dataset:
    """Returns the dataset of files of ``write_csv``."""
    return _read_csv(folder, Dialect.draw(options), schema, hive)


def read_inferred_csv(
    folder: Path, schema: pa.Schema, options: random.Random, hive: Any
) -> xs.Dataset:
    """Returns the dataset of files of ``write_inferred_csv``."""
    del schema
    return _read_csv(folder, replace(Dialect.draw(options), header=True), None, hive)


def _read_csv(folder: Path, dialect: Dialect, schema: pa.Schema | None, hive: Any) -> xs.Dataset:
    return xs.read_csv(
        folder,
        delimiter=dialect.delimiter,
        header=dialect.header,
        schema=schema,
        quote=dialect.quote,
        escape=dialect.escape,
        comment=dialect.comment,
        null_values=[dialect.null] if dialect.null else [],
        skip_rows=dialect.skipped,
        encoding=dialect.encoding,
        hive=hive,
    )


def write_csv_by_pyarrow(table: pa.Table, path: Path, options: random.Random) -> None:
    """Writes a file fast."""
    delimiter, codec = options.choice([",", "\t", "|"]), _codec(options)
    sink, style = pa.BufferOutputStream(), options.choice(["all_valid", "needed"])
    csv.write_csv(table, sink, csv.WriteOptions(delimiter=delimiter, quoting_style=style))
    compressed(path.with_suffix(".csv"), sink.getvalue().to_pybytes(), codec)


def read_csv_of_pyarrow(
    folder: Path, schema: pa.Schema, options: random.Random, hive: Any
) -> xs.Dataset:
    """Returns the dataset of files of ``write_csv_by_pyarrow``."""
    delimiter = options.choice([",", "\t", "|"])
    return xs.read_csv(folder, delimiter=delimiter, schema=schema, hive=hive)


def compressed(path: Path, content: bytes, codec: str | None) -> None:
    """Writes a file, compressed as its ending says."""
    if codec == "gzip":
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content, 1))
    elif codec == "zstd":
        with pa.CompressedOutputStream(str(path) + ".zst", "zstd") as out:
            out.write(content)
    else:
        path.write_bytes(content)


def write_json(table: pa.Table, path: Path, options: random.Random) -> None:
    """Writes one file, by DuckDB, by Polars or by hand: keys in any order, nulls left out, characters escaped."""
    _write_json(table, path, options, may_be_sparse=True)


def write_inferred_json(table: pa.Table, path: Path, options: random.Random) -> None:
    """Writes one file with all columns in each line, in the same order."""
    _write_json(table, path, options, may_be_sparse=False)


def _write_json(
    table: pa.Table, path: Path, options: random.Random, *, may_be_sparse: bool
) -> None:
    from tests.fuzz.writers import copy_by_duckdb

    codec, writer = _codec(options), options.choice(["duckdb", "polars", "python", "python"])
    path = path.with_suffix(".jsonl")
    if writer == "duckdb":
        copy_by_duckdb(table, path, "format json")
        content = path.read_bytes()
        path.unlink()
    elif writer == "polars":
        import polars as pl

        content = pl.from_arrow(table).write_ndjson().encode()
    else:
        content = _json_by_hand(table, options, may_be_sparse).encode()
    compressed(path, content, codec)


def _json_by_hand(table: pa.Table, options: random.Random, may_be_sparse: bool) -> str:
    escaped, sparse = options.random() < 0.5, may_be_sparse and options.random() < 0.5
    separators, end = options.choice([(",", ":"), (", ", " : ")]), options.choice(["\n", "\r\n"])
    lines = []
    for row in table.to_pylist():
        items = [(name, value) for name, value in row.items() if value is not None or not sparse]
        if sparse:
            options.shuffle(items)
        lines.append(json.dumps(dict(items), ensure_ascii=escaped, separators=separators))
    return "".join(line + end for line in lines)


def read_json(folder: Path, schema: pa.Schema, options: random.Random, hive: Any) -> xs.Dataset:
    """Returns the dataset of such files, whose types are given."""
    del options
    return xs.read_json(folder, schema=schema, hive=hive)


def read_inferred_json(
    folder: Path, schema: pa.Schema, options: random.Random, hive: Any
) -> xs.Dataset:
    """Returns the dataset of such files, whose types are found."""
    del schema, options
    return xs.read_json(folder, hive=hive)
