"""Resident memory stays under the limit where small work runs in one piece, and where it seemed small and is not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle.units import parse_bytes
from tests.memory.measuring import measured

ROWS = 2_000_000

#: The results that are made of the rows, by name.
SHAPES = {
    "groups": 'rows.group_by("k").agg(n="count", total=("x", "sum"), longest=("s", "max"))',
    "lists": 'rows.group_by("few").agg(all=("x", "list"))',
    "distinct": 'rows.distinct(["k", "few"])',
    "join": 'rows.join(rows.filter("x < 200_000").select("x", other="s"), on="x")',
    "first rows": 'rows.sort(["few", "x"]).limit(50_000)',
    "two": 'rows.group_by("k").agg(n="count").sort("n").limit(10)',
}
#: How the last operator is billed in one piece within 1 GB, if it is; the join is a broadcast, and groups may be many.
IN_ONE_PIECE = {"groups": "query", "lists": "whole", "distinct": "whole", "first rows": "whole"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two million rows: 90 MB in memory. A limit of 1 GB has room for one piece, and one of 300 MB has not."""
    folder = tmp_path_factory.mktemp("one_piece")
    for part in range(4):
        numbers = range(part, ROWS, 4)
        table = pa.table(
            {
                "k": pa.array([(n * 7_919) % 500_000 for n in numbers], pa.int64()),
                "few": pa.array([n % 5 for n in numbers], pa.int32()),
                "x": pa.array(numbers, pa.int64()),
                "s": pa.array([f"text {n % 1_000:020}" for n in numbers], pa.string()),
            }
        )
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=100_000)
    return folder


@pytest.mark.parametrize("limit", ["300MB", "1GB"])
@pytest.mark.parametrize("shape", SHAPES)
def test_peak(shape: str, limit: str, source: Path) -> None:
    program = f"""
import exoshuffle as xs
xs.init(memory_limit={limit!r}, num_cpus=2)
rows = xs.read_parquet({str(source)!r})
made = {SHAPES[shape]}
print(made.explain(results="batches").strategy)
print(sum(batch.num_rows for batch in made.iter_batches()))
xs.shutdown()
"""
    out, peak_bytes = measured(program)
    strategy, num_rows = out.split()
    assert int(num_rows) > 0
    if limit == "1GB" and shape in IN_ONE_PIECE:
        assert strategy == IN_ONE_PIECE[shape]
    assert peak_bytes <= parse_bytes(limit), (strategy, peak_bytes)
