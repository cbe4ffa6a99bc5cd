"""Measures the checks that rows come out of a shuffle as they went in: processor time with hashes and without.

Guarantee: whole programs are measured, each in a new process with all that it starts. A run without hashes is minutes
at most before or after the run with hashes that it is compared with. Every run says whether its module hashes rows.

The module without hashes is built here, in a temporary folder, by a flag for the compiler. No switch of the product
could leave them out. There every hash is 0 (``crates/kernels/src/checks/tally.rs``), so all sums agree. Both modules do
the other checks: rows are counted, slices have their headers, and reduces look for the output of every map. That is an
addition per row, and 40 bytes per slice; it is not in the figure.

    python -m benchmarks.checks sort --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

import exoshuffle
from benchmarks.data import ROWS_PER_GB, parquet_input
from benchmarks.measure import measure
from benchmarks.peers.job import Job
from benchmarks.rounds import Rounds, Run, publish, spread
from benchmarks.sort_parquet import GB, set_cached
from exoshuffle import _native
from exoshuffle.units import parse_bytes

OPERATORS = ("sort", "random_shuffle", "group_by")
WITH, WITHOUT = "with hashes", "without"
#: The most that hashes may take of the processor time of a run.
REQUIRED_PERCENT = 5
#: Gigabytes, rounds and warm-up rounds of a trial.
TRIAL = {"gb": 0.002, "rounds": 1, "warm_up": 0}


@dataclass(frozen=True)
class Arena:
    """The place where the runs are made.

    Attributes:
        packages: Folders with the Python package, by what their native module does.
        input: The data set.
        scratch: Folder for outputs and spilled data, emptied after each run.
        num_threads: CPUs.
        limit_bytes: Memory limit.
        num_keys: See ``Job``.
    """

    packages: dict[str, Path]
    input: Path
    scratch: Path
    num_threads: int
    limit_bytes: int
    num_keys: int

    def run(self, contender: str, number: int) -> Run:
        """Runs an operator once with one of the packages, with the input in the page cache."""
        operator, variant = contender.split(", ")
        spill, output = self.scratch / "spill", self.scratch / "output"
        spill.mkdir(parents=True)
        job = Job(
            operator,
            str(self.input.resolve()),
            str(output.resolve()),
            str(spill.resolve()),
            self.num_threads,
            self.limit_bytes,
            self.num_keys,
        )
        set_cached(self.input.iterdir(), cached=True)
        before = _cpu_seconds()
        measured = measure(
            [sys.executable, "-m", "benchmarks.peers.exoshuffle_hashing", job.to_json()],
            {"PYTHONPATH": os.pathsep.join(_path_with(self.packages[variant]))},
        )
        seconds = _cpu_seconds() - before
        shutil.rmtree(self.scratch)
        if measured.exit_code == 0:
            _check_module(contender, measured.output, has_hashes=variant == WITH)
        return Run(contender, number, measured, {"cpu_seconds": seconds})


def _path_with(package: Path) -> list[str]:
    return [str(package.resolve()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]


def _cpu_seconds() -> float:
    """Returns the processor time of all processes that this one has waited for, and those that they have waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _check_module(contender: str, printed: str, has_hashes: bool) -> None:
    """Ends this program if a run did not use the expected module."""
    found = json.loads(printed.splitlines()[-1])["hashes"]
    if found != has_hashes:
        sys.exit(f"{contender}: the module {'hashes' if found else 'does not hash'} rows")


def main() -> None:
    """Builds the module, plays the rounds of all operators and prints the table."""
    options = _options()
    operators = options.operators or OPERATORS
    source = parquet_input(options.gb, options.root)
    with tempfile.TemporaryDirectory(dir=options.root, prefix="checks-") as name:
        folder = Path(name)
        modules = {WITH: Path(_native.__file__), WITHOUT: options.module or build(folder / "build")}
        arena = Arena(
            {variant: package(folder / variant, module) for variant, module in modules.items()},
            source,
            folder / "scratch",
            options.threads,
            options.memory_limit,
            round(options.gb * ROWS_PER_GB) // 2 + 3,
        )
        rounds = Rounds(options.rounds, options.warm_up)
        runs: list[Run] = []
        # One after the other, so that every run comes after one of its kind.
        for operator in operators:
            runs += rounds.play([f"{operator}, {variant}" for variant in modules], arena.run)
    publish("checks", _table(runs, operators), vars(options), runs)
    for operator in operators:
        print(f"{operator}: {verdict(shares(runs, operator))}")


def build(folder: Path) -> Path:
    """Builds a native module that does not hash rows, as ``make build`` builds the other. Takes minutes."""
    folder = folder.resolve()
    command = [sys.executable, "-m", "maturin", "build", "--release", "--quiet"]
    places = [
        "--interpreter",
        sys.executable,
        "--out",
        f"{folder}/wheel",
        "--target-dir",
        str(folder),
    ]
    flags = {"RUSTFLAGS": "--cfg exoshuffle_without_hashes", "PYO3_PYTHON": sys.executable}
    subprocess.run([*command, *places], env={**os.environ, **flags}, check=True)
    return folder / "release" / "lib_native.so"


def package(folder: Path, module: Path) -> Path:
    """Copies the Python package with this native module into a folder for the path."""
    original = Path(exoshuffle.__file__).parent
    ignore = shutil.ignore_patterns("_native*.so", "__pycache__")
    shutil.copytree(original, folder / original.name, ignore=ignore)
    shutil.copy(module, folder / original.name / Path(_native.__file__).name)
    return folder


def shares(runs: Sequence[Run], operator: str) -> list[float]:
    """Returns the share of hashes in the processor time of an operator, in percent, round by round."""
    seconds = {(run.contender, run.round): run.notes["cpu_seconds"] for run in runs if run.counts}
    found = []
    for number in sorted({run.round for run in runs}):
        whole, rest = (seconds.get((f"{operator}, {one}", number)) for one in (WITH, WITHOUT))
        if whole and rest:
            found.append(100 * (1 - rest / whole))
    return found


def verdict(percents: Sequence[float]) -> str:
    """Returns a line that says whether the requirement is met; the median is judged."""
    asked = f"required: hashes take at most {REQUIRED_PERCENT} % of the processor time"
    if not percents:
        return f"{asked}: not compared"
    met = statistics.median(percents) <= REQUIRED_PERCENT
    return f"{asked}: {spread(percents)}: {'met' if met else 'missed'}"


def _table(runs: Sequence[Run], operators: Sequence[str]) -> Table:
    result = Table("", "CPU seconds with hashes", "without", "hashes take, %")
    for operator in operators:
        seconds = [
            [
                run.notes["cpu_seconds"]
                for run in runs
                if run.counts and run.contender == f"{operator}, {variant}"
            ]
            for variant in (WITH, WITHOUT)
        ]
        result.add_row(operator, *map(spread, seconds), spread(shares(runs, operator)))
    return result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What hashing all rows twice costs.")
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help=", ".join(OPERATORS))
    parser.add_argument("--gb", type=float, default=4, help="size of the table")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before them that do not")
    parser.add_argument("--threads", type=int, default=2, help="CPUs")
    parser.add_argument(
        "--memory-limit", type=parse_bytes, default=2 * GB, metavar="SIZE", help="such as 2GB"
    )
    parser.add_argument("--root", type=Path, default=Path("bench-data"), help="where data is")
    parser.add_argument(
        "--module", type=Path, help="the module without hashes, instead of building it"
    )
    parser.add_argument(
        "--trial", action="store_true", help="a few thousand rows and one round: does it run?"
    )
    options = parser.parse_args()
    unknown = sorted({*options.operators} - {*OPERATORS})
    if unknown:
        parser.error(f"unknown operator {unknown[0]}; known are {', '.join(OPERATORS)}")
    if options.trial:
        vars(options).update(TRIAL)
    return options


if __name__ == "__main__":
    main()
