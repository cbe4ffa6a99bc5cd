"""Consumes rows in random order, the same for every engine's program: reads them all, and prints a summary.

Guarantee: batches are dropped as they come; summing two columns of eight bytes, out of a hundred, costs every engine
the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: So many row numbers are kept, to see that they are in no order.
NUM_FIRST = 1000


def consume(batches: Iterable[pa.RecordBatch | pa.Table]) -> None:
    """Reads batches to their end; prints their number of rows, sums modulo 2**64, and the first row numbers."""
    import pyarrow.compute as pc

    num_rows = sum_of_keys = sum_of_rows = 0
    first: list[int] = []
    for batch in batches:
        if len(first) < NUM_FIRST:
            first += batch.column("row").slice(0, NUM_FIRST - len(first)).to_pylist()
        num_rows += batch.num_rows
        sum_of_keys += pc.sum(batch.column("key"), min_count=0).as_py()
        sum_of_rows += pc.sum(batch.column("row"), min_count=0).as_py()
    # Sums within a batch wrap around as 64-bit integers do, so only the remainder means something.
    result = {
        "rows": num_rows,
        "sum_of_keys": sum_of_keys % 2**64,
        "sum_of_rows": sum_of_rows % 2**64,
        "first_rows": first,
    }
    print(json.dumps(result))
