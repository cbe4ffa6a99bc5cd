"""The functions of the pipelines that wait, in a module that imports little: each worker process imports it.

With them in ``pipelines``, each worker had 10 MB more, for the tables that the experiment prints.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

#: Durations of the original are divided by ``SPEED``.
SPEED, ROW_BYTES, ROWS, BATCH_ROWS = 10, 20_000, 500, 100
SCHEMA = pa.schema({"row": pa.binary()})


def load(row: dict[str, Any]) -> Iterator[dict[str, bytes]]:
    """Waits as a source task does, and yields its rows."""
    del row
    time.sleep(5 / SPEED)
    for _ in range(ROWS):
        yield {"row": bytes(ROW_BYTES)}


def work(batch: pa.Table) -> pa.Table:
    """Waits as the stages behind the source do."""
    time.sleep(0.5 / SPEED * batch.num_rows / BATCH_ROWS)
    return batch


def infer(batch: pa.Table) -> dict[str, Any]:
    """Waits likewise, and keeps a number."""
    return {"rows": pa.array([work(batch).num_rows], pa.int64())}
