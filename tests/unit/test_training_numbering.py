"""The rows of files by their numbers: what arithmetic says of an order is what sorting all numbers says."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from exoshuffle.operators.steps.sample import numbers, numbers_within
from exoshuffle.training.file_rows import FileRows
from exoshuffle.training.numbering import Numbering

#: Large files, and small ones between them, which are taken together.
FILES = [
    FileRows("a", 0, 0, 20_000),
    FileRows("b", 1, 0, 0),
    *(FileRows(f"small {number}", 3 << 32 | number, 5, number % 9) for number in range(1000)),
    FileRows("c", 7, 9, 8_999),
    FileRows("d", 2, 500, 1),
]
TOTAL = sum(rows.num_rows for rows in FILES)


def drawn(seed: int, window: int | None) -> Iterator[tuple[int, tuple[str, int]]]:
    """Every row with its number, in the order of the input."""
    for rows in FILES:
        of = (seed, rows.file_index, rows.first_row, rows.num_rows)
        made = numbers(*of) if window is None else numbers_within(window, *of)
        for place, number in enumerate(made.to_pylist()):
            yield number, (rows.file, rows.first_row + place)


@pytest.mark.parametrize("window", [None, 1, 1000, 15_000])
def test_rows_are_those_of_the_sorted_numbers(window: int | None) -> None:
    numbering = Numbering(FILES, 11, window)
    order = [place for _, place in sorted(drawn(11, window), key=lambda row: row[0])]
    for start, stop in [(0, 1), (0, 5000), (TOTAL // 2, TOTAL // 2 + 7), (TOTAL - 3, TOTAL)]:
        assert numbering.rows(start, stop) == order[start:stop]


@pytest.mark.parametrize("window", [None, 1000])
def test_partitions_before_a_row_are_left_out(window: int | None) -> None:
    numbering = Numbering(FILES, 12, window)
    made = [number for number, _ in drawn(12, window)]
    chance = random.Random(3)
    for num_partitions in [1, 2, 7, 64, 1000]:
        for row in [0, 1, TOTAL - 1, TOTAL, chance.randrange(TOTAL)]:
            first, before = numbering.first_partition(row, num_partitions)
            assert before <= row
            assert before == sum(number * num_partitions >> 64 < first for number in made)
            if window is None:  # what is made in vain is a partition or two
                assert first >= row * num_partitions // TOTAL - 2 - num_partitions // 16


def test_rows_of_nothing() -> None:
    assert Numbering([], 1).rows(0, 0) == []
    assert Numbering([], 1).first_partition(0, 3) == (0, 0)
