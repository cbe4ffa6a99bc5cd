"""Groups that are most of the data stay under the limit: joined on both sides, aggregated, handed to functions."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured
from tests.memory.tables import numbers, texts

LIMIT_BYTES = 450_000_000
PROGRAM = """
import sys
import exoshuffle as xs
from exoshuffle.futures import current_engine

def number(rows):
    return {{"n": [rows.num_rows]}}

def first(made, count):
    for batch in made.iter_batches():
        count -= batch.num_rows
        if count <= 0:
            return "enough"

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
left, right, wide, few, narrow = (
    xs.read_parquet({data!r} + f"/{{name}}.parquet") for name in ("left", "right", "wide", "few", "narrow")
)
sys.stdout.write(str({made}))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes tables of one key: two of 41 MB, one of 120 MB, one of 51 MB of small rows, and one that is small."""
    folder = tmp_path_factory.mktemp("hot")

    def write(name: str, num_rows: int, columns: dict[str, pa.Array]) -> None:
        keys = {"k": pa.repeat(pa.scalar(7, pa.int64()), num_rows)}
        path, rows = folder / f"{name}.parquet", pa.table(keys | columns)
        pq.write_table(rows, path, row_group_size=max(num_rows // 20, 1), use_dictionary=False)

    for seed, name in enumerate(("left", "right")):
        values = {f"n{seed}": numbers(40_000, seed), f"s{seed}": texts(40_000, 1_000, seed)}
        write(name, 40_000, values)
    write("wide", 40_000, {"n": numbers(40_000, 2), "s": texts(40_000, 3_000, 2)})
    write("few", 3, {"t": texts(3, 1_000, 3)})
    write("narrow", 3_000_000, {"v": numbers(3_000_000, 4)})
    return folder


#: Operations, and their results.
WAYS = {
    "inner": ('first(left.join(right, on="k"), 300_000)', "enough"),
    "left": ('first(left.join(right, on="k", how="left"), 300_000)', "enough"),
    "full": ('first(left.join(right, on="k", how="full"), 300_000)', "enough"),
    "files": (
        'wide.join(few, on="k", how="full", num_partitions=16).write_parquet({out!r}).rows',
        120_000,
    ),
    "median": (
        'narrow.group_by("k").agg(m=("v", "median")).to_arrow().num_rows',
        1,
    ),
    "median of all": (
        'narrow.group_by().agg(m=("v", "median")).to_arrow().num_rows',
        1,
    ),
    "count_distinct": (
        'narrow.group_by("k").agg(m=("v", "count_distinct")).to_arrow()["m"].to_pylist()',
        [3_000_000],
    ),
    "several": (
        'narrow.group_by("k").agg(c=("v", "count_distinct"), m=("v", "median"), q=("v", "quantile", 0.9))'
        '.to_arrow()["c"].to_pylist()',
        [3_000_000],
    ),
    "map_groups": (
        'narrow.group_by("k").map_groups(number).to_arrow()["n"].to_pylist()',
        [3_000_000],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_hot_group_stays_within_memory(way: str, data: Path, tmp_path: Path) -> None:
    made, wanted = WAYS[way]
    program = PROGRAM.format(
        limit=LIMIT_BYTES,
        folder=str(tmp_path),
        data=str(data),
        made=made.replace("{out!r}", repr(str(tmp_path / "out"))),
    )
    printed, peak_bytes = measured(program)
    assert printed == str(wanted)
    assert peak_bytes <= LIMIT_BYTES


def test_what_nobody_takes_is_not_made(data: Path, tmp_path: Path) -> None:
    """The program made as many of 3.2 TB of pairs as it could while somebody took the first rows: 35 GB of disk."""
    program = PROGRAM.format(
        limit=LIMIT_BYTES,
        folder=str(tmp_path),
        data=str(data),
        made='(first(left.join(right, on="k", how="left"), 300_000), current_engine().stats()["spilled_bytes"])',
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    enough, spilled_bytes = ast.literal_eval(done.stdout)
    assert enough == "enough"
    assert spilled_bytes < 2_500_000_000


def test_few_partitions_by_hash_need_not_fit(data: Path, tmp_path: Path) -> None:
    """Writes 120 MB into four files within 260 MB, of which the program takes 90."""
    program = PROGRAM.format(
        limit=260_000_000,
        folder=str(tmp_path),
        data=str(data),
        made=f"wide.repartition(4, by='n').write_parquet({str(tmp_path / 'out')!r}).files.__len__()",
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4"
