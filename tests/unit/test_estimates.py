"""Bounds of estimates hold as often as they promise, whatever splits are like; they are never zero before the end."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from exoshuffle.operators.online.estimates import SIZE, Sample, mean_error_sql, total_error_sql

SIZES = {
    "equal": [120] * 32,
    "short tails": [120, 120, 120, 30] * 8,
    "random": random.Random(11).choices(range(5, 236), k=32),
    "one huge file, small ones": [160] * 20 + random.Random(12).choices(range(5, 51), k=30),
}
#: The key of a row, from a generator, the row's place in the input (0 to 1) and its number.
KEYS: dict[str, Callable[[random.Random, float, int], int]] = {
    "mixed": lambda rng, _place, _row: rng.randrange(5),
    "in turn": lambda _rng, _place, row: row % 2,
    "sorted": lambda _rng, place, _row: int(place * 4),
    "one that has most": lambda _rng, place, _row: int(place > 0.85),
    "rare ones": lambda rng, _place, _row: min(4, int(rng.expovariate(1))),
    "drifting": lambda rng, place, _row: int(rng.random() < place),
}
SHARES = (0.12, 0.25, 0.5)
SEEDS = 600
#: Products that are summed over splits, as ``Online`` does: count and sum of a group, and products.
PRODUCTS = [("c",), ("s",), ("c", "c"), ("c", SIZE), ("s", "s"), ("s", "c"), ("s", SIZE)]
PRODUCTS += [(SIZE,), ("alone",)]
#: Names of their columns, as the SQL for errors knows them.
NAMES: dict[Any, str] = {
    factors[0] if factors in [("c",), ("s",)] else factors: f"v{index}"
    for index, factors in enumerate(PRODUCTS)
}


@dataclass
class Input:
    """An input: the sizes of its splits, and the products for each of the groups in each."""

    sizes: list[int]
    splits: list[dict[int, list[float]]]

    def sums(self, numbers: Iterable[int]) -> dict[int, list[float]]:
        """Of each group the totals over some splits."""
        found: dict[int, list[float]] = {}
        for number in numbers:
            for key, products in self.splits[number].items():
                before = found.get(key, [0.0] * len(products))
                found[key] = [one + other for one, other in zip(before, products, strict=True)]
        return found


def input_of(sizes: list[int], keys: Callable[[random.Random, float, int], int]) -> Input:
    """Values are skewed, and rise with the place in the input."""
    rng = random.Random(11)
    splits, row = [], 0
    for length in sizes:
        groups: dict[int, dict[str, float]] = defaultdict(lambda: {"c": 0.0, "s": 0.0})
        for _ in range(length):
            place = row / sum(sizes)
            group = groups[keys(rng, place, row)]
            group["c"] += 1
            group["s"] += rng.expovariate(0.01) + 100 * place
            row += 1
        beside = {SIZE: float(length), "alone": float(len(groups) == 1)}
        splits.append({key: products_of(group | beside) for key, group in groups.items()})
    return Input(sizes, splits)


def products_of(group: dict[str, float]) -> list[float]:
    return [math.prod(group[name] for name in factors) for factors in PRODUCTS]


def estimated(made: Input, share: float) -> list[tuple[Any, ...]]:
    """Key, count, sum and the errors of count, sum and mean, of groups of many samples of a share of the splits."""
    num_seen = round(share * len(made.sizes))
    rows: list[tuple[float | None, ...]] = []
    for seed in range(SEEDS):
        order = random.Random(seed).sample(range(len(made.sizes)), len(made.sizes))
        sample = Sample([made.sizes[number] for number in order], num_seen)
        beside = (sample.scale, *sample.constants.values())
        rows += ((key, *beside, *sums) for key, sums in made.sums(order[:num_seen]).items())
    header = ["k", "scale", *Sample([1, 1], 1).constants, *NAMES.values()]
    table = pa.table(dict(zip(header, map(pa.array, zip(*rows, strict=True)), strict=True)))
    errors = [
        total_error_sql("c", "c", "alone", NAMES),
        total_error_sql("s", "c", "alone", NAMES),
        mean_error_sql("s", "c", NAMES),
    ]
    with duckdb.connect() as connection:
        connection.register("t", table)
        sql = f"SELECT k, v0 * scale, v1 * scale, {', '.join(errors)} FROM t"  # noqa: S608  made here
        return connection.sql(sql).fetchall()


def rates(made: Input, share: float) -> dict[str, float]:
    """How often the truth is within the bounds."""
    truth = made.sums(range(len(made.sizes)))
    hits: dict[str, list[bool]] = {"count": [], "sum": [], "mean": []}
    for key, count, total, *errors in estimated(made, share):
        true_count, true_total, *_ = truth[int(key)]
        estimates = (count, total, total / count)
        truths = (true_count, true_total, true_total / true_count)
        for cases, estimate, true, error in zip(
            hits.values(), estimates, truths, errors, strict=True
        ):
            assert error != 0
            if error is not None:
                cases.append(abs(estimate - true) <= error)
    return {name: sum(cases) / len(cases) for name, cases in hits.items()}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("sizes", SIZES)
def test_the_truth_is_within_the_bounds_in_nine_cases_of_ten(
    sizes: str, keys: str, share: float
) -> None:
    """Promised are about 95 %."""
    found = rates(input_of(SIZES[sizes], KEYS[keys]), share)
    assert min(found.values()) >= 0.9, found
