"""Partitions of pipelines: small ones, those of one long input, and slots that stages share or have for themselves.

Luan's dissertation has three such figures. In 2.12 (§2.5.3.2) two stages take 10 ms for a row each. How much of the
ideal throughput is left depends on the size of partitions. In 2.13 (§2.5.3.3) one video has 4,500 frames, and 16 of
them take 0.5 s. Its frames become several partitions while it is read, so that all slots work on them. 2.14 (§2.5.3.4)
has 20 videos, of which reading or preprocessing is slower, and fixed numbers of slots for each.

The engine runs 2.12 and 2.13 with tasks that wait, durations of 2.13 divided by ten. There are fewer rows, and they are
smaller. 2.14 is simulated: its original gives no durations, so these are ours.

    python -m benchmarks.experiments.partitions --rows 2048 --frames 4500
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import exoshuffle as xs
from benchmarks.experiments.experiment import Finding, engine, in_turn, parser, ratio, show
from benchmarks.rounds import spread
from exoshuffle.pipelines import Pipeline, Stage, Static, simulate

NUM_CPUS = 8
BUDGET_BYTES = 800_000_000
ROW_SECONDS, ROWS_OF_PARTITION = 0.01, (1, 4, 16, 64, 256)
FRAME_BYTES, FRAME_SECONDS = 100_000, 0.05 / 16
_FRAME = pa.schema({"frame": pa.binary()})


def wait(batch: pa.Table, seconds: float) -> pa.Table:
    """Waits so long for each row."""
    time.sleep(seconds * batch.num_rows)
    return batch


def partitioned(num_rows: int, rows: int) -> float:
    """Figure 2.12: returns the share of the ideal throughput with so many rows in a partition."""
    dataset = xs.from_pydict({"row": list(range(num_rows))}).repartition(num_rows // rows)
    for _ in range(2):
        dataset = dataset.map_batches(
            functools.partial(wait, seconds=ROW_SECONDS),
            schema=dataset.schema,
            concurrency=NUM_CPUS,
        )
    started = time.monotonic()
    assert dataset.count() == num_rows
    return 2 * num_rows * ROW_SECONDS / NUM_CPUS / (time.monotonic() - started)


def frames(row: dict[str, Any]) -> Iterator[dict[str, bytes]]:
    """Yields the frames of a video."""
    for _ in range(row["frames"]):
        yield {"frame": bytes(FRAME_BYTES)}


def video(num_frames: int, slots: int) -> float:
    """Figure 2.13: returns the seconds of one video, where so many blocks are preprocessed at once."""
    dataset = (
        xs.from_pydict({"frames": [num_frames]})
        .flat_map(frames, schema=_FRAME)
        .map_batches(
            functools.partial(wait, seconds=FRAME_SECONDS),
            schema=_FRAME,
            batch_size=16,
            concurrency=slots,
        )
    )
    started = time.monotonic()
    assert dataset.count() == num_frames
    return time.monotonic() - started


def fixed(reading: float, preprocessing: float) -> Finding:
    """Figure 2.14: returns how the scheduler compares with each pair of fixed numbers of slots."""
    stages = (
        Stage("read + decode", reading, 0, 5),
        Stage("preprocess", preprocessing),
        Stage("predict", 0.1, 1, 0, {"GPU": 1}),
    )
    pipeline = Pipeline(stages, 20, {"CPU": NUM_CPUS, "GPU": 1}, 40)
    pairs = {
        count: simulate(pipeline, Static((count, NUM_CPUS - count, 1))).seconds
        for count in range(1, NUM_CPUS)
    }
    best = min(pairs, key=lambda count: pairs[count])
    ours = simulate(pipeline).seconds
    return Finding(
        f"20 videos, {reading:g} s to read, 5 x {preprocessing:g} s to preprocess",
        f"{ours / pairs[best]:.2f}x of {best} + {NUM_CPUS - best}, the best pair; "
        f"{ours / pairs[1]:.2f}x of 1 + {NUM_CPUS - 1}",
        "the fastest of all",
    )


def main() -> None:
    """Runs, simulates and prints the table."""
    made = parser("Partitions and slots of pipelines.", 3)
    made.add_argument("--rows", type=int, default=2048, help="rows of figure 2.12")
    made.add_argument("--frames", type=int, default=4500, help="frames of the video")
    options = made.parse_args()
    sizes = [size for size in ROWS_OF_PARTITION if size * NUM_CPUS <= options.rows]
    contenders: dict[str, Callable[[], float]] = {
        **{f"{size} rows": functools.partial(partitioned, options.rows, size) for size in sizes},
        **{f"video {slots}": functools.partial(video, options.frames, slots) for slots in (1, 8)},
    }
    options.root.mkdir(parents=True, exist_ok=True)
    with engine(options.root, BUDGET_BYTES, num_cpus=NUM_CPUS, num_gpus=1):
        partitioned(options.rows, sizes[-1])  # starts the processes
        runs = in_turn(options.rounds, contenders)
    findings = [
        Finding(f"2 x 10 ms a row, {size} rows a partition", spread(runs[f"{size} rows"], 2))
        for size in sizes
    ]
    findings += [
        Finding(
            "one video, a block at a time",
            ratio(runs["video 1"], runs["video 8"]),
            "6x the time",
        ),
        fixed(1, 1),
        fixed(2, 0.2),
    ]
    title = "Partitions: shares of the ideal throughput, and times"
    show(title, "Luan, UCB/EECS-2024-219, §2.5.3.2 to §2.5.3.4: up to 8 vCPUs", findings)


if __name__ == "__main__":
    main()
