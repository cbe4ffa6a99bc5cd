"""Does a gigabyte cost the same in four times as much data? Sorts records of two sizes within one limit.

python -m benchmarks.scaling --gb 4 --times 4 --memory-limit 1GB
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rich.table import Table

from benchmarks.records import RecordsJob, records_input
from benchmarks.rounds import Rounds, Run, publish, ratios, spread
from benchmarks.sort_parquet import set_cached


def main() -> None:
    """Plays the rounds, small and large in turn, and prints the table."""
    options = _options()
    sizes = {f"{gb:g} GB": gb for gb in (options.gb, options.gb * options.times)}
    for gb in sizes.values():
        records_input(gb, options.root)

    def play_one(contender: str, number: int) -> Run:
        source = records_input(sizes[contender], options.root)
        set_cached(source.iterdir(), cached=False)
        job = RecordsJob(source, options.root / "scratch-scaling", options.memory_limit)
        measured, report = job.run()
        summary = job.check() if number == 0 else {}
        shutil.rmtree(job.output)
        return Run(contender, number, measured, {"report": report, "valsort": summary})

    runs = Rounds(options.rounds, options.warm_up).play(list(sizes), play_one)
    publish("scaling", _table(runs, sizes), vars(options), runs)


def _table(runs: list[Run], sizes: dict[str, float]) -> Table:
    result = Table("", "seconds to disk", "seconds per GB", "ratio per GB", "peak GB")
    smallest, smallest_gb = next(iter(sizes.items()))
    for contender, gb in sizes.items():
        counted = [run.measurement for run in runs if run.contender == contender and run.counts]
        seconds = [one.synced_seconds for one in counted]
        growth = gb / smallest_gb
        result.add_row(
            contender,
            spread(seconds),
            spread([one / gb for one in seconds], 2),
            spread([ratio / growth for ratio in ratios(runs, contender, smallest)], 2),
            spread([one.peak_bytes / 1e9 for one in counted], 2),
        )
    return result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time per gigabyte at two sizes.")
    parser.add_argument("--gb", type=float, default=4, help="the smaller size")
    parser.add_argument("--times", type=float, default=4, help="how many times larger the other is")
    parser.add_argument(
        "--memory-limit", default="1GB", help="for the whole program, at both sizes"
    )
    parser.add_argument("--rounds", type=int, default=2, help="rounds that count")
    parser.add_argument("--warm-up", type=int, default=0, help="rounds before them that do not")
    parser.add_argument("--root", type=Path, default=Path("bench-data"), help="where data is")
    return parser.parse_args()


if __name__ == "__main__":
    main()
