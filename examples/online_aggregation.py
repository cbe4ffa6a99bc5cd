"""Watches an aggregation: the most visited pages, with bounds, long before all visits are counted.

Run it: ``python examples/online_aggregation.py``. ``exoshuffle.operators.online.estimates`` says what bounds mean.

A program that is content with an estimate leaves the loop, which ends the aggregation. This program waits until the
first three pages are certain: until their bounds and those of the fourth page no longer overlap.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import exoshuffle as xs

NUM_VISITS = 400_000
NUM_PAGES = 50
TOP = 3


def make_visits(path: Path) -> None:
    """Writes a file of visits; page 0 is visited most, page 1 a little less, and so on."""
    rng = random.Random(0)
    weights = [1 / (20 + page) for page in range(NUM_PAGES)]
    pages = rng.choices(range(NUM_PAGES), weights, k=NUM_VISITS)
    seconds = [rng.expovariate(1 / (10 + page)) for page in pages]
    pq.write_table(pa.table({"page": pages, "seconds": seconds}), path, row_group_size=10_000)


def is_certain(pages: list[dict[str, float]]) -> bool:
    """Whether the bounds of neighbours among the first pages do not overlap."""
    return all(
        page["visits"] - page["visits_error"] > after["visits"] + after["visits_error"]
        for page, after in itertools.pairwise(pages[: TOP + 1])
    )


def main() -> None:
    """Counts until the first pages are known."""
    xs.init(memory_limit="1GB", num_cpus=2)  # two splits in the first round give it a bound
    with tempfile.TemporaryDirectory() as folder:
        visits = Path(folder, "visits.parquet")
        make_visits(visits)
        groups = xs.read_parquet(visits).group_by("page")
        for partial in groups.agg(visits="count", stay=("seconds", "mean")).stream():
            pages = partial.table.sort_by([("visits", "descending")]).to_pylist()
            print(f"{partial.fraction:4.0%} read")
            for page in pages[:TOP]:
                count, error = page["visits"], page["visits_error"]
                print(
                    f"     page {page['page']}: {count} ± {error:.0f} visits of {page['stay']:.1f} s"
                )
            if is_certain(pages):
                print("the first pages are sorted")
                break
    xs.shutdown()


if __name__ == "__main__":
    main()
