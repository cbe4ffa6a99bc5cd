"""Compares the kernel that sorts records, on one core, with the rate of C++'s ``std::sort`` of whole records.

Both sort the same gensort records in memory, one sort after the other, and print the seconds of each. The seconds
include neither reading the file nor the copy of the input that ``std::sort``, which works in place, needs.
``std::sort`` is compiled here for this very processor, our kernel as users get it.

    python -m benchmarks.record_kernel --records 1000000
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from rich.table import Table

from benchmarks.measure import measure, require_success
from benchmarks.peers.exoshuffle import command
from benchmarks.records import RECORD_BYTES
from benchmarks.rounds import Rounds, Run, publish, spread

KERNEL = ["cargo", "bench", "--quiet", "-p", "exoshuffle-kernels", "--bench", "record_kernel"]
BASELINE = Path("crates/kernels/benches/std_sort.cpp")
OURS, THEIRS = "exoshuffle", "std::sort"
REQUIRED_TIMES = 3


def main() -> None:
    """Builds both programs, plays the rounds and prints the table."""
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        records = Path(scratch) / "records"
        baseline = Path(scratch) / "std_sort"
        _run([str(command()), "gensort", str(options.records), str(records), "--partitions", "1"])
        _run(
            [
                os.environ.get("CXX", "c++"),
                "-O3",
                "-march=native",
                "-o",
                str(baseline),
                str(BASELINE),
            ]
        )
        _run([*KERNEL, "--no-run"])
        (file,) = records.glob("*.dat")
        programs = {OURS: [*KERNEL, "--"], THEIRS: [str(baseline)]}

        def play_one(contender: str, number: int) -> Run:
            program = [*programs[contender], str(file), str(options.sorts)]
            measured = require_success(program, measure(program))
            seconds = [float(line) for line in measured.output.split()]
            return Run(contender, number, measured, {"sort_seconds": seconds})

        runs = Rounds(options.rounds, options.warm_up).play(list(programs), play_one)
    publish("record_kernel", _table(runs, options.records * RECORD_BYTES), vars(options), runs)


def _table(runs: list[Run], num_bytes: int) -> Table:
    """Takes the median of the sorts of every round; ratios are taken within the round."""
    rates = {
        (run.contender, run.round): num_bytes / 1e9 / statistics.median(run.notes["sort_seconds"])
        for run in runs
        if run.counts
    }
    result = Table("", "GB/s on one core", "times the rate of std::sort", "required")
    for contender, required in ((OURS, f"at least {REQUIRED_TIMES}"), (THEIRS, "")):
        own = {number: rate for (name, number), rate in rates.items() if name == contender}
        times = [rate / rates[THEIRS, number] for number, rate in own.items()]
        result.add_row(contender, spread(list(own.values()), 2), spread(times, 2), required)
    return result


def _run(program: list[str]) -> None:
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The record kernel beside std::sort, on one core.")
    parser.add_argument("--records", type=int, default=1_000_000, help="of 100 bytes each")
    parser.add_argument("--sorts", type=int, default=5, help="in each run, the median counts")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before them that do not")
    return parser.parse_args()


if __name__ == "__main__":
    main()
