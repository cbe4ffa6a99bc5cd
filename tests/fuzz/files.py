"""Files as people bring them: one table, cut into some files; the seed says by which writer and with which options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import exoshuffle as xs
from tests.fuzz import given, texts, writers
from tests.fuzz.values import KINDS
from tests.fuzz.writers import MANY_ROWS, Options

#: Makes the dataset of the files below a folder; ``hive`` are types of columns that folders name.
Reader = Callable[[Path, pa.Schema, Options, Any], xs.Dataset]


def _read_parquet(folder: Path, schema: pa.Schema, options: Options, hive: Any) -> xs.Dataset:
    del schema, options
    return xs.read_parquet(folder, hive=hive)


def _read_ipc(folder: Path, schema: pa.Schema, options: Options, hive: Any) -> xs.Dataset:
    del schema, options
    return xs.read_ipc(folder, hive=hive)


@dataclass(frozen=True)
class Format:
    """How a table is written and read.

    Attributes:
        name: Name of the writer.
        kinds: Names of the types of columns that it can hold.
        write: Writes a table to a path without ending.
        read: See ``Reader``.
        adapted: The table as this format can hold it, by its options.
        min_rows: With fewer, types cannot be found.
        max_rows: With more, it takes too long.
        has_folders: Whether rows are read from files as they are, which may be in folders whose names hold a column.
    """

    name: str
    kinds: Sequence[str]
    write: Callable[[pa.Table, Path, Options], Any]
    read: Reader = _read_parquet
    adapted: Callable[[pa.Table, Options], pa.Table] = lambda table, _: table
    min_rows: int = 0
    max_rows: int = 10**9
    has_folders: bool = True

    @property
    def is_text(self) -> bool:
        """Returns whether files do not tell the types of columns."""
        return self.read not in (_read_parquet, _read_ipc)


_PARQUET = [kind.name for kind in KINDS if kind.in_parquet]


def _without(*names: str) -> list[str]:
    return [name for name in _PARQUET if name not in names]


def _in_micros(table: pa.Table, _: Options) -> pa.Table:
    """Returns timestamps as microseconds: those of 96 bits are read so, as Spark means them."""
    for index, field in enumerate(table.schema):
        if field.type == pa.timestamp("ns"):
            micros = pc.floor_temporal(table.column(index), unit="microsecond")
            table = table.set_column(index, field, micros)
    return table


def _in_utc(table: pa.Table, _: Options) -> pa.Table:
    """Returns moments in UTC: DuckDB writes them without the zone that they had."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            field = field.with_type(pa.timestamp(field.type.unit, "UTC"))  # noqa: PLW2901
            table = table.set_column(index, field, table.column(index).cast(field.type))
    return table


#: Types that Polars lacks, or writes as others.
_NOT_POLARS = ("decimal256", "half", "far date", "map", "fixed", "offset", "pair")
_NOT_SPARK = ("uint8", "uint16", "uint32", "uint64", "half", "duration", "decimal256")
FORMATS = [
    Format("pyarrow", _PARQUET, writers.write_pyarrow),
    Format("spark", _without(*_NOT_SPARK), writers.write_spark, adapted=_in_micros),
    Format("polars", _without(*_NOT_POLARS), writers.write_polars),
    Format(
        "duckdb",
        _without("decimal256", "half", "duration", "null"),
        writers.write_duckdb,
        adapted=_in_utc,
    ),
    # To pyarrow its seconds are plain numbers.
    Format("parquet-rs", _without("seconds"), writers.write_parquet_rs),
    Format("ipc", [kind.name for kind in KINDS], writers.write_ipc, _read_ipc),
    Format("feather", _without(*_NOT_POLARS), writers.write_feather, _read_ipc),
    Format(
        "csv", texts.CSV_KINDS, texts.write_csv, texts.read_csv, texts.adapted, max_rows=MANY_ROWS
    ),
    Format(
        "csv without types",
        texts.INFERRED_KINDS,
        texts.write_inferred_csv,
        texts.read_inferred_csv,
        texts.plainly_text,
        min_rows=300,
        max_rows=MANY_ROWS,
    ),
    Format(
        "csv of pyarrow", texts.CSV_KINDS, texts.write_csv_by_pyarrow, texts.read_csv_of_pyarrow
    ),
    Format("jsonl", texts.JSON_KINDS, texts.write_json, texts.read_json, max_rows=MANY_ROWS),
    Format(
        "jsonl without types",
        texts.JSON_KINDS,
        texts.write_inferred_json,
        texts.read_inferred_json,
        min_rows=300,
        max_rows=MANY_ROWS,
    ),
]

#: Formats that came later, for seeds from ``cases.LATER`` on.
LATER_FORMATS = [
    *FORMATS,
    Format(
        "given stream",
        [kind.name for kind in KINDS],
        given.write_stream,
        given.read_given,
        max_rows=5000,
        has_folders=False,
    ),
    Format(
        "given frame",
        _without(*_NOT_POLARS),
        given.write_stream,
        given.read_frame,
        max_rows=5000,
        has_folders=False,
    ),
    Format("text", ["int32"], given.write_lines, given.read_lines, has_folders=False),
    Format(
        "binary",
        ["int32"],
        given.write_files,
        given.read_files,
        min_rows=1,
        max_rows=20,
        has_folders=False,
    ),
]
