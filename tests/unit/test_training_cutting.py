"""Arrays that are cut out of those of record batches: they are what converting each batch by itself gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.operators.tensors import Column, Convert
from exoshuffle.training.cutting import Cutting
from exoshuffle.training.shares import Shares


def listed(arrays: list[Any]) -> Any:
    return [value for array in arrays for value in array]


class Library:
    """Arrays are lists here; it counts how often it made one, by column."""

    def __init__(self) -> None:
        self.made = {"id": 0, "maybe": 0, "text": 0}
        self.convert = Convert(
            ("id", "maybe", "text"),
            (
                Column(self.making("id"), lambda column: not column.null_count),
                Column(self.making("maybe"), lambda column: not column.null_count),
                Column(self.making("text"), None),
            ),
            listed,
        )

    def making(self, name: str) -> Any:
        def make(column: pa.Array) -> list[Any]:
            self.made[name] += 1
            return list(column.to_pylist())

        return make


def batches(sizes: list[int], nulls: set[int]) -> list[pa.RecordBatch]:
    found, start = [], 0
    for number, size in enumerate(sizes):
        ids = list(range(start, start + size))
        maybe = [None if number in nulls and row % 2 else row for row in ids]
        texts = list(map(str, ids))
        found.append(
            pa.record_batch(
                {
                    "id": pa.array(ids, pa.int64()),
                    "maybe": pa.array(maybe, pa.int64()),
                    "text": texts,
                }
            )
        )
        start += size
    return found


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    nulls=st.sets(st.integers(0, 7)),
    size=st.integers(2, 40),
    rank=st.integers(0, 1),
)
def test_cut_arrays_are_those_of_the_rows(
    sizes: list[int], nulls: set[int], size: int, rank: int
) -> None:
    given_batches = batches(sizes, nulls)
    library, plain = Library(), Library()
    cutting = Cutting(library.convert)
    for share in Shares(size, rank, 2, drop_last=False).of(given_batches):
        assert cutting.of(share) == plain.convert(share.rows)


def test_a_record_batch_is_converted_once_where_arrays_are_cut() -> None:
    library = Library()
    cutting = Cutting(library.convert)
    shares = list(Shares(10, 0, 1, drop_last=False).of(batches([100, 95], {1})))
    assert len([cutting.of(share) for share in shares]) == 20
    # Text is made of the rows of a batch; so is a column with nulls: ten batches are of that record batch.
    assert library.made == {"id": 2, "maybe": 11, "text": 20}
