"""Training a small classifier on files that are sorted by the label: a uniform order learns, and a window does not.

Source: Exoshuffle §5.3 and Wang's dissertation, figure 3.6, where a full shuffle is compared with a partial one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from tests.support.limits import large_memory_limit

ROWS, EPOCHS, STEP = 8000, 2, 2.0


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Path]:
    """Two numbers a row, in two overlapping clouds; all rows of the first one come before the second one."""
    chance = random.Random(1)
    labels = [int(row >= ROWS // 2) for row in range(ROWS)]
    columns = {
        name: [chance.gauss(label - 0.5, 0.5) for label in labels] for name in ("first", "second")
    }
    table = pa.table({**columns, "label": labels})
    pq.write_table(table, tmp_path / "sorted.parquet", row_group_size=500)
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        yield tmp_path


def trained(files: Path, shuffle: bool | str) -> list[float]:
    """The weights of a logistic regression, after some epochs."""
    weights = [0.0, 0.0, 0.0]
    loader = xs.DataLoader(
        xs.read_parquet(files), batch_size=100, shuffle=shuffle, seed=3, format="arrow"
    )
    for epoch in loader.epochs(EPOCHS):
        for batch in epoch:
            rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            slopes = [0.0, 0.0, 0.0]
            for first, second, label in rows:
                wrong = chance_of(weights, first, second) - label
                for place, value in enumerate((first, second, 1.0)):
                    slopes[place] += wrong * value / len(rows)
            weights = [weight - STEP * slope for weight, slope in zip(weights, slopes, strict=True)]
    return weights


def chance_of(weights: list[float], first: float, second: float) -> float:
    return 1 / (1 + math.exp(-(weights[0] * first + weights[1] * second + weights[2])))


def accuracy(files: Path, weights: list[float]) -> float:
    rows = pq.read_table(files).to_pylist()
    right = [
        (chance_of(weights, row["first"], row["second"]) > 0.5) == row["label"] for row in rows
    ]
    return sum(right) / len(right)


def test_a_uniform_order_learns_where_a_window_and_sorted_files_do_not(files: Path) -> None:
    uniform, window, sorted_ = (
        accuracy(files, trained(files, shuffle)) for shuffle in (True, "100kB", False)
    )
    assert uniform > 0.9  # the best line is right for 92 %
    assert window < uniform - 0.01
    assert sorted_ < uniform - 0.03
