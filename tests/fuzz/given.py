"""Rows that no format of tables tells: given by a program as Arrow data or frames, lines of text, and whole files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

import exoshuffle as xs
from tests.fuzz.writers import Options


def write_stream(table: pa.Table, path: Path, options: Options) -> None:
    """Writes exactly these types, for ``read_given`` and its siblings to read."""
    del options
    with pa.ipc.new_stream(str(path.with_suffix(".stream")), table.schema) as writer:
        writer.write_table(table)


def _tables(folder: Path) -> Iterator[pa.Table]:
    for path in sorted(folder.glob("*.stream")):
        yield pa.ipc.open_stream(path.read_bytes()).read_all()


def read_given(folder: Path, schema: pa.Schema, options: Options, hive: Any) -> xs.Dataset:
    """Gives a table, a list of tables, or a stream that can be read once, in batches of any size."""
    del hive
    tables = list(_tables(folder))
    if options.random() < 0.3:
        return xs.from_arrow(tables)
    table = pa.concat_tables(tables)
    if options.random() < 0.4:
        return xs.from_arrow(table)
    rows = options.choice([1, 7, 1000, 10**6])
    return xs.from_arrow(pa.RecordBatchReader.from_batches(schema, table.to_batches(rows)))


def read_frame(folder: Path, schema: pa.Schema, options: Options, hive: Any) -> xs.Dataset:
    """Gives a frame of Polars."""
    del schema, hive
    frame = pl.DataFrame(pl.from_arrow(pa.concat_tables(_tables(folder))))
    return xs.from_polars(frame) if options.random() < 0.5 else xs.from_arrow(frame)


#: Between the values of a row in a line.
_BAR = "|"


def _lines(table: pa.Table) -> list[str]:
    return [
        _BAR.join("" if value is None else str(value) for value in row.values())
        for row in table.to_pylist()
    ]


def write_lines(table: pa.Table, path: Path, options: Options) -> None:
    """Writes whole numbers as lines; the last may lack its end."""
    end = options.choice(["\n", "\r\n"])
    text = end.join(_lines(table)) + (end if options.random() < 0.5 and table.num_rows else "")
    path.with_suffix(".txt").write_bytes(text.encode())


def write_files(table: pa.Table, path: Path, options: Options) -> None:
    """Writes each row to a file of its own."""
    del options
    for number, line in enumerate(_lines(table)):
        path.with_name(f"{path.name}-{number:03}.bin").write_text(line)


def read_lines(folder: Path, schema: pa.Schema, options: Options, hive: Any) -> xs.Dataset:
    """Takes the values out of the lines."""
    del options, hive
    rows = xs.read_text(folder)
    return rows.select(**_values(f'"{rows.columns[0]}"', schema))


def read_files(folder: Path, schema: pa.Schema, options: Options, hive: Any) -> xs.Dataset:
    """Takes the values out of the bytes of files."""
    del options, hive
    return xs.read_binary(folder).select(**_values("decode(bytes)", schema))


def _values(text: str, schema: pa.Schema) -> dict[str, str]:
    types = {pa.int64(): "bigint", pa.int32(): "integer"}
    return {
        field.name: f"nullif(split_part({text}, '{_BAR}', {number}), '')::{types[field.type]}"
        for number, field in enumerate(schema, start=1)
    }
