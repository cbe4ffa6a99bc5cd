"""Shapes of data about which sizes in bytes alone tell little: rows of almost nothing, few keys, one key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured
from tests.memory.tables import numbers, texts

PROGRAM = """
import sys
import exoshuffle as xs

def same(rows):
    return rows

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
nulls, few, one, wide = (xs.read_parquet({data!r} + f"/{{name}}.parquet") for name in {names!r})
sys.stdout.write(str({made}))
"""
NAMES = ("nulls", "few", "one", "wide")
NUM_FEW = 5_000_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes 50 million nulls; numbers that never repeat, of five keys; and two tables of one key."""
    folder = tmp_path_factory.mktemp("odd")

    def write(name: str, columns: dict[str, pa.Array], row_group_size: int = 250_000) -> None:
        path = folder / f"{name}.parquet"
        options = {"use_dictionary": False, "compression": "none"}
        pq.write_table(pa.table(columns), path, row_group_size=row_group_size, **options)

    write("nulls", {"n": pa.nulls(50_000_000, pa.int8())}, 50_000_000)
    values = numbers(NUM_FEW, 1)
    write("few", {"k": pc.bit_wise_and(values, 3), "v": values})
    zeros = pa.array([0]).take(pa.nulls(1_000_000, pa.int64()).fill_null(0))
    write("one", {"k": zeros, "v": numbers(1_000_000, 2)})
    write("wide", {"k": zeros.slice(0, 90_000), "t": texts(90_000, 1_000, 3)}, 10_000)
    return folder


#: Operations, their limits in MB, and their results.
WAYS = {
    "nulls": (
        300,
        "nulls.group_by('n').count().to_arrow().to_pylist()",
        [{"n": None, "count": 50_000_000}],
    ),
    "distinct nulls": (300, "nulls.distinct().to_arrow().to_pylist()", [{"n": None}]),
    "top_k of nulls": (300, "nulls.sort('n').limit(2).to_arrow().num_rows", 2),
    "count_distinct of few keys": (
        250,
        "sum(few.group_by('k').agg(n=('v', 'count_distinct'), a=('v', 'first')).to_arrow()['n'].to_pylist())",
        NUM_FEW,
    ),
    "list": (
        280,
        "one.group_by('k').agg(n=('v', 'list')).write_parquet({out!r}).rows",
        1,
    ),
    "a join with many short rows": (
        300,
        "one.join(one.select('v'), on='v').write_parquet({out!r}).rows",
        1_000_000,
    ),
    "map_groups": (
        512,
        "wide.group_by('k').map_groups(same).write_parquet({out!r}).rows",
        90_000,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_odd_shapes_stay_within_memory(way: str, data: Path, tmp_path: Path) -> None:
    limit, made, wanted = WAYS[way]
    limit_bytes = limit * 1_000_000
    program = PROGRAM.format(
        limit=limit_bytes,
        folder=str(tmp_path),
        data=str(data),
        names=NAMES,
        made=made.replace("{out!r}", repr(str(tmp_path / "out"))),
    )
    out, peak_bytes = measured(program)
    assert out == str(wanted)
    assert peak_bytes <= limit_bytes
