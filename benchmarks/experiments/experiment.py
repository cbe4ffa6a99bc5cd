"""The common parts of experiments: their own engine, contenders in turn, and the table with the original's figures.

Guarantee: contenders run in turn (A B A B), so that a machine that slows down slows both. Figures are medians with the
smallest and largest, and ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

import exoshuffle as xs
from benchmarks.rounds import spread
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits

MIB = 1024 * 1024
NUM_CPUS = 2

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Finding:
    """One row of the table.

    Attributes:
        shows: The compared quantity.
        ours: The figure measured now.
        original: The figure or the words of the paper; empty if it gives none.
    """

    shows: str
    ours: str
    original: str = ""


def parser(description: str, num_rounds: int) -> argparse.ArgumentParser:
    """Returns a parser with the settings of every experiment that has an engine in its own process."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--rounds", type=int, default=num_rounds, help="how often to repeat")
    made.add_argument(
        "--root", type=Path, default=Path("bench-data"), help="where spilled data goes"
    )
    return made


@contextlib.contextmanager
def engine(root: Path, budget_bytes: int, **options: Any) -> Iterator[LocalEngine]:
    """Starts an engine whose blocks and tasks have so much memory, with two CPUs by default; spills below ``root``."""
    spill = root / "scratch-engine"
    spill.mkdir(parents=True, exist_ok=True)
    limit = limits.limit_for(budget_bytes)
    try:
        started = xs.init(
            memory_limit=limit, spill_dirs=str(spill), **{"num_cpus": NUM_CPUS, **options}
        )
        assert isinstance(started, LocalEngine)
        yield started
    finally:
        xs.shutdown()
        shutil.rmtree(spill)


def in_turn(
    num_rounds: int, contenders: Mapping[str, Callable[[], _Result]]
) -> dict[str, list[_Result]]:
    """Runs every contender once per round, in turn; returns the results of each, by round."""
    results: dict[str, list[_Result]] = {name: [] for name in contenders}
    for _ in range(num_rounds):
        for name, run in contenders.items():
            results[name].append(run())
    return results


def ratio(values: Sequence[float], baselines: Sequence[float]) -> str:
    """Formats values over baselines, round by round: ``1.9x (1.8 - 2.1)``."""
    quotients = [value / baseline for value, baseline in zip(values, baselines, strict=True)]
    middle, *around = spread(quotients, 2).split(" ", maxsplit=1)
    return " ".join([f"{middle}x", *around])


def show(title: str, original: str, findings: Sequence[Finding]) -> None:
    """Prints the table.

    Args:
        title: Name of the experiment.
        original: Source of the original's figures, and the machine on which they were measured.
        findings: The rows.
    """
    table = Table(
        "what is shown",
        "ours",
        "the original's",
        title=title,
        caption=f"The original's: {original}",
    )
    for row in findings:
        table.add_row(row.shows, row.ours, row.original)
    Console(width=140).print(table)
