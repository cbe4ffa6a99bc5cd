"""Pipelines of stages: how near policies come to the optimum, simulated, and how near the engine comes to that.

Luan's dissertation (§2.5.3.1) has a pipeline of three stages on 8 CPUs and 4 GPUs. There are 160 tasks that load 500 MB
in 5 s each. Then 100 MB are transformed in 0.5 s, and a GPU takes 0.5 s for them. Its solver's optimum is 153 s. Its
adaptive policy takes 1.3 times as long at nearly all limits, and a conservative one 10 to 88 % more than that. Memory
is counted here in partitions of 100 MB between stages; the limits of the original include what tasks have in hand.

Our engine and Ray Data run the same with tasks that wait, durations divided by ten and sizes by fifty. The time beyond
the simulation is their own work. Both halves of §2.5.3.5 (stages of 1 s and 2 s on 8 slots) are simulated.

    python -m benchmarks.experiments.pipelines --tasks 160 --limit 640
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.experiments.experiment import Finding, in_turn, parser, ratio, show
from benchmarks.experiments.pipeline_run import ENGINES
from benchmarks.experiments.waiting import SPEED
from benchmarks.measure import last_lines
from benchmarks.records import last_json
from benchmarks.rounds import spread
from benchmarks.sort_parquet import PEERS_PYTHON
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
PEER = "ray"
#: MB for the engines that run. 320 and 640 are 16 and 32 GB of the original, divided as its sizes are.
RUN_LIMITS = (320, 400, 480, 640, 800, 1200, 1600)


def figure(num_tasks: int, memory: int, speed: float = 1) -> Pipeline:
    """The pipeline of figure 2.11."""
    stages = (
        Stage("load", 5 / speed, 0, 5),
        Stage("transform", 0.5 / speed),
        Stage("infer", 0.5 / speed, 1, 0, {"GPU": 1}),
    )
    return Pipeline(stages, num_tasks, {"CPU": 8, "GPU": 4}, memory)


def measured(engine: str, num_tasks: int, limit: int, root: Path) -> float | None:
    """Runs one engine under one limit, in MB; returns the seconds, or None if it fails, and prints its own words."""
    python = str(PEERS_PYTHON) if engine == PEER and PEERS_PYTHON.exists() else sys.executable
    program = [python, "-m", "benchmarks.experiments.pipeline_run"]
    command = [*program, engine, str(num_tasks), str(limit), str(root)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        print(f"{engine}: {last_lines(result.stderr) or 'failed without a word'}", flush=True)
        return None
    return float(last_json(result.stdout)["seconds"])


def run(options: argparse.Namespace) -> list[Finding]:
    """Runs the engines at each limit, in turn; returns their times beside the shortest one simulated."""
    best = simulate(figure(options.tasks, LIMITS[-1], SPEED)).seconds
    found = []
    for limit in options.limit or RUN_LIMITS:
        contenders = {
            engine: functools.partial(measured, engine, options.tasks, limit, options.root)
            for engine in ENGINES
            if engine in (options.only or ENGINES)
        }
        runs = in_turn(options.rounds, contenders)
        done = {
            engine: [one for one in seconds if one is not None] for engine, seconds in runs.items()
        }
        for engine, seconds in done.items():
            ratios = spread([one / best for one in seconds], 2) if seconds else "failed"
            original = "1.3" if engine == PEER else ""
            found.append(Finding(f"{engine} within {limit} MB", ratios, original))
        if all(len(done.get(one, ())) == options.rounds for one in ENGINES):
            compared = ratio(done["exoshuffle"], done[PEER])
            found.append(Finding(f"exoshuffle / {PEER} within {limit} MB", compared))
    return found


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
    made = parser("Pipelines of stages: policies and the engines.", 1)
    made.add_argument("--tasks", type=int, default=160, help="source tasks")
    made.add_argument(
        "--limit", type=int, action="append", default=[], help="in MB; default: seven"
    )
    made.add_argument("--only", action="append", default=[], choices=list(ENGINES))
    options = made.parse_args()
    findings = simulated(options.tasks)
    options.root.mkdir(parents=True, exist_ok=True)
    findings += run(options)
    title = f"Pipelines: {options.tasks} tasks; * spilled; engines: of the simulated time"
    show(title, "Luan, UCB/EECS-2024-219, §2.5.3: m6i.2xlarge with simulated GPUs", findings)


if __name__ == "__main__":
    main()
