"""Sort 4 GB of Parquet by a random int64 key: Exoshuffle beside its peers, within memory limits and without.

Guarantee: same input files, same format and codec of the output, same number of threads, one process per run. The first
output of each contender is verified row by row. The table names contenders that are not installed.

    python -m benchmarks.sort_parquet --rounds 3 --with ray
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import verify
from benchmarks.data import parquet_input
from benchmarks.measure import Measurement, measure
from benchmarks.peers.job import Job
from benchmarks.rounds import Rounds, Run, publish, table

PEERS_PYTHON = Path("benchmarks/.peers/bin/python")
GB = 1_000_000_000


@dataclass(frozen=True)
class Contender:
    """An engine with a memory limit.

    Attributes:
        engine: Module in ``benchmarks.peers``.
        limit_bytes: The engine's own limit; None: its default.
        folder: Whether its output is a folder of files.
        rival_limits: The limits of the Exoshuffles that it is compared with.
        rival_engines: The engines on which these run.
    """

    engine: str
    limit_bytes: int | None = None
    folder: bool = True
    rival_limits: tuple[int | None, ...] = (None,)
    rival_engines: tuple[str, ...] = ("exoshuffle",)

    @property
    def name(self) -> str:
        """Returns its name in the table."""
        return _name(self.engine, self.limit_bytes)

    @property
    def rivals(self) -> list[str]:
        """Returns the names of the contenders that it is compared with."""
        return [
            _name(engine, limit_bytes)
            for engine in self.rival_engines
            for limit_bytes in self.rival_limits
        ]


def _name(engine: str, limit_bytes: int | None) -> str:
    return f"{engine}, {f'{limit_bytes / GB:g} GB' if limit_bytes else 'no limit'}"


#: Polars' budget limits its sort, not the process; 1.6 GB brings the process to about 2.
ALWAYS = (
    Contender("exoshuffle", 2 * GB, rival_limits=(2 * GB,)),
    Contender("duckdb", 2 * GB, folder=False, rival_limits=(2 * GB,)),
    Contender("polars", 1_600_000_000, folder=False, rival_limits=(2 * GB,)),
    Contender("exoshuffle"),
    Contender("duckdb", 8 * GB, folder=False),
    Contender("polars", folder=False, rival_limits=(None, 2 * GB)),
)
ON_REQUEST = (
    Contender("daft"),
    Contender("exoshuffle_on_ray", 2 * GB, rival_limits=(2 * GB,)),
    Contender(
        "ray", 2 * GB, rival_limits=(2 * GB,), rival_engines=("exoshuffle_on_ray", "exoshuffle")
    ),
    Contender("spark", 2 * GB, rival_limits=(2 * GB,)),
)


@dataclass(frozen=True)
class Arena:
    """The place where runs are made.

    Attributes:
        input: The data set.
        scratch: Folder for outputs and spilled data, emptied after each run.
        expected: Fingerprint of the input.
        num_threads: CPUs for each engine.
        cold: Whether the input is dropped from the page cache before each run, rather than read into it.
    """

    input: Path
    scratch: Path
    expected: verify.Fingerprint
    num_threads: int
    cold: bool

    def run(self, contender: Contender, number: int, check: bool) -> Run:
        """Runs a contender once, with the input in the page cache (or not), the same for all."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        spill = self.scratch / "spill"
        spill.mkdir(parents=True)
        output = self.scratch / ("output" if contender.folder else "output.parquet")
        job = Job(
            "sort",
            str(self.input.resolve()),
            str(output.resolve()),
            str(spill.resolve()),
            self.num_threads,
            contender.limit_bytes,
        )
        set_cached(self.input.iterdir(), not self.cold)
        measured = measure(
            [python_of(contender), "-m", f"benchmarks.peers.{contender.engine}", job.to_json()]
        )
        notes = self._inspect(output, measured, check)
        shutil.rmtree(self.scratch)
        return Run(contender.name, number, measured, notes)

    def _inspect(self, output: Path, measured: Measurement, check: bool) -> dict[str, object]:
        if measured.exit_code != 0:
            return {}
        if check:
            verify.check_sorted(output, self.expected)
        return {
            "verified": check,
            "output_bytes": verify.output_bytes(output),
            "compressions": verify.compressions(output),
        }


def python_of(contender: Contender) -> str:
    """Returns the interpreter of a contender: peers have an environment of their own, if ``make bench`` made it."""
    if contender.engine.startswith("exoshuffle") or not PEERS_PYTHON.exists():
        return sys.executable
    return str(PEERS_PYTHON)


def set_cached(files: Iterable[Path], cached: bool) -> None:
    """Puts files into the page cache, by reading them, or takes them out."""
    for path in filter(Path.is_file, files):  # no seal
        with path.open("rb", buffering=0) as file:
            if cached:
                while file.read(8 * 1024 * 1024):
                    pass
            else:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    """Plays the rounds and prints the table."""
    options = _options()
    folder = parquet_input(options.gb, options.root)
    arena = Arena(
        folder,
        options.root / "scratch-sort-parquet",
        verify.fingerprint(folder),
        options.threads,
        options.cold,
    )
    extra = [one for one in ON_REQUEST if one.engine in options.extra]
    contenders = {
        one.name: one for one in (*ALWAYS, *extra) if not options.only or one.name in options.only
    }
    seen: set[str] = set()

    def play_one(name: str, number: int) -> Run:
        run = arena.run(contenders[name], number, check=name not in seen)
        seen.add(name)
        return run

    rounds = Rounds(options.rounds, options.warm_up)
    runs = rounds.play(list(contenders), play_one)
    rivals = {one.name: one.rivals for one in contenders.values()}
    publish("sort_parquet", table(runs, rivals), vars(options), runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Sort Parquet: Exoshuffle beside its peers.")
    parser.add_argument("--gb", type=float, default=4, help="size of the data set")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before them that do not")
    parser.add_argument("--threads", type=int, default=2, help="CPUs for each engine")
    parser.add_argument(
        "--cold", action="store_true", help="drop the input from the page cache before each run"
    )
    parser.add_argument("--root", type=Path, default=Path("bench-data"), help="where data is")
    names = [one.name for one in (*ALWAYS, *ON_REQUEST)]
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help=f"of {'; '.join(names)}"
    )
    engines = [one.engine for one in ON_REQUEST]
    parser.add_argument(
        "--with", action="append", default=[], dest="extra", choices=engines, help="also run"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
