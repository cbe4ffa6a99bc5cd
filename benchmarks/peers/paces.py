"""How fast loaders are, side by side: each in a process of its own, round by round.

Guarantee: what came out of each epoch is checked. A program runs two, and the second one counts: imports, and memory
that is touched for the first time, are in the first. Processor time is that of the program and of all processes below
it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import psutil

from benchmarks.measure import measure, require_success
from benchmarks.rounds import spread
from exoshuffle.late_dataclasses import dataclass

#: From a folder to what starts an epoch, which yields the amount that came with each batch.
Loader: TypeAlias = "Callable[[Path], Callable[[], Iterator[int]]]"


@dataclass(frozen=True)
class Race:
    """Loaders that do the same.

    Attributes:
        module: The program that runs them: its name for ``python -m``.
        unit: The unit of what they yield.
        loaders: The loaders; the first one is what others are compared with.
        make: Makes the data in a folder, so much of it.
        total: Tells how much an epoch has.
    """

    module: str
    unit: str
    loaders: Mapping[str, Loader]
    make: Callable[[Path, int], None]
    total: Callable[[Path], int]


def run(race: Race, about: str, amount: int) -> None:
    """Runs all loaders, or the one that the command line names; the data is made if its folder is missing."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--amount", type=int, default=amount)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loader", choices=race.loaders)
    given = parser.parse_args()
    if given.loader is not None:
        start = race.loaders[given.loader](given.folder)
        epochs = [_epoch(start) for _ in range(2)]
        print(json.dumps(epochs))
        return
    if not given.folder.exists():
        race.make(given.folder, given.amount)
    rounds = [
        {name: _played(race, name, given.folder) for name in race.loaders}
        for _ in range(given.rounds)
    ]
    first = next(iter(race.loaders))
    for name in race.loaders:
        paces, cpus = zip(*(runs[name] for runs in rounds), strict=True)
        by_pace = [runs[name][0] / runs[first][0] for runs in rounds]
        by_cpu = [runs[name][1] / runs[first][1] for runs in rounds]
        print(
            f"{name:24}{spread(paces, 2)} {race.unit}/s, {spread(by_pace, 2)} of {first}; "
            f"CPU {spread(cpus, 1)} s, {spread(by_cpu, 2)}"
        )


def _played(race: Race, name: str, folder: Path) -> tuple[float, float]:
    """Returns the amount per second, and the processor time, of a run in a process of its own."""
    command = [sys.executable, "-m", race.module, str(folder), "--loader", name]
    result = require_success(command, measure(command))
    expected = race.total(folder)
    for came, _, _ in (epochs := json.loads(result.output.splitlines()[-1])):
        if came != expected:
            sys.exit(f"{name}: {came} {race.unit} came, of {expected}")
    _, seconds, cpu_seconds = epochs[-1]
    return expected / seconds, cpu_seconds


def _epoch(start: Callable[[], Iterator[int]]) -> tuple[int, float, float]:
    """Returns what came in an epoch, and the seconds and the processor time that it took."""
    begun, used = time.monotonic(), _cpu_seconds()
    came = sum(start())
    return came, time.monotonic() - begun, _cpu_seconds() - used


def _cpu_seconds() -> float:
    """Returns the processor time of this process and those below it, with those that have ended."""
    own = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (own, *own.children(recursive=True)))
