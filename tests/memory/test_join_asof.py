"""As-of joins within the memory limit of the whole program, whatever the rows of both sides are."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured

LIMIT_BYTES = 300_000_000
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
