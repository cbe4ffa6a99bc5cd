"""Pipelines of stages: how near policies come to the optimum, simulated, and how near the engine comes to that.

Luan's dissertation (§2.5.3.1) has a pipeline of three stages on 8 CPUs and 4 GPUs. There are 160 tasks that load 500 MB
in 5 s each. Then 100 MB are transformed in 0.5 s, and a GPU takes 0.5 s for them. Its solver's optimum is 153 s. Its
adaptive policy takes 1.3 times as long at nearly all limits, and a conservative one 10 to 88 % more than that. Memory
is counted here in partitions of 100 MB between stages; the limits of the original include what tasks have in hand.

The engine runs the same with tasks that wait, durations divided by ten and sizes by fifty. The time beyond the
simulation is its own work. Both halves of §2.5.3.5 (stages of 1 s and 2 s on 8 slots) are simulated.

    python -m benchmarks.experiments.pipelines --tasks 160
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

import exoshuffle as xs
from benchmarks.experiments.experiment import Finding, engine, in_turn, parser, show
from benchmarks.rounds import spread
from exoshuffle.pipelines import (
    Balanced,
    Budgeted,
    Conservative,
    Foresight,
    Pipeline,
    Policy,
    Stage,
    Staged,
    Static,
    simulate,
)

#: Partitions that may wait between stages.
LIMITS = (5, 10, 20, 40, 80, 160, 320)
POLICIES: Mapping[str, Callable[[], Policy]] = {
    "foresight": Foresight,
    "balanced": Balanced,
    "conservative": Conservative,
    "Algorithms 1 and 2": Budgeted,
    "static, 5 + 3 + 4": lambda: Static((5, 3, 4)),
    "staged": Staged,
}
SPEED, ROW_BYTES, ROWS, BATCH_ROWS = 10, 20_000, 500, 100
BUDGET_BYTES = 1_600_000_000
_SCHEMA = pa.schema({"row": pa.binary()})


def figure(num_tasks: int, memory: int, speed: float = 1) -> Pipeline:
    """The pipeline of figure 2.11."""
    stages = (
        Stage("load", 5 / speed, 0, 5),
        Stage("transform", 0.5 / speed),
        Stage("infer", 0.5 / speed, 1, 0, {"GPU": 1}),
    )
    return Pipeline(stages, num_tasks, {"CPU": 8, "GPU": 4}, memory)


def load(batch: pa.Table) -> pa.Table:
    """Waits as a source task does, and makes its rows."""
    if not batch.num_rows:
        return _SCHEMA.empty_table()
    time.sleep(5 / SPEED * batch.num_rows)
    rows = pa.array([bytes(ROW_BYTES)] * (ROWS * batch.num_rows), pa.binary())
    return pa.table({"row": rows}, schema=_SCHEMA)


def work(batch: pa.Table) -> pa.Table:
    """Waits as the stages behind the source do."""
    time.sleep(0.5 / SPEED * batch.num_rows / BATCH_ROWS)
    return batch


def infer(batch: pa.Table) -> dict[str, Any]:
    """Waits likewise, and keeps a number."""
    return {"rows": pa.array([work(batch).num_rows], pa.int64())}


def measured(num_tasks: int) -> float:
    """Runs the pipeline on the engine; returns the seconds, without the start of its processes."""
    started = time.monotonic()
    dataset = (
        xs.from_pydict({"task": list(range(num_tasks))})
        .repartition(num_tasks)
        .map_batches(load, schema=_SCHEMA)
        .map_batches(work, schema=_SCHEMA, batch_size=BATCH_ROWS, concurrency=8)
        .map_batches(infer, batch_size=BATCH_ROWS, num_gpus=1)
    )
    rows = sum(dataset.to_pydict()["rows"])
    assert rows == num_tasks * ROWS, rows
    return time.monotonic() - started


def simulated(num_tasks: int) -> list[Finding]:
    """Returns the seconds of each policy at each limit, and of two stages on 8 slots."""
    bound = (num_tasks * 5 + num_tasks * 5 * 0.5) / 8
    found = [
        Finding("all CPUs busy all the time", f"{bound:g} s", "150 s; the optimum 153 s"),
    ]
    for name, policy in POLICIES.items():
        schedules = [simulate(figure(num_tasks, memory), policy()) for memory in LIMITS]
        times = ", ".join(
            f"{one.seconds / bound:.2f}{'*' * (one.spilled > 0)}" for one in schedules
        )
        original = {"foresight": "1.3 (adaptive)", "staged": "at least 2.35 (Spark)"}
        found.append(Finding(f"{name}, at {len(LIMITS)} limits", times, original.get(name, "")))
    two = Pipeline((Stage("a", 1, 0, 1), Stage("b", 2, 1, 0)), 80, {"CPU": 8}, 8)
    shared, fixed = simulate(two).seconds, simulate(two, Static((4, 4))).seconds
    less = f"{100 * (1 - shared / fixed):.0f} % less than 4 + 4 slots"
    return [*found, Finding("1 s and 2 s on 8 slots", less, "19 % less")]


def main() -> None:
    """Simulates, runs and prints the table."""
    made = parser("Pipelines of stages: policies and the engine.", 2)
    made.add_argument("--tasks", type=int, default=160, help="source tasks")
    options = made.parse_args()
    findings = simulated(options.tasks)
    options.root.mkdir(parents=True, exist_ok=True)
    with engine(options.root, BUDGET_BYTES, num_cpus=8, num_gpus=4):
        measured(8)  # starts the processes
        runs = in_turn(options.rounds, {"engine": functools.partial(measured, options.tasks)})[
            "engine"
        ]
    best = simulate(figure(options.tasks, 320, SPEED)).seconds
    ratios = spread([seconds / best for seconds in runs], 2)
    title = f"Pipelines: {options.tasks} tasks; * spilled"
    findings.append(Finding("the engine, of the simulated time", ratios, "1.3"))
    show(title, "Luan, UCB/EECS-2024-219, §2.5.3: m6i.2xlarge with simulated GPUs", findings)


if __name__ == "__main__":
    main()
