"""A random shuffle of a small input, many times. Chi-square tests accept the maps and reduces of the operator, and
reject shuffles with the defects that are known of others.

There are three statistics, since each sees what the others cannot. They are where each row ends up, how many rows go
from each map to each partition, and the orders of two partitions together. Seeds are fixed, so every statistic is one
number; a limit of four standard deviations is passed by chance in 6 of 100,000 cases.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle import _native
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByChance, ByKeys, by_even_range, by_range
from exoshuffle.operators.steps.sample import numbers
from tests.unit.native_tables import opened, read_ipc, slices

NUM_MAPS = 4
MAP_ROWS = 12
NUM_PARTITIONS = 4
NUM_ROWS = NUM_MAPS * MAP_ROWS
SEEDS = range(1200)
LIMIT = 4.0

#: The result of a shuffle: the rows of each partition, in order, each by its number in the input.
Partitions = list[list[int]]


# --- shuffles -------------------------------------------------------------------------------------------------------


def real(seed: int) -> Partitions:
    """The operator's own maps and reduces."""
    tables = [pa.table({"id": rows}) for rows in inputs()]
    sorter = ByChance(seed).build(_native.ReadOptions(), tables[0].schema.serialize().to_pybytes())
    return run(sorter, tables, by_range(sorter, [], NUM_PARTITIONS))


def numbered(seed: int) -> Partitions:
    """Those for rows that have their numbers from a step."""
    field = pa.field("number", pa.uint64(), nullable=False)
    tables = [
        pa.table({"id": rows}).append_column(field, numbers(seed, source, 0, len(rows)))
        for source, rows in enumerate(inputs())
    ]
    order = ByKeys((SortKey("number"),))
    sorter = order.build(_native.ReadOptions(), tables[0].schema.serialize().to_pybytes())
    return run(sorter, tables, by_even_range(sorter, [], NUM_PARTITIONS))


def inputs() -> list[pa.Array]:
    firsts = range(0, NUM_ROWS, MAP_ROWS)
    return [pa.array(range(first, first + MAP_ROWS), pa.int64()) for first in firsts]


def run(sorter: Any, tables: list[pa.Table], assignment: bytes) -> Partitions:
    blocks = [
        slices(sorter.scatter_batches(table, index, assignment))
        for index, table in enumerate(tables)
    ]
    return [
        read_ipc(sorter.sort(opened(parts, partition)))["id"].to_pylist()
        for partition, parts in enumerate(zip(*blocks, strict=True))
    ]


def drawn(seed: int) -> Partitions:
    """A shuffle as it should be, of another generator: every row draws its partition, and partitions are permuted."""
    chance = random.Random(seed)
    partitions = scattered(chance)
    for rows in partitions:
        chance.shuffle(rows)
    return partitions


def one_permutation_for_all(seed: int) -> Partitions:
    """Every reduce begins its generator with the same seed, as Ray's did."""
    partitions = scattered(random.Random(seed))
    for rows in partitions:
        random.Random(seed + 1_000_000).shuffle(rows)
    return partitions


def one_order_of_slots(seed: int) -> Partitions:
    """Every reduce sorts its rows, as they come, by the same series of random numbers."""
    chance = random.Random(seed)
    partitions = scattered(chance)
    series = [chance.random() for _ in range(NUM_ROWS)]
    return [
        [row for _, row in sorted(zip(series[: len(rows)], rows, strict=True))]
        for rows in partitions
    ]


def equal_counts(seed: int) -> Partitions:
    """Every map deals its rows out evenly, after a permutation of its own."""
    chance = random.Random(seed)
    partitions: Partitions = [[] for _ in range(NUM_PARTITIONS)]
    for first in range(0, NUM_ROWS, MAP_ROWS):
        rows = chance.sample(range(first, first + MAP_ROWS), MAP_ROWS)
        for index, row in enumerate(rows):
            partitions[index % NUM_PARTITIONS].append(row)
    for rows in partitions:
        chance.shuffle(rows)
    return partitions


def no_permutation(seed: int) -> Partitions:
    """Rows go to random partitions, where they stay in the order of the input."""
    return scattered(random.Random(seed))


def scattered(chance: random.Random) -> Partitions:
    partitions: Partitions = [[] for _ in range(NUM_PARTITIONS)]
    for row in range(NUM_ROWS):
        partitions[chance.randrange(NUM_PARTITIONS)].append(row)
    return partitions


# --- statistics -----------------------------------------------------------------------------------------------------


def by_position(made: Sequence[Partitions]) -> float:
    """Each row is in each place of the result equally often.

    Counts of row x place are sums of permutation matrices: of n² cells with fixed sums of rows and columns. Their
    statistic is n/(n - 1) times chi-square with (n - 1)² degrees of freedom.
    """
    counts = Counter(
        (row, place)
        for partitions in made
        for place, row in enumerate(itertools.chain.from_iterable(partitions))
    )
    cells = itertools.product(range(NUM_ROWS), repeat=2)
    statistic = chi_square([counts[cell] for cell in cells], len(made) / NUM_ROWS)
    return deviation(statistic * (NUM_ROWS - 1) / NUM_ROWS, (NUM_ROWS - 1) ** 2)


def by_cell(made: Sequence[Partitions]) -> float:
    """From each map, the numbers of rows for the partitions are multinomial: uneven, and not too much so."""
    statistic = 0.0
    for partitions in made:
        counts = Counter(
            (row // MAP_ROWS, partition)
            for partition, rows in enumerate(partitions)
            for row in rows
        )
        cells = itertools.product(range(NUM_MAPS), range(NUM_PARTITIONS))
        statistic += chi_square([counts[cell] for cell in cells], MAP_ROWS / NUM_PARTITIONS)
    return deviation(statistic, len(made) * NUM_MAPS * (NUM_PARTITIONS - 1))


def by_pair(made: Sequence[Partitions]) -> float:
    """The orders that two partitions begin with are all the pairs of six orders equally often."""
    orders = list(itertools.permutations(range(3)))
    pairs = [
        tuple(order_of(rows[:3]) for rows in partitions[:2])
        for partitions in made
        if min(map(len, partitions[:2])) >= 3
    ]
    counts = Counter(pairs)
    cells = itertools.product(orders, repeat=2)
    return deviation(chi_square([counts[cell] for cell in cells], len(pairs) / 36), 35)


def order_of(rows: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(rows)), key=rows.__getitem__))


def chi_square(counts: Sequence[int], mean: float) -> float:
    return sum((count - mean) ** 2 / mean for count in counts)


def deviation(statistic: float, degrees: int) -> float:
    """In standard deviations: below zero is too even, which is as wrong as too uneven."""
    return (statistic - degrees) / math.sqrt(2 * degrees)


STATISTICS: dict[str, Callable[[Sequence[Partitions]], float]] = {
    "position": by_position,
    "cell": by_cell,
    "pair": by_pair,
}


# --- tests ----------------------------------------------------------------------------------------------------------


def deviations(shuffle: Callable[[int], Partitions]) -> dict[str, float]:
    made = [shuffle(seed) for seed in SEEDS]
    for partitions in made:
        assert sorted(itertools.chain.from_iterable(partitions)) == list(range(NUM_ROWS))
    return {name: statistic(made) for name, statistic in STATISTICS.items()}


def test_rows_go_to_the_same_partitions_whatever_numbers_them() -> None:
    for seed in range(50):
        assert numbered(seed) == real(seed)


@pytest.mark.parametrize("shuffle", [real, drawn])
def test_uniform_shuffles_are_accepted(shuffle: Callable[[int], Partitions]) -> None:
    found = deviations(shuffle)
    assert max(map(abs, found.values())) < LIMIT, found


@pytest.mark.parametrize(
    ("shuffle", "statistic", "is_too_even"),
    [
        (one_permutation_for_all, "pair", False),
        (one_order_of_slots, "pair", False),
        (equal_counts, "cell", True),
        (no_permutation, "position", False),
        (no_permutation, "pair", False),
    ],
)
def test_defects_are_rejected(
    shuffle: Callable[[int], Partitions], statistic: str, is_too_even: bool
) -> None:
    found = deviations(shuffle)[statistic]
    assert found < -2 * LIMIT if is_too_even else found > 2 * LIMIT, found
