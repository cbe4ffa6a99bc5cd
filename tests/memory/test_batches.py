"""Results far larger than the limit stay under it: as batches, for a later shuffle, and the first of many rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.tables import write_table

ROWS = 6_000
LIMIT_BYTES = 330_000_000
PROGRAM = """
import sys
import pyarrow.compute as pc
import exoshuffle as xs
from exoshuffle.observe.memory import peak_resident_bytes

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.read_parquet({path!r})
made = {made}
count = total = 0
for batch in made.iter_batches():
    count += batch.num_rows
    total += pc.sum(batch["a"]).as_py()
sys.stdout.write(f"{{count}} {{total}} {{peak_resident_bytes()}}")
"""
#: Operations that make as many rows of every row as there are rows.
WAYS = {
    "cross join": 'rows.join(rows.rename({"a": "b"}), how="cross")',
    "hot key": (
        'rows.with_columns(k="1").join(rows.with_columns(k="1"), on="k", num_partitions=2)'
    ),
}


def run(made: str, folder: Path) -> tuple[int, int, int]:
    """Returns the number of rows made, the sum of a column, and the peak of the program that made them."""
    path = folder / "in.parquet"
    pq.write_table(pa.table({"a": pa.array(range(ROWS), pa.int64())}), path)
    program = PROGRAM.format(limit=LIMIT_BYTES, folder=str(folder), path=str(path), made=made)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    count, total, peak_bytes = map(int, done.stdout.split())
    return count, total, peak_bytes


@pytest.mark.parametrize("way", WAYS)
def test_the_first_rows_are_all_that_is_kept(way: str, tmp_path: Path) -> None:
    count, _, peak_bytes = run(f"{WAYS[way]}.limit(10)", tmp_path)
    assert count == 10
    assert peak_bytes <= LIMIT_BYTES


@pytest.mark.parametrize("way", WAYS)
def test_results_of_one_partition_are_handed_over_in_pieces(way: str, tmp_path: Path) -> None:
    count, total, peak_bytes = run(WAYS[way], tmp_path)
    assert count == ROWS**2
    assert total == ROWS * ROWS * (ROWS - 1) // 2
    assert 16 * count > LIMIT_BYTES
    assert peak_bytes <= LIMIT_BYTES


@pytest.mark.parametrize("way", WAYS)
def test_a_later_shuffle_reads_them_in_pieces(way: str, tmp_path: Path) -> None:
    grouped = f'({WAYS[way]}).group_by("a").agg(n="count").rename({{"n": "b", "a": "c"}}).rename({{"b": "a"}})'
    count, total, peak_bytes = run(grouped, tmp_path)
    assert count == ROWS
    assert total == ROWS**2
    assert peak_bytes <= LIMIT_BYTES


#: Takes most rows of an input that is larger than the limit.
LIMITED = """
import sys
import exoshuffle as xs
from exoshuffle.observe.memory import peak_resident_bytes

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
first = xs.read_parquet({path!r}).limit({count})
{use}
sys.stdout.write(f"{{count}} {{peak_resident_bytes()}}")
"""
#: The destinations of the rows.
USES = {
    "files": "count = first.write_parquet({out!r}).rows",
    "text": "count = first.write_csv({out!r}).rows",
    "batches": "count = sum(batch.num_rows for batch in first.iter_batches())",
}


@pytest.mark.parametrize("name", USES)
def test_the_first_of_many_rows(name: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / "in", num_files=4, num_rows=1_000_000, width=92)
    use = USES[name].format(out=str(tmp_path / "out"))
    limit, count = 300_000_000, 3_500_000
    program = LIMITED.format(
        limit=limit, folder=str(tmp_path), path=str(path), count=count, use=use
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, peak_bytes = map(int, done.stdout.split())
    assert rows == count
    assert peak_bytes <= limit < 100 * count


def test_batches_of_one_row_cost_what_others_do(tmp_path: Path) -> None:
    """Each batch kept a buffer of 64 KiB, and 8 kB beside its rows in each table that had it: 247 MB within 200."""
    for number in range(2):
        columns = {name: pa.array([f"{name} {number}" * 10] * 2_500) for name in "bcdef"}
        table = pa.table({"a": range(2_500), **columns})
        with pa.ipc.new_file(tmp_path / f"{number}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=1)
    program = PROGRAM.format(
        limit=200_000_000,
        folder=str(tmp_path),
        path=str(tmp_path),
        made="rows.filter('length(b) > 0')",
    ).replace("read_parquet", "read_ipc")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    count, total, peak_bytes = map(int, done.stdout.split())
    assert (count, total) == (5_000, 2 * sum(range(2_500)))
    assert peak_bytes <= 200_000_000
