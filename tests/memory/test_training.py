"""Epochs of a dataset larger than the memory limit stay within it, the next one's shuffle included."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured

LIMIT_BYTES = 330_000_000
FILES, ROWS = 8, 60_000
PROGRAM = """
import sys
import pyarrow.compute as pc
import exoshuffle as xs

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
loader = xs.DataLoader(
    xs.read_parquet({path!r}), batch_size=4096, shuffle={shuffle!r}, seed=1, format="arrow"
)
for epoch in loader.epochs(2):
    count = total = 0
    kept = []
    for batch in epoch:
        kept = [*kept[-1:], batch]
        count += batch.num_rows
        total += pc.sum(batch["id"]).as_py()
    sys.stdout.write(f"{{count}} {{total}} ")
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """104 MB, of which the store may have two epochs."""
    folder = tmp_path_factory.mktemp("training")
    for number in range(FILES):
        rows = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        columns = {f"x{column:02}": rows for column in range(25)}
        pq.write_table(
            pa.table({"id": rows, **columns}),
            folder / f"{number}.parquet",
            row_group_size=30_000,
            use_dictionary=False,
            compression="none",
        )
    return folder


@pytest.mark.parametrize("shuffle", [True, "16MB"])
def test_two_epochs_stay_within_the_limit(shuffle: bool | str, files: Path, tmp_path: Path) -> None:
    total = FILES * ROWS
    program = PROGRAM.format(
        limit=LIMIT_BYTES, folder=str(tmp_path), path=str(files), shuffle=shuffle
    )
    out, peak_bytes = measured(program)
    assert out.split() == [str(total), str(total * (total - 1) // 2)] * 2
    assert peak_bytes <= LIMIT_BYTES
