"""Mixtures as numbers: proportions are those of the weights, rows come as often as asked, and any row can begin."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.errors import OptionsError
from exoshuffle.training.picks import MAX_PORTION_ROWS, PORTION_ROWS, Picks, Stop, counts_of

#: Weights of very different sizes, too: a portion must have rows of the lightest source.
weights = st.one_of(st.integers(1, 100), st.sampled_from([1, 7, 3000, 100_000]))
sizes_and_weights = st.lists(st.tuples(st.integers(1, 5000), weights), min_size=1, max_size=5)
stops = st.sampled_from(["first", "all", "once"])


def picks(pairs: list[tuple[int, int]], stop: Stop) -> Picks:
    return Picks([size for size, _ in pairs], [Fraction(weight) for _, weight in pairs], stop)


@given(pairs=sizes_and_weights, stop=stops)
def test_portions_follow_each_other(pairs: list[tuple[int, int]], stop: Stop) -> None:
    made = picks(pairs, stop)
    had, row = (0,) * len(pairs), 0
    for portion in itertools.islice(made.portions(0), 200):
        assert (portion.start, portion.before) == (row, had)
        assert min(portion.counts) >= 0
        assert portion.num_rows >= 1
        had = tuple(before + count for before, count in zip(had, portion.counts, strict=True))
        row += portion.num_rows
    if len(list(itertools.islice(made.portions(0), 201))) <= 200:
        assert (row, had) == (made.num_rows, made.had())


def test_no_portion_takes_back_a_row() -> None:
    """Sums of rounded shares fall from one row to the next: with portions of 1,024 rows, the last one had -1."""
    sizes, weights = [2924, 2036, 1037, 1585], [1000, 1, 3, 50]
    portions = list(picks(list(zip(sizes, weights, strict=True)), "first").portions(0))
    assert all(min(portion.counts) >= 0 for portion in portions)


@given(pairs=sizes_and_weights, stop=stops)
def test_proportions_are_exact_to_within_a_row(pairs: list[tuple[int, int]], stop: Stop) -> None:
    """With "once", until the first source is at its end."""
    made = picks(pairs, stop)
    total = sum(weight for _, weight in pairs)
    until = picks(pairs, "first").num_rows if stop == "once" else made.num_rows
    for portion in itertools.islice(made.portions(0), 200):
        if portion.start <= until:
            for before, (_, weight) in zip(portion.before, pairs, strict=True):
                assert abs(before - Fraction(weight, total) * portion.start) < 1


@given(pairs=sizes_and_weights)
def test_an_epoch_ends_where_it_is_asked_to(pairs: list[tuple[int, int]]) -> None:
    sizes = tuple(size for size, _ in pairs)
    first, every, once = (picks(pairs, stop).had() for stop in ("first", "all", "once"))
    assert once == sizes
    assert all(count <= size for count, size in zip(first, sizes, strict=True))
    assert any(count == size for count, size in zip(first, sizes, strict=True))
    assert all(count >= size for count, size in zip(every, sizes, strict=True))
    assert any(count == size for count, size in zip(every, sizes, strict=True))


@pytest.mark.parametrize("stop", ["first", "all", "once"])
def test_the_proportions_of_the_rows_use_every_row_once(stop: Stop) -> None:
    sizes = [5000, 17, 1]
    assert Picks(sizes, list(map(Fraction, sizes)), stop).had() == tuple(sizes)


@given(pairs=sizes_and_weights, stop=stops, share=st.floats(0, 1), seed=st.integers(0, 9))
def test_sources_from_a_row_on_are_the_last_ones(
    pairs: list[tuple[int, int]], stop: Stop, share: float, seed: int
) -> None:
    made = picks(pairs, stop)
    start = int(share * (made.num_rows - 1)) // 1500 * 1500
    row = min(start + 1000, made.num_rows - 1)
    before, whole = made.before(seed, start), next(made.sources(seed, start))
    rest = next(made.sources(seed, row))
    inside = row - start
    if inside < len(whole):
        assert rest.equals(whole.slice(inside))
        came = counts_of(whole.slice(0, inside), len(pairs))
        assert made.before(seed, row) == tuple(
            one + other for one, other in zip(before, came, strict=True)
        )


@pytest.mark.parametrize("seed", [1, 2])
def test_sources_come_in_random_order(seed: int) -> None:
    made = picks([(700, 7), (300, 3)], "once")
    (sources,) = (each.to_pylist() for each in made.sources(seed, 0))
    assert Counter(sources) == {0: 700, 1: 300}
    # Of any hundred rows about thirty are of the second source: six deviations are 27.
    for start in range(0, 1000, 100):
        assert 3 <= sum(sources[start : start + 100]) <= 57
    assert sources != next(made.sources(seed + 1, 0)).to_pylist()


def test_a_portion_has_rows_of_each_source() -> None:
    pairs = [(10**7, 4999), (2000, 1)]
    for portion in picks(pairs, "first").portions(0):
        assert portion.num_rows >= 5000 > PORTION_ROWS
        assert min(portion.counts) >= 1


def test_weights_of_less_than_a_row_of_a_portion_are_refused() -> None:
    picks([(1, 1), (1, MAX_PORTION_ROWS - 1)], "first")
    with pytest.raises(OptionsError, match=r"have 1 of 1\.04858e\+06 in all, and one of"):
        picks([(1, 1), (1, MAX_PORTION_ROWS)], "first")
