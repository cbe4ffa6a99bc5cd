"""Sort 4 GB of records within 1 GB: how near to the disk's own bound, measured before and after each sort.

The bound is 4 D / B: D bytes are read, spilled, restored and written, at the bandwidth B that ``disk.py`` measures. B
of one round is the mean of the measurements on both sides of its sort, so that a change of the disk's speed shows.

    python -m benchmarks.sort_records --gb 4 --memory-limit 1GB
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rich.table import Table

from benchmarks.disk import mixed_bandwidth
from benchmarks.records import RecordsJob, records_input
from benchmarks.rounds import Rounds, Run, publish, spread
from benchmarks.sort_parquet import set_cached

NAME = "exoshuffle"


def main() -> None:
    """Plays the rounds and prints the table."""
    options = _options()
    source = records_input(options.gb, options.root)
    job = RecordsJob(source, options.root / "scratch-sort-records", options.memory_limit)
    num_bytes = options.gb * 1e9
    bandwidths = [mixed_bandwidth(options.root, round(num_bytes))]

    def play_one(contender: str, number: int) -> Run:
        set_cached(source.iterdir(), cached=False)
        measured, report = job.run()
        summary = job.check()
        shutil.rmtree(job.output)
        bandwidths.append(mixed_bandwidth(options.root, round(num_bytes)))
        bandwidth = (bandwidths[-2] + bandwidths[-1]) / 2
        notes = {
            "bandwidth": bandwidth,
            "bound_seconds": 4 * num_bytes / bandwidth,
            "report": report,
            "valsort": summary,
        }
        return Run(contender, number, measured, notes)

    runs = Rounds(options.rounds, options.warm_up).play([NAME], play_one)
    publish("sort_records", _table(runs), {**vars(options), "bandwidths": bandwidths}, runs)


def _table(runs: list[Run]) -> Table:
    counted = [run for run in runs if run.counts]
    seconds = [run.measurement.synced_seconds for run in counted]
    bounds = [run.notes["bound_seconds"] for run in counted]
    result = Table(
        "seconds to disk", "B, GB/s", "bound 4 D / B, s", "bound / time", "peak GB", "spilled GB"
    )
    result.add_row(
        spread(seconds),
        spread([run.notes["bandwidth"] / 1e9 for run in counted], 2),
        spread(bounds),
        spread([bound / took for bound, took in zip(bounds, seconds, strict=True)], 2),
        spread([run.measurement.peak_bytes / 1e9 for run in counted], 2),
        spread([run.notes["report"]["spilled_bytes"] / 1e9 for run in counted], 2),
    )
    return result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Sort records near the bound of the disk.")
    parser.add_argument("--gb", type=float, default=4, help="how much to sort")
    parser.add_argument("--memory-limit", default="1GB", help="for the whole program")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before them that do not")
    parser.add_argument("--root", type=Path, default=Path("bench-data"), help="where data is")
    return parser.parse_args()


if __name__ == "__main__":
    main()
