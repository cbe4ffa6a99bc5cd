"""Rounds of runs, their ratios, and how both are printed and kept.

Guarantee: nothing is hidden. Every run is in the JSON file, including warm-up rounds and failures; tables show the
median with the smallest and largest. A ratio is taken within one round, between runs minutes apart, so that a machine
that slows down over the hour slows both sides. The printed ratio is the median of these.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Measurement, last_lines

RESULTS = Path("benchmarks/results")


@dataclass(frozen=True)
class Run:
    """One run of one contender.

    Attributes:
        contender: Its name.
        round: From 0; a warm-up round is negative.
        measurement: Time and memory.
        notes: Other findings of the benchmark, for the JSON file.
    """

    contender: str
    round: int
    measurement: Measurement
    notes: dict[str, Any]

    @property
    def counts(self) -> bool:
        """Returns whether the run goes into medians."""
        return self.round >= 0 and self.measurement.exit_code == 0


@dataclass(frozen=True)
class Rounds:
    """How often to run: some rounds that are shown but not counted, then those that are."""

    num_rounds: int
    num_warm_up: int

    def play(self, contenders: Sequence[str], play_one: Callable[[str, int], Run]) -> list[Run]:
        """Runs every contender once per round, forth and back: A B C C B A.

        Then the same contender does not always suffer from what a run leaves behind, such as dirty pages. In A B A B, A
        seemed to take 15 % more of the processor's time than B, beside which it takes about the same.

        A contender that fails takes no part in later rounds; its failure stays in the results.
        """
        runs: list[Run] = []
        left = list(contenders)
        for number in range(-self.num_warm_up, self.num_rounds):
            for contender in list(left) if number % 2 == 0 else left[::-1]:
                run = play_one(contender, number)
                runs.append(run)
                print(_one_line(run), flush=True)
                if run.measurement.exit_code != 0:
                    left.remove(contender)
        return runs


def _one_line(run: Run) -> str:
    kind = "warm-up" if run.round < 0 else f"round {run.round + 1}"
    measured = run.measurement
    if measured.exit_code != 0:
        return f"{kind}: {run.contender}: {last_lines(measured.errors) or 'failed without a word'}"
    return (
        f"{kind}: {run.contender}: {measured.seconds:.1f} s, {measured.synced_seconds:.1f} s to disk, "
        f"{measured.peak_bytes / 1e9:.2f} GB"
    )


def table(runs: Sequence[Run], rivals: Mapping[str, Sequence[str]]) -> Table:
    """Returns medians (smallest - largest) per contender.

    Args:
        runs: All runs.
        rivals: For each contender the rivals whose times divide its own, a line each.
    """
    result = Table("", "seconds", "seconds to disk", "ratio", "of its time to that of", "peak GB")
    for contender, names in rivals.items():
        counted = [run.measurement for run in runs if run.contender == contender and run.counts]
        if not counted:
            result.add_row(contender, "no result: see below")
            continue
        result.add_row(
            contender,
            spread([one.seconds for one in counted]),
            spread([one.synced_seconds for one in counted]),
            "\n".join(spread(ratios(runs, contender, rival), 2) for rival in names),
            "\n".join(names),
            spread([one.peak_bytes / 1e9 for one in counted], 2),
        )
    return result


def ratios(runs: Sequence[Run], contender: str, baseline: str) -> list[float]:
    """Returns time to disk of one contender over that of another, round by round."""
    seconds = {
        (run.contender, run.round): run.measurement.synced_seconds for run in runs if run.counts
    }
    return [
        seconds[contender, number] / seconds[baseline, number]
        for name, number in seconds
        if name == contender and (baseline, number) in seconds
    ]


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Formats the median (smallest-largest)."""
    if not values:
        return ""
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({low:.{digits}f} - {high:.{digits}f})"


def publish(name: str, result: Table, settings: dict[str, Any], runs: Sequence[Run]) -> None:
    """Prints the table and keeps everything behind it as JSON."""
    now = datetime.now(timezone.utc)
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}-{now:%Y%m%d-%H%M%S}.json"
    content = {
        "benchmark": name,
        "time": now.isoformat(timespec="seconds"),
        "machine": {
            "cpus": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "settings": settings,
        "runs": [dataclasses.asdict(run) for run in runs],
    }
    path.write_text(json.dumps(content, indent=1, default=str))
    Console(width=160).print(result)
    for run in runs:
        if run.measurement.exit_code != 0:
            print(_one_line(run))
    print(f"every run: {path}")
