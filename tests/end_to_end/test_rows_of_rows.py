"""A row becomes more rows than memory has room for.

It has an engine of its own, whose limit is what the program takes now and some more. Behind thousands of tests the
program may grow, in one module of tests, by as much as there is room for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits
from tests.support.limits import ROOMY_BUDGET_BYTES


def test_a_row_may_become_more_rows_than_memory_has_room_for(tmp_path: Path) -> None:
    def frames(row: dict[str, int]) -> Iterator[dict[str, object]]:
        for number in range(2500 * row["video"]):
            yield {"number": number, "frame": bytes(200_000)}

    schema = pa.schema({"number": pa.int64(), "frame": pa.binary()})
    with xs.init(
        memory_limit=limits.limit_for(ROOMY_BUDGET_BYTES),
        spill_dirs=str(tmp_path),
        num_cpus=2,
        num_gpus=2,
    ):
        dataset = (
            xs.from_pydict({"video": [1]})
            .flat_map(frames, schema=schema)
            .map_batches(lambda batch: batch.select(["number"]), num_gpus=1)
        )
        assert dataset.to_arrow()["number"].to_pylist() == list(range(2500))
