"""No-op tasks: how many a second and how long one takes, on our threads, in our worker processes, and in Ray.

The papers show the rate of no-op tasks of whole clusters, in figures without numbers (Wang's dissertation, §4.5.1, Fig
4.12). They say that a call begins within "single-digit milliseconds" (Oakes, §1). So Ray itself runs beside us, in
turn, each in a process of its own (``noop_tasks``) confined to the same two CPUs. Ray is not measured if it is not
installed.

    python -m benchmarks.experiments.noop --tasks 3000
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks.experiments.experiment import Finding, in_turn, ratio, show
from benchmarks.experiments.noop_tasks import ENGINES
from benchmarks.measure import last_lines
from benchmarks.records import last_json
from benchmarks.rounds import spread
from benchmarks.sort_parquet import PEERS_PYTHON

PEER = "ray"
#: The goals: so many times the tasks a second of the peer.
TARGETS = {"thread": 10, "process": 2}

#: The figures that ``noop_tasks`` printed.
Rates = dict[str, float]


def run(engine: str, num_tasks: int) -> Rates | None:
    """Runs one engine; returns None if it fails, and prints its own words."""
    python = str(PEERS_PYTHON) if engine == PEER and PEERS_PYTHON.exists() else sys.executable
    command = [python, "-m", "benchmarks.experiments.noop_tasks", engine, str(num_tasks)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        print(f"{engine}: {last_lines(result.stderr) or 'failed without a word'}", flush=True)
        return None
    return last_json(result.stdout)


def main() -> None:
    """Runs all engines in turn and prints the table."""
    made = argparse.ArgumentParser(description="No-op tasks: their rate and latency.")
    made.add_argument("--rounds", type=int, default=3, help="how often to repeat")
    made.add_argument("--tasks", type=int, default=3000, help="for the rate")
    made.add_argument("--only", action="append", default=[], choices=list(ENGINES))
    options = made.parse_args()
    results = _finished(options)
    if not results:
        sys.exit("no engine finished")
    rows = [_own_row(engine, rates) for engine, rates in results.items()]
    if PEER in results:
        rows += [_target_row(engine, results) for engine in TARGETS if engine in results]
    show(
        f"No-op tasks: {options.tasks} at once, and one at a time",
        "Oakes, UCB/EECS-2020-119, §1 (Ray); the target is ours, the papers give no rate of one machine",
        rows,
    )


def _finished(options: argparse.Namespace) -> dict[str, list[Rates]]:
    contenders = {
        engine: functools.partial(run, engine, options.tasks)
        for engine in ENGINES
        if not options.only or engine in options.only
    }
    runs = in_turn(options.rounds, contenders)
    return {
        engine: [rates for rates in runs[engine] if rates is not None]
        for engine in contenders
        if None not in runs[engine]
    }


def _own_row(engine: str, rates: Sequence[Rates]) -> Finding:
    per_second = spread([one["per_second"] for one in rates], 0)
    latency = spread([one["latency"] * 1e3 for one in rates], 2)
    says = "single-digit ms until a call begins" if engine == PEER else ""
    return Finding(engine, f"{per_second} tasks/s, {latency} ms for one", says)


def _target_row(engine: str, results: Mapping[str, Sequence[Rates]]) -> Finding:
    ours, theirs = results[engine], results[PEER]
    rate = ratio([one["per_second"] for one in ours], [one["per_second"] for one in theirs])
    latency = ratio([one["latency"] for one in ours], [one["latency"] for one in theirs])
    return Finding(
        f"{engine} / {PEER}",
        f"{rate} the rate (target: {TARGETS[engine]}x), {latency} the time of one",
    )


if __name__ == "__main__":
    main()
