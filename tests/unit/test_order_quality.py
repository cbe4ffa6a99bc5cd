"""The quality of orders by windows: what is counted in drawn orders, and 1 for a uniform one."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from exoshuffle.dataset.explain.quality import order_quality

ROWS = 60_000


def drawn(window: int) -> list[int]:
    """An order of windows of so many rows."""
    chance = random.Random(window)
    windows = [list(range(start, start + window)) for start in range(0, ROWS, window)]
    for rows in (windows, *windows):
        chance.shuffle(rows)  # type: ignore[arg-type]
    return list(itertools.chain(*windows))


def entropy(distances: Counter[int]) -> float:
    total = sum(distances.values())
    return -sum(count / total * math.log2(count / total) for count in distances.values())


@pytest.mark.parametrize("window", [2, 20, 200, 2000])
def test_it_is_that_of_a_drawn_order(window: int) -> None:
    order = drawn(window)
    # Distances between windows occur once or twice each, too seldom to be counted: they are taken by their chances.
    within = Counter(
        abs(one - other)
        for one, other in itertools.pairwise(order)
        if one // window == other // window
    )
    uniform = entropy(Counter({distance: ROWS - distance for distance in range(1, ROWS)}))
    leaving = (ROWS // window - 1) / (ROWS - 1)
    which = entropy(Counter({0: ROWS - ROWS // window, 1: ROWS // window - 1}))
    counted = (1 - leaving) * entropy(within) + leaving * uniform + which
    assert order_quality([window] * (ROWS // window)) == pytest.approx(counted / uniform, abs=0.02)


def test_a_larger_window_of_many_rows_is_better() -> None:
    qualities = [order_quality([window] * (ROWS // window)) for window in (10, 1000, 30_000)]
    assert qualities == sorted(qualities)
    assert 0.8 < qualities[-1] < 1


def test_one_window_is_uniform_and_so_are_windows_of_a_row() -> None:
    for windows in ([], [0], [1], [ROWS], [0, ROWS], [1] * ROWS):
        assert order_quality(windows) == 1
