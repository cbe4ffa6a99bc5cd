"""Groups are neighbours, fit, and are as large as they can be."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.plan.grouping import neighbours


@given(
    st.lists(st.integers(0, 1000), max_size=400), st.integers(0, 3000), st.sampled_from([1, 3, 256])
)
def test_groups_are_neighbours_and_fit(sizes: list[int], most_bytes: int, most: int) -> None:
    groups = neighbours(sizes, most_bytes, most)
    assert list(itertools.chain.from_iterable(groups)) == list(range(len(sizes)))
    totals = [sum(sizes[i] for i in group) for group in groups]
    for group, total in zip(groups, totals, strict=True):
        assert 1 <= len(group) <= most
        assert len(group) == 1 or total <= most_bytes
    for (group, total), after in zip(zip(groups, totals, strict=True), groups[1:], strict=False):
        assert len(group) == most or total + sizes[after[0]] > most_bytes
