"""Parquet files whose footers take far more memory than their rows: they are refused, or plans count them.

A footer of 52 MB took 323 MB within 300 when its file was opened, and 559 in a shuffle. Eight of 12 MB, which threads
decoded at once, took 309 within 216.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured
from tests.memory.naming import limit_bytes, named_limit

GROUPS, COLUMNS, FILES = 1000, 100, 8
PROGRAM = """
import exoshuffle as xs
xs.init(memory_limit={limit!r}, num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.read_parquet({folder!r} + "/{files}.parquet")
print({made})
"""
WAYS = {
    "opened": ("*", "len(rows.columns)", COLUMNS),
    "narrowed": ("*", "rows.filter('column_000 > 5').count()", 0),
    "shuffled": ("0", "rows.random_shuffle().write_parquet({folder!r} + '/out').rows", GROUPS),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight files with a footer of 11.5 MB each, and 100,000 values."""
    folder = tmp_path_factory.mktemp("footers")
    table = pa.table({f"column_{number:03}": [number] for number in range(COLUMNS)})
    with pq.ParquetWriter(folder / "0.parquet", table.schema) as writer:
        for _ in range(GROUPS):
            writer.write_table(table)
    for number in range(1, FILES):
        os.link(folder / "0.parquet", folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_the_limit_holds(way: str, folder: Path) -> None:
    files, made, printed = WAYS[way]
    names = {"folder": str(folder), "files": files, "made": made.format(folder=str(folder))}
    enough = named_limit(PROGRAM.format(limit="140MB", **names))
    out, peak_bytes = measured(PROGRAM.format(limit=enough, **names))
    assert out.strip() == str(printed)
    assert peak_bytes <= limit_bytes(enough)
