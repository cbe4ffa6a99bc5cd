"""As-of joins within the memory limit of the whole program, whatever the rows of both sides are."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured

LIMIT_BYTES = 300_000_000
HUGE = pa.schema({"t": pa.int64(), "s": pa.string()})
PROGRAM = """
import exoshuffle as xs
xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
sides = [xs.read_parquet({folder!r} + name) for name in ("/left.parquet", "/right.parquet")]
joined = sides[0].join_asof(sides[1], "t", by={by!r}, direction={direction!r})
print(sum(batch.num_rows for batch in joined.iter_batches()))
"""


def _side(name: str, rng: random.Random) -> pa.Table:
    if name == "narrow":
        return pa.table({"t": pa.array([i // 40_000 for i in range(4_000_000)], pa.int8())})
    if name == "large rows":
        return pa.table({"t": range(60), "s": ["x" * 1_000_000] * 60})
    times = [rng.randrange(10**6) for _ in range(500_000)]
    return pa.table(
        {"t": times, "k": [0] * len(times), "s": ["text of some length " * 5] * len(times)}
    )


@pytest.mark.parametrize(
    ("name", "by", "direction"),
    [
        ("narrow", None, "nearest"),
        ("large rows", None, "backward"),
        ("one key", "k", "forward"),
        ("one key", None, "backward"),
    ],
)
def test_the_limit_holds(name: str, by: str | None, direction: str, tmp_path: Path) -> None:
    rng = random.Random(5)
    for side in ("left", "right"):
        table = _side(name, rng)
        pq.write_table(table, tmp_path / f"{side}.parquet", row_group_size=100_000)
    program = PROGRAM.format(limit=LIMIT_BYTES, folder=str(tmp_path), by=by, direction=direction)
    printed, peak_bytes = measured(program)
    assert int(printed) == table.num_rows
    assert peak_bytes <= LIMIT_BYTES


@pytest.fixture(scope="module")
def huge_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with two files of three rows of 100 MB."""
    folder = tmp_path_factory.mktemp("huge")
    for side in ("left", "right"):
        with pq.ParquetWriter(folder / f"{side}.parquet", HUGE, compression="zstd") as writer:
            for number in range(3):
                row = pa.table({"t": [number], "s": [str(number) * 100_000_000]}, HUGE)
                writer.write_table(row)
    return folder


def _huge(folder: Path, limit: int) -> str:
    return PROGRAM.format(limit=limit, folder=str(folder), by=None, direction="nearest")


def test_rows_of_which_few_fit_are_joined(huge_rows: Path) -> None:
    printed, peak_bytes = measured(_huge(huge_rows, 1_000_000_000))
    assert int(printed) == 3
    assert peak_bytes <= 1_000_000_000


def test_rows_that_do_not_fit_are_refused(huge_rows: Path) -> None:
    told = r"MemoryLimitError: rows of 100 MB have no room in a join_asof .* set memory_limit to \d+ MB"
    with pytest.raises(AssertionError, match=told):
        measured(_huge(huge_rows, 600_000_000))
