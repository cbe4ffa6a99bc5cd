"""Cuts a stream of batches anew, so that each batch has the same number of rows, but the last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def cut(batches: Iterable[pa.RecordBatch], num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yields batches of so many rows. Cost: copies batches that are put together of several."""
    import pyarrow as pa

    parts: list[pa.RecordBatch] = []
    missing = num_rows
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, missing)
            parts.append(part)
            start += part.num_rows
            missing -= part.num_rows
            if missing == 0:
                whole = pa.concat_batches(parts) if len(parts) > 1 else part
                parts, missing = [], num_rows
                yield whole
                del whole
            del part
        del batch
    if parts:
        yield pa.concat_batches(parts) if len(parts) > 1 else parts[0]
