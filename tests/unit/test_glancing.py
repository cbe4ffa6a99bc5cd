"""Rows that functions make become tables by their bytes: few large rows are held, wherever they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle.operators.steps.glancing import glanced_bytes
from exoshuffle.operators.steps.items import tables_of_items
from exoshuffle.operators.steps.rows import FlatMap

MEGABYTES = 1_000_000
ONE = pa.table({"a": [1]})
LARGE: dict[str, Any] = {
    "text": "x" * 5 * MEGABYTES,
    "bytes": b"x" * 5 * MEGABYTES,
    "list": [1] * MEGABYTES,
    "texts": ["x" * 1000] * 5000,
    "struct": {"deep": ["x" * 5 * MEGABYTES]},
}


def yielded(value: Any, num_small: int, made: list[int]) -> Iterator[dict[str, Any]]:
    """Yields small rows and then five large ones, and notes each."""
    small = value[:1] if not isinstance(value, dict) else {"deep": ["x"]}
    for number in range(num_small + 5):
        made.append(number)
        yield {"v": small if number < num_small else value}


@pytest.mark.parametrize("kind", LARGE)
def test_large_rows_behind_small_ones_are_tables_of_their_own(kind: str) -> None:
    made: list[int] = []
    schema = pa.schema([("v", pa.array([LARGE[kind]]).type)])
    step = FlatMap(lambda _: yielded(LARGE[kind], 8000, made), schema)
    ahead = 0
    num_rows = 0
    for batch in step.apply(pa.RecordBatchReader.from_batches(ONE.schema, ONE.to_batches())):
        num_rows += batch.num_rows
        if num_rows > 8000:
            ahead = max(ahead, len(made) - num_rows)
            assert batch.num_rows == 1 or num_rows == 8001
    assert (num_rows, ahead) == (8005, 0)


@pytest.mark.parametrize("kind", LARGE)
def test_a_schema_is_learnt_from_few_large_rows(kind: str) -> None:
    made: list[int] = []
    FlatMap(lambda _: yielded(LARGE[kind], 0, made)).learnt_from(ONE)
    assert made == [0]


def test_long_lists_of_an_iterable_are_tables_of_their_own() -> None:
    made: list[int] = []
    schema = pa.schema([("v", pa.list_(pa.int64()))])
    rows = tables_of_items("from_generator", yielded(LARGE["list"], 0, made), schema)
    assert [(table.num_rows, len(made)) for table in rows] == [(1, n) for n in range(1, 6)]


def test_single_numbers_count_as_nothing() -> None:
    assert glanced_bytes({"a": 1, "b": 2.5, "c": None, "d": True, "e": [], "f": object()}) == 0
