"""Which maps runs of slices have the output of, and whether runs that were read apart are all there is."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.errors import ShuffleCheckError
from exoshuffle.operators.core.checks import check_all_read, check_each, maps_of, opened
from exoshuffle.operators.core.streams import as_reader
from tests.unit.native_tables import ascending, slices, sorter

NUM_MAPS = 6


def outputs() -> list[bytes]:
    """The slices that maps send to partition 1 of 2."""
    table = pa.table({"k": list(range(20))})
    by_key = sorter(table.schema, ascending("k"))
    assignment = by_key.hash_assignment(2)
    parts = (by_key.scatter_batches(table, index, assignment) for index in range(NUM_MAPS))
    return [slices(part)[1] for part in parts]


def test_the_maps_of_slices_are_told() -> None:
    sent = outputs()
    assert maps_of(sent, 1) == range(NUM_MAPS)
    assert maps_of(sent[2:4], 1) == range(2, 4)
    assert maps_of([b"", b"".join(sent[3:5]), sent[5]], 1) == range(3, 6)
    assert not maps_of([], 1)
    assert not maps_of([b""], 1)


def test_what_is_wrong_within_a_run_is_named() -> None:
    sent = outputs()
    for run, words in (
        ([sent[1], sent[3]], "did not get the output of map 2"),
        ([sent[1], sent[1]], "got the output of map 1 twice"),
        ([sent[1][:7]], "cannot tell its slice 0 apart"),
    ):
        with pytest.raises(ShuffleCheckError, match=words):
            maps_of(run, 1)
    with pytest.raises(ShuffleCheckError, match="for partition 1"):
        maps_of(sent, 0)


def test_slices_are_each_of_the_maps_that_they_should_be_of() -> None:
    sent = outputs()
    merged = b"".join(sent[1:4])
    expected = [range(1), range(1, 4), range(4, 5)]
    check_each([sent[0], merged, sent[4]], 1, expected)
    for found, words in (
        ([sent[0], merged], "got 2 slices where 3 belong"),
        ([sent[0], merged, b""], "got nothing where the output of map 4 belongs"),
        ([merged, merged, sent[4]], "got the output of maps 1 to 3 where the output of map 0"),
        ([sent[0], sent[1], sent[4]], "got the output of map 1 where the output of maps 1 to 3"),
    ):
        with pytest.raises(ShuffleCheckError, match=words):
            check_each(found, 1, expected)


def test_all_rows_have_to_be_handed_on() -> None:
    sent = outputs()
    by_key = sorter(pa.schema([("k", pa.int64())]), ascending("k"))
    with opened(sent, 1, 0, NUM_MAPS) as sections:
        num_rows = as_reader(by_key.gather(sections)).read_all().num_rows
    words = f"got {num_rows} rows from the maps and did not hand on all of them"
    with pytest.raises(ShuffleCheckError, match=words), opened(sent, 1, 0, NUM_MAPS):
        pass


@given(st.lists(st.integers(0, 3), min_size=1))
def test_runs_that_follow_each_other_are_all(lengths: list[int]) -> None:
    ends = [sum(lengths[: index + 1]) for index in range(len(lengths))]
    runs = [range(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    # A run without any map may say that it begins at 0.
    check_all_read((run or range(0) for run in runs), ends[-1])


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([], "did not get the output of 6 maps, the first of them map 0"),
        ([(0, 2), (3, 6)], "did not get the output of map 2"),
        ([(1, 6)], "did not get the output of map 0"),
        ([(0, 5)], "did not get the output of map 5"),
        ([(0, 2), (0, 0), (4, 5)], "did not get the output of 3 maps, the first of them map 2"),
        ([(0, 3), (2, 6)], "got the output of map 2 twice"),
        ([(2, 6), (0, 2)], "got the output of map 0 behind that of map 5"),
        ([(0, 7)], "got the output of map 6, and there are only the maps 0 to 5"),
    ],
)
def test_what_is_wrong_between_runs_is_named(runs: list[tuple[int, int]], words: str) -> None:
    with pytest.raises(ShuffleCheckError, match=words):
        check_all_read((range(*run) for run in runs), NUM_MAPS)
