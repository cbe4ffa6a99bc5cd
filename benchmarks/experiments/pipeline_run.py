"""The pipeline of figure 2.11 through one engine, under one memory limit: how long it takes.

Each engine gets a process of its own, which needs only that engine and prints JSON: ``pipelines`` runs this for all.
Ours has the limit for blocks, worker processes and their tasks. Ray has as large an object store, and its workers and
tasks are not counted. Both begin with a shorter run, which starts the processes.

    python -m benchmarks.experiments.pipeline_run exoshuffle 160 640 bench-data
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.experiments.waiting import BATCH_ROWS, ROWS, SCHEMA, infer, load, work
from benchmarks.peers.job import NOT_INSTALLED

NUM_CPUS, NUM_GPUS = 8, 4
#: Source tasks of the run that starts the processes.
NUM_WARM_UP = 8

#: Runs so many source tasks, and returns the rows that went through.
Run = Callable[[int], int]


def through_exoshuffle(limit: int, root: Path, measure: Callable[[Run], None]) -> None:
    """Measures our engine."""
    import exoshuffle as xs
    from benchmarks.experiments.experiment import engine

    def run(num_tasks: int) -> int:
        numbers = xs.from_pydict({"task": list(range(num_tasks))}).repartition(num_tasks)
        loaded = numbers.flat_map(load, schema=SCHEMA)
        worked = loaded.map_batches(
            work, schema=SCHEMA, batch_size=BATCH_ROWS, concurrency=NUM_CPUS
        )
        return sum(worked.map_batches(infer, batch_size=BATCH_ROWS, num_gpus=1).to_pydict()["rows"])

    with engine(root, limit, num_cpus=NUM_CPUS, num_gpus=NUM_GPUS):
        measure(run)


def through_ray(limit: int, root: Path, measure: Callable[[Run], None]) -> None:
    """Measures Ray Data, on a one-machine cluster of its own."""
    import ray

    ray.init(
        "local",
        num_cpus=NUM_CPUS,
        num_gpus=NUM_GPUS,
        object_store_memory=limit,
        object_spilling_directory=str((root / "scratch-ray").resolve()),
        include_dashboard=False,
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    pool = ray.data.TaskPoolStrategy(NUM_CPUS)

    def run(num_tasks: int) -> int:
        numbers = ray.data.range(num_tasks, override_num_blocks=num_tasks)
        worked = numbers.flat_map(load).map_batches(
            work, batch_format="pyarrow", batch_size=BATCH_ROWS, compute=pool
        )
        done = worked.map_batches(
            infer, batch_format="pyarrow", batch_size=BATCH_ROWS, num_gpus=1, num_cpus=0
        )
        return sum(row["rows"] for row in done.take_all())

    try:
        measure(run)
    finally:
        ray.shutdown()


ENGINES = {"exoshuffle": through_exoshuffle, "ray": through_ray}


def main() -> None:
    """Runs the engine of the command line, and prints how long it took."""
    name, num_tasks, limit, root = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

    def measure(run: Run) -> None:
        run(NUM_WARM_UP)
        started = time.monotonic()
        rows = run(num_tasks)
        seconds = time.monotonic() - started
        assert rows == num_tasks * ROWS, rows
        print(json.dumps({"seconds": seconds}))

    try:
        ENGINES[name](limit * 1_000_000, Path(root), measure)
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_INSTALLED)


if __name__ == "__main__":
    main()
