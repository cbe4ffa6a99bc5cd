"""Pairs found by comparisons: the same as of all pairs looked at one by one, in their order, in windows of any size."""

from __future__ import annotations

import operator
import random

import pyarrow as pa
import pytest

from exoshuffle.operators.join import ranges
from exoshuffle.operators.join.ranges import Range, ranged_pairs, ranges_of

COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
CASES = (
    (Range("x", "<", "a"),),
    (Range("x", ">=", "b"),),
    (Range("x", ">=", "a"), Range("x", "<", "b")),
    (Range("x", "<", "b"), Range("y", ">", "a")),
    (Range("y", "<=", "b"), Range("x", ">", "a"), Range("x", "<=", "b")),
)


def numbers(rng: random.Random, count: int) -> list[float | None]:
    """Returns numbers with repeats, nulls, NaN, infinities and both zeros."""
    special = [None, float("nan"), float("inf"), -float("inf"), -0.0, 0.0]
    return [rng.choice([rng.randrange(-5, 5) / 2, rng.choice(special)]) for _ in range(count)]


def holds(sign: str, one: float | None, other: float | None) -> bool:
    """Compares as SQL does: null is not true, and NaN is the greatest number, equal to itself."""
    if one is None or other is None:
        return False
    return bool(COMPARED[sign]((one != one, one), (other != other, other)))  # noqa: PLR0124  NaN


@pytest.mark.parametrize("most", [1, 3, 40, 10**6])
@pytest.mark.parametrize("case", CASES)
def test_pairs_and_their_order(
    most: int, case: tuple[Range, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_MOST_PAIRS", most)
    rng = random.Random(repr((most, case)))
    for count, others in ((0, 3), (3, 0), (1, 1), (40, 7), (5, 60)):
        left = pa.table({"x": numbers(rng, count), "y": numbers(rng, count)})
        whole = [rng.choice([None, *range(-3, 3)]) for _ in range(others)]
        right = pa.table({"a": numbers(rng, others), "b": pa.array(whole, pa.int16())})
        made = list(ranged_pairs(left, right, case, 4))
        found = [pair for each in made for pair in zip(each.left, each.right, strict=True)]
        columns = {**left.to_pydict(), **right.to_pydict()}
        wanted = [
            (i, j)
            for i in range(count)
            for j in range(others)
            if all(holds(e.sign, _float(columns[e.left][i]), columns[e.right][j]) for e in case)
        ]
        assert [(one.as_py(), other.as_py()) for one, other in found] == wanted
        assert all(len(each.left) <= 4 for each in made)


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a > x", [("x", "<", "a")]),
        ("x between a and b", [("x", ">=", "a"), ("x", "<=", "b")]),
        ("a between x and y", [("x", "<=", "a"), ("y", ">=", "a")]),
        ("x <= a + 1", []),
        ("x < a or x > b", []),
        ("not x < a", []),
        ("x <> a", []),
        ("x < t", []),
        ("t < s", []),
    ],
)
def test_which_conditions(text: str, wanted: list[tuple[str, str, str]]) -> None:
    left = pa.schema({"x": pa.float64(), "y": pa.int8(), "t": pa.string()})
    right = pa.schema({"a": pa.float64(), "b": pa.int16(), "s": pa.string()})
    assert ranges_of([text], left, right) == tuple(Range(*each) for each in wanted)
