"""The tasks that look into an input before a shuffle: they weigh some of its rows, or sample keys."""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.inputs import evenly
from exoshuffle.futures import Ref, RemoteFunction, Value, current_engine, get, remote
from exoshuffle.futures.options import Executor
from exoshuffle.operators.batches import chunks_of
from exoshuffle.operators.core.inputs import BatchInput, MapInput
from exoshuffle.operators.core.order import by_range
from exoshuffle.operators.steps.step import apply_steps, executor_of, functions_bytes
from exoshuffle.plan.workload import FREE_COLUMNS, Workload

if TYPE_CHECKING:
    import pyarrow as pa

#: Number of stretches of an input that are read to find the mean and the largest row.
MEASURED_STRETCHES = 8
#: Rows are dealt out to splits as if all had one size. Where rows of a stretch are this much larger, splits shrink.
#: Without that, a ``distinct`` of rows of 240 bytes and as many of 84 kB peaked at 310 MB within 300. Splits shrink at
#: most by the number of stretches: one file with a single row of 1 MB beside 2 million rows made 341,000 splits.
UNEVEN_PERCENT, MOST_UNEVEN_PERCENT = 150, 100 * MEASURED_STRETCHES
#: Weighing holds this much of the steps' results at a time.
WEIGHED_BYTES = 8_000_000
#: The memory of a worker process beside rows and functions when it looks into an input, and its largest part of the
#: budget. Decoders of many columns take it, and memory that its allocators keep. Workers that sampled 5 MB of 300
#: columns had 38 MB more than idle ones. They were stopped for it within 300 MB on busy machines.
LOOKING_BYTES, LOOKING_PART = 24_000_000, 8
#: Memory of weighing some megabytes of many columns, for each beyond the first ``FREE_COLUMNS``: in batches of few rows
#: columns take more than their values. Two tasks that weighed 3,000 columns of CSV had 228 MB resident within 200, and
#: one at a time has 163.
LOOKING_COLUMN_BYTES = 20_000
#: Number of rows in a table with nested columns that are measured one by one, to find the largest.
WEIGHED_ROWS = 32
#: Where these rows have less than half of the bytes that they should have, the largest row is searched for. That is
#: done in ranges of rows that have more bytes than this.
SEARCHED_BYTES = 1_000_000
#: The search divides a range by this number, and measures at most so many ranges.
SEARCH_WAYS, MOST_SEARCHED = 16, 256


def weigh(map_input: BatchInput, items: Value, share: float) -> Workload:
    """Reads items (a list of splits, or a block) whole, measures their rows, and multiplies the sizes by ``share``."""
    sorter = map_input.config.build()
    everything = by_range(sorter, [], 1)

    def weight(table: pa.Table) -> int:
        size: int = sorter.scatter_batches(table, 0, everything).row_bytes
        return size

    rows = num_bytes = largest = 0
    sizes: list[tuple[int, float]] = []
    for item in items if isinstance(items, list) else [items]:
        # A block comes without its number.
        place = map_input.reader.place(0, item) if isinstance(items, list) else None
        read = map_input.read(item).read_all()
        sizes.append((read.num_rows, read.nbytes))
        # The result of steps may be far larger than memory.
        for table in chunks_of(
            apply_steps(map_input.steps, read.to_reader(), place), num_bytes=WEIGHED_BYTES
        ):
            planned = sorter.scatter_batches(table, 0, everything)
            longest = planned.longest_row()
            if longest is None:
                longest = _largest_row_bytes(table, planned.row_bytes, weight)
            rows += table.num_rows
            num_bytes += planned.row_bytes
            largest = max(largest, longest)
    return Workload(
        int(num_bytes * share),
        int(rows * share),
        largest,
        read_bytes=int(sum(size for _, size in sizes) * share),
        dense_percent=dense_percent(sizes),
    )


def _largest_row_bytes(table: pa.Table, num_bytes: int, weight: Callable[[pa.Table], int]) -> int:
    """Returns the size of the largest row of a table of ``num_bytes``; of the largest of some, if all are alike."""
    picked = evenly(list(range(table.num_rows)), WEIGHED_ROWS)
    sizes = [weight(table.slice(row, 1)) for row in picked]
    largest: int = max(sizes, default=0)
    if 2 * sum(sizes) * table.num_rows >= num_bytes * len(sizes):
        return largest
    # The heaviest range comes first, by its bytes below 0.
    ranges = [(-num_bytes, 0, table.num_rows)]
    measured = 0
    while ranges and -ranges[0][0] > max(largest, SEARCHED_BYTES) and measured < MOST_SEARCHED:
        _, first, count = heapq.heappop(ranges)
        for start, end in itertools.pairwise(_cuts(first, count, SEARCH_WAYS)):
            size = weight(table.slice(start, end - start))
            measured += 1
            if end - start == 1:
                largest = max(largest, size)
            else:
                heapq.heappush(ranges, (-size, start, end - start))
    means: list[int] = [-size // count for size, _, count in ranges]
    return max(largest, *means, 0)


def _cuts(first: int, count: int, parts: int) -> list[int]:
    """Returns the bounds of so many ranges of ``count`` rows, or of single rows if there are fewer."""
    parts = min(parts, count)
    return [first + count * part // parts for part in range(parts + 1)]


def dense_percent(stretches: Sequence[tuple[int, float]]) -> int:
    """Returns the size of rows in the stretch with the largest, in percent of the mean size.

    ``stretches`` has the rows of each (or the bytes that they should have) and their bytes. A stretch that is smaller
    than others is a small file: no split of it is too large, whatever its rows are.
    """
    num_rows = sum(rows for rows, _ in stretches)
    num_bytes = sum(size for _, size in stretches)
    if not num_rows or not num_bytes:
        return 100
    means = [size / max(rows, 1) for rows, size in stretches if size * len(stretches) >= num_bytes]
    return min(MOST_UNEVEN_PERCENT, int(100 * max(means) * num_rows / num_bytes))


def measuring(
    measure: Callable[..., object], map_input: MapInput, memory_bytes: int = 0
) -> RemoteFunction:
    """Returns the remote function of a task that measures rows as they are read.

    It has the input as code, so a function that closes over too much is refused before it is copied.
    """
    memory_bytes += _declared_bytes(map_input)
    memory_bytes += _wide_bytes(map_input, memory_bytes)
    code = functools.partial(measure, map_input)
    return remote(code, name="measure", memory=memory_bytes, executor=executor_for(map_input))


def weighed(
    map_input: MapInput, parts: Sequence[Value], share: float, memory_bytes: int = 0
) -> list[Workload]:
    """Weighs parts of the items, side by side."""
    run = measuring(weigh, map_input, memory_bytes)
    weighed: list[Workload] = get([run.remote(part, share) for part in parts])
    return weighed


def together(measured: Sequence[Workload]) -> Workload:
    """Returns the workload of several parts of an input."""
    return Workload(
        sum(work.total_bytes for work in measured),
        sum(work.num_rows for work in measured),
        max(work.max_row_bytes for work in measured),
        read_bytes=sum(work.read_bytes for work in measured),
        dense_percent=max(work.dense_percent for work in measured),
        told_row_bytes=max(work.told_row_bytes for work in measured),
    )


def executor_for(map_input: MapInput) -> Executor:
    """Returns where rows are read: in a worker process if users' functions are applied."""
    return executor_of("thread", map_input.steps)


def sampled(
    map_input: MapInput,
    items: Sequence[tuple[int, object]],
    num_rows: Sequence[int],
    decoding_bytes: int = 0,
) -> list[Ref]:
    """Starts tasks that each sample the keys of about so many rows of one item; items come with numbers."""
    memory = decoding_bytes + _declared_bytes(map_input)
    code = functools.partial(sample_keys, map_input)
    run = remote(code, name="sample", memory=memory, executor=executor_for(map_input))
    return [
        run.remote(index, item, count) for (index, item), count in zip(items, num_rows, strict=True)
    ]


def _declared_bytes(map_input: MapInput) -> int:
    """Returns what functions have declared, and what a worker takes beside them."""
    is_in_worker = executor_for(map_input) == "process"
    room = current_engine().budget_bytes // LOOKING_PART if is_in_worker else 0
    return functions_bytes(map_input.steps) + min(LOOKING_BYTES, room)


def _wide_bytes(map_input: MapInput, memory_bytes: int) -> int:
    """Returns what many columns take beside ``memory_bytes``; at most so much that no two tasks have room at once."""
    import pyarrow as pa

    num_columns = len(pa.ipc.read_schema(pa.py_buffer(map_input.config.schema)))
    wide = max(0, num_columns - FREE_COLUMNS) * LOOKING_COLUMN_BYTES
    return min(wide, max(0, current_engine().budget_bytes * 3 // 5 - memory_bytes))


def sample_keys(map_input: MapInput, index: int, item: Value, num_rows: int) -> bytes:
    """Task that runs before a shuffle by range; see ``MapInput.sample``."""
    return map_input.sample(index, item, num_rows)
