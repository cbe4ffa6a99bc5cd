"""One case of the fuzz program: a seed is a table, files of it, an operation, a memory limit and a way out.

The parent process writes the files and asks DuckDB; a child of its own runs the engine, so that what is measured is the
engine's. Both draw the same case from the seed.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import exoshuffle as xs
from tests.fuzz import tables
from tests.fuzz.files import FORMATS, Format
from tests.fuzz.operations import Operation, draw_operation

LIMITS = [None, "300MB", "400MB", "512MB", "1GB"]


@dataclass(frozen=True)
class Case:
    """What a seed stands for."""

    seed: int
    format: Format
    columns: dict[str, str]
    num_rows: int
    num_files: int
    operation: Operation
    memory_limit: str | None
    sink: str
    num_cpus: int

    @classmethod
    def draw(cls, seed: int) -> Case:
        """The case of a seed."""
        rng = random.Random(seed)
        chosen = FORMATS[rng.choice(list(FORMATS))]
        columns = tables.draw_columns(rng, chosen.types)
        num_rows = rng.choice([0, 1, 20, 300, 300, 5000])
        keys = ["id", "few", *(name for name, kind in columns.items() if kind in tables.KEYS)]
        return cls(
            seed,
            chosen,
            columns,
            num_rows,
            rng.choice([1, 1, 2, 5, 40]),
            draw_operation(rng, keys, num_rows),
            rng.choice(LIMITS),
            rng.choice(["parquet", "ipc", "arrow", "batches"]),
            rng.choice([1, 2, 3]),
        )

    def __str__(self) -> str:
        """A line that says it all."""
        return (
            f"seed {self.seed}: {self.num_rows} rows in {self.num_files} {self.format.name} files of {self.columns}; "
            f"{self.operation.name}; to {self.sink} within {self.memory_limit}, {self.num_cpus} CPUs"
        )

    def write(self, folder: Path) -> pa.Table:
        """Writes the files, and returns what is in them."""
        table = tables.make_table(random.Random(f"{self.seed} rows"), self.columns, self.num_rows)
        cuts = [number * self.num_rows // self.num_files for number in range(self.num_files + 1)]
        folder.mkdir()
        for number, (start, end) in enumerate(itertools.pairwise(cuts)):
            self.format.write(
                table.slice(start, end - start), folder / f"{number:03}", self._options()
            )
        if self.format.name in ("csv", "jsonl"):
            return table
        try:
            return pa.concat_tables(list(map(_read_back, sorted(folder.glob("[!_]*")))))
        except OSError:
            # Some files of Polars are not read by pyarrow ("InitBlock EOF").
            return table

    def dataset(self, folder: Path) -> xs.Dataset:
        """The result, as the engine is asked for it."""
        schema = tables.make_table(random.Random(0), self.columns, 0).schema
        rows = self.format.read(folder, schema, self._options())
        return self.operation.run(rows, rows)

    def _options(self) -> random.Random:
        return random.Random(f"{self.seed} options")


def _read_back(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read()
    for opened in (pa.ipc.open_file, pa.ipc.open_stream):
        try:
            return opened(str(path) if opened is pa.ipc.open_file else path.read_bytes()).read_all()
        except pa.ArrowInvalid:
            continue
    raise AssertionError(f"{path} is no Arrow file")


def difference(found: pa.Table, wanted: pa.Table, operation: Operation) -> str | None:
    """What is wrong with a result, in a line; None if nothing is."""
    if found.column_names != wanted.column_names:
        return f"columns {found.column_names}, wanted {wanted.column_names}"
    rows, expected = _rows(found), _rows(wanted)
    if operation.is_part is not None:
        extra = Counter(rows) - Counter(expected)
        if len(rows) != operation.is_part or extra:
            return f"{len(rows)} rows of {operation.is_part}, not of the input: {list(extra)[:2]}"
        return None
    if operation.is_ordered:
        if rows == expected:
            return None
        at = next(
            (i for i, (a, b) in enumerate(zip(rows, expected, strict=False)) if a != b),
            min(len(rows), len(expected)),
        )
        found_row, wanted_row = rows[at : at + 1], expected[at : at + 1]
        return (
            f"{len(rows)} rows, wanted {len(expected)}; row {at}: {found_row}, wanted {wanted_row}"
        )
    missing, extra = Counter(expected) - Counter(rows), Counter(rows) - Counter(expected)
    if missing or extra:
        return f"missing {missing.total()}: {list(missing)[:2]}; too many {extra.total()}: {list(extra)[:2]}"
    return None


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*map(_values, table.columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Values as what they mean, whatever type carries them: equal if and only if the values are."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _values(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        factor = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[kind.unit]
        return [
            None if each is None else each * factor for each in column.cast(pa.int64()).to_pylist()
        ]
    return [_frozen(value) for value in column.to_pylist()]


def _frozen(value: Any) -> Any:
    if isinstance(value, float):
        # Zeros are one key, and so are NaNs.
        return "nan" if value != value else struct.pack("d", value + 0.0)  # noqa: PLR0124
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((key, _frozen(each)) for key, each in value.items())
    return value
