"""The other shuffles: Exoshuffle beside its peers at random order, grouping and joining, within the same memory limit.

Guarantee: same input files, same format and codec of the output, same number of threads, one process per run. The first
results of all contenders agree. The table names contenders that are not installed. Below each table stand the
requirements of Exoshuffle, and whether they were met.

``random_shuffle``: 4 GB of rows of 100 bytes, read as record batches. ``group_by``: the same rows by 20,000,003
remainders of a random key, which make 25 million groups; count, sum and minimum. ``join``: TPC-H's lineitem and orders.

    python -m benchmarks.shuffles group_by --rounds 3 --with exoshuffle_on_ray --with ray
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.agreement import (
    Summary,
    check_agree,
    summary_of_consumed,
    summary_of_files,
)
from benchmarks.data import ROWS_PER_GB, parquet_input
from benchmarks.measure import measure
from benchmarks.peers.job import Job
from benchmarks.requirements import Requirement, memory_verdict
from benchmarks.rounds import Rounds, Run, publish, table
from benchmarks.sort_parquet import GB, Contender, python_of, set_cached
from benchmarks.tpch import tpch_input
from exoshuffle.units import parse_bytes

OPERATORS = ("random_shuffle", "group_by", "join")
#: Gigabytes, scale factor, rounds and warm-up rounds of a trial.
TRIAL = {"gb": 0.002, "scale": 0.01, "rounds": 1, "warm_up": 0}


@dataclass(frozen=True)
class Contest:
    """One operator, and its contenders.

    Attributes:
        ours: Exoshuffle, within the limit.
        always: Its peers.
        on_request: Further peers.
        requirements: The requirements of Exoshuffle, on its own or on Ray.
    """

    ours: Contender
    always: tuple[Contender, ...]
    on_request: tuple[Contender, ...]
    requirements: tuple[tuple[Contender, Requirement], ...]


def contests(limit_bytes: int) -> dict[str, Contest]:
    """Returns the contests by operator.

    Args:
        limit_bytes: Memory limit of Exoshuffle, and of those peers that run within one.
    """
    limits = (limit_bytes,)
    ours = Contender("exoshuffle", limit_bytes, rival_limits=limits)
    limited = Contender("duckdb", limit_bytes, folder=False, rival_limits=limits)
    unlimited = Contender("duckdb", folder=False, rival_limits=limits)
    polars = Contender("polars", folder=False, rival_limits=limits)
    ray = Contender(
        "ray", limit_bytes, rival_limits=limits, rival_engines=("exoshuffle_on_ray", "exoshuffle")
    )
    on_ray = Contender("exoshuffle_on_ray", limit_bytes, rival_limits=limits)
    fastest = (limited.name, unlimited.name, polars.name)
    return {
        "random_shuffle": Contest(
            ours,
            (limited, unlimited),
            (on_ray, ray),
            (
                (ours, Requirement(0.6, (limited.name,))),
                (ours, Requirement(0.6, (unlimited.name,))),
                (ours, Requirement(0.25, (ray.name,))),
            ),
        ),
        "group_by": Contest(
            ours,
            (limited, unlimited, polars),
            (on_ray, ray),
            ((ours, Requirement(1.3, fastest)), (on_ray, Requirement(0.25, (ray.name,)))),
        ),
        "join": Contest(ours, (limited,), (on_ray,), ((ours, Requirement(1.5, (limited.name,))),)),
    }


@dataclass(frozen=True)
class Arena:
    """The place where the runs of one operator are made.

    Attributes:
        operator: Its name.
        input: The data set.
        scratch: Folder for outputs and spilled data, emptied after each run.
        num_threads: CPUs for each engine.
        num_keys: See ``Job``.
        summaries: Summaries of the first result of each contender; for rows in random order, also of the input.
    """

    operator: str
    input: Path
    scratch: Path
    num_threads: int
    num_keys: int
    summaries: dict[str, Summary] = field(default_factory=dict)

    def run(self, contender: Contender, number: int) -> Run:
        """Runs a contender once, with the input in the page cache."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        spill = self.scratch / "spill"
        spill.mkdir(parents=True)
        output = self.scratch / ("output" if contender.folder else "output.parquet")
        job = Job(
            self.operator,
            str(self.input.resolve()),
            str(output.resolve()),
            str(spill.resolve()),
            self.num_threads,
            contender.limit_bytes,
            self.num_keys,
        )
        set_cached(self.input.rglob("*.parquet"), True)
        program = [python_of(contender), "-m", f"benchmarks.peers.{contender.engine}"]
        measured = measure([*program, job.to_json()])
        if measured.exit_code == 0 and contender.name not in self.summaries:
            self._compare(contender, output, measured.output)
        shutil.rmtree(self.scratch)
        return Run(contender.name, number, measured, {"result": self.summaries.get(contender.name)})

    def _compare(self, contender: Contender, output: Path, printed: str) -> None:
        """Compares the first result of a contender with those before."""
        if self.operator == "random_shuffle":
            if not self.summaries:
                self.summaries["input"] = summary_of_files(self.operator, self.input)
            self.summaries[contender.name] = summary_of_consumed(printed)
        else:
            self.summaries[contender.name] = summary_of_files(self.operator, output)
        check_agree(self.summaries)


def main() -> None:
    """Plays the rounds of each operator and prints its table."""
    options = _options()
    chosen = contests(options.memory_limit)
    for operator in options.operators or OPERATORS:
        _play(operator, chosen[operator], options)


def _play(operator: str, contest: Contest, options: argparse.Namespace) -> None:
    if operator == "join":
        folder = tpch_input(options.scale, options.root)
    else:
        folder = parquet_input(options.gb, options.root)
    num_keys = round(options.gb * ROWS_PER_GB) // 2 + 3
    scratch = options.root / f"scratch-{operator}"
    arena = Arena(operator, folder, scratch, options.threads, num_keys)
    requested = [one for one in contest.on_request if one.engine in options.extra]
    contenders = {
        one.name: one
        for one in (contest.ours, *contest.always, *requested)
        if not options.only or one.name in options.only
    }
    rounds = Rounds(options.rounds, options.warm_up)
    runs = rounds.play(list(contenders), lambda name, number: arena.run(contenders[name], number))
    rivals = {one.name: one.rivals for one in contenders.values()}
    publish(operator, table(runs, rivals), vars(options), runs)
    print("first results agree:", "; ".join(arena.summaries))
    for contender, requirement in contest.requirements:
        print(f"{contender.name}: {requirement.verdict(runs, contender.name)}")
    print(memory_verdict(runs, contest.ours.name, options.memory_limit))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Other shuffles: Exoshuffle beside its peers.")
    parser.add_argument(
        "operators", nargs="*", metavar="OPERATOR", help=f"of {', '.join(OPERATORS)}; default: all"
    )
    parser.add_argument("--gb", type=float, default=4, help="size of the rows shuffled, grouped")
    parser.add_argument("--scale", type=float, default=1, help="of TPC-H's tables, to be joined")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before them that do not")
    parser.add_argument("--threads", type=int, default=2, help="CPUs for each engine")
    parser.add_argument(
        "--memory-limit", type=parse_bytes, default=2 * GB, metavar="SIZE", help="such as 2GB"
    )
    parser.add_argument("--root", type=Path, default=Path("bench-data"), help="where data is")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help='such as "duckdb, no limit"'
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="extra",
        choices=["ray", "exoshuffle_on_ray"],
        help="also run",
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
