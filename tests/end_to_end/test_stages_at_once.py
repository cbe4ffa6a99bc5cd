"""Stages keep their tasks busy where all room between them is taken by a source that is faster."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits
from exoshuffle.testing.meeting import poll

NUM_ROWS, ROW_BYTES = 2_000, 100_000
SCHEMA = pa.schema({"row": pa.int64(), "bytes": pa.binary()})


@pytest.fixture(autouse=True)
def engine(tmp_path: Path) -> Iterator[xs.futures.Engine]:
    """An engine with a CPU for the source, and more for the stage behind it."""
    limit = limits.limit_for(300_000_000)
    yield xs.init(memory_limit=limit, spill_dirs=str(tmp_path), num_cpus=4)
    xs.shutdown()


def rows_of(first: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """Yields rows, and tells each hundred of them."""
    for row in range(first["row"], first["row"] + NUM_ROWS):
        if row % 100 == 0:
            (folder / f"made {row}").touch()
        yield {"row": row, "bytes": bytes(ROW_BYTES)}


def wait_for_the_next(batch: pa.Table, folder: Path, made: int) -> pa.Table:
    """Returns the batch once rows far behind it are made, and the next batch is in work."""
    first, last = batch["row"][0].as_py(), batch["row"][-1].as_py()
    (folder / f"begun {first}").touch()
    if last < NUM_ROWS - 1:
        poll((folder / f"made {made}").exists)
        poll((folder / f"begun {last + 1}").exists)
    return batch


def test_tasks_run_beside_each_other_while_there_is_no_room_for_more(
    tmp_path: Path, engine: xs.futures.Engine
) -> None:
    # At least as much as may wait between stages.
    made = engine.budget_bytes // 5 // ROW_BYTES // 100 * 100
    waiting = functools.partial(wait_for_the_next, folder=tmp_path, made=made)
    rows = (
        xs.from_pydict({"row": [0]})
        .flat_map(functools.partial(rows_of, folder=tmp_path), schema=SCHEMA)
        .map_batches(waiting, schema=SCHEMA, batch_size=NUM_ROWS, concurrency=3)
    )
    assert rows.select("row").to_arrow()["row"].to_pylist() == list(range(NUM_ROWS))
