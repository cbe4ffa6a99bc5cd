"""Proves that an engine's output is the sorted input: the same rows, in order, uncompressed.

Guarantee: rows are compared as multisets, by their number and the sum of their hashes (DuckDB's, whichever engine
sorted). Order is checked over all files in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Fingerprint:
    """Numbers that are the same for the same rows in any order."""

    num_rows: int
    sum_of_keys: int
    sum_of_hashes: int


def fingerprint(path: Path) -> Fingerprint:
    """Returns the fingerprint of all rows of a Parquet file or folder; takes one scan."""
    with duckdb.connect(config={"memory_limit": "1GB"}) as connection:
        row = connection.execute(
            "SELECT count(*), sum(key), sum(hash(key, row, text)) FROM read_parquet($files)",
            {"files": [str(file) for file in _files(path)]},
        ).fetchone()
    assert row is not None
    return Fingerprint(*(int(value or 0) for value in row))


def check_sorted(path: Path, expected: Fingerprint) -> None:
    """Checks that the output at ``path`` holds the expected rows, sorted by key and uncompressed.

    Raises:
        AssertionError: It does not; the message says what is wrong.
    """
    previous: int | None = None
    for file in _files(path):
        for keys in _keys(file):
            if previous is not None and keys[0].as_py() < previous:
                raise AssertionError(f"{file}: key {keys[0]} comes after {previous}")
            if not pc.all(pc.less_equal(keys[:-1], keys[1:]), min_count=0).as_py():
                raise AssertionError(f"{file}: keys are out of order within one batch")
            previous = keys[-1].as_py()
    found = fingerprint(path)
    if found != expected:
        raise AssertionError(f"{path}: holds {found}, not {expected}")


def output_bytes(path: Path) -> int:
    """Returns the size of a file or of all files in a folder."""
    return sum(file.stat().st_size for file in _files(path))


def compressions(path: Path) -> list[str]:
    """Returns the codecs of the output, to show that all engines did the same work."""
    codecs = set()
    for file in _files(path):
        metadata = pq.read_metadata(file)
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                codecs.add(metadata.row_group(group).column(column).compression)
    return sorted(codecs)


def _keys(file: Path) -> Iterator[pa.Array]:
    with pq.ParquetFile(file) as reader:
        for batch in reader.iter_batches(columns=["key"]):
            if len(batch):
                yield batch.column(0)


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.parquet"))
