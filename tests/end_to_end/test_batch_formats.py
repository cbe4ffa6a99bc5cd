"""Batches as NumPy arrays and as frames of pandas and Polars: values and types are those of the rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest

import exoshuffle as xs
from tests.support.limits import large_memory_limit

#: What a worker process needs to load a library.
LIBRARY = "150MB"


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """One with room for libraries of frames in its worker processes."""
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        yield


@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "polars"])
def test_functions_of_formats(batch_format: str) -> None:
    """Text keeps its type, though a batch without rows does not tell it."""
    pytest.importorskip(batch_format)

    def twice(batch):
        if batch_format == "polars":
            return batch.with_columns(x=batch["x"] * 2)
        batch["x"] = batch["x"] * 2
        return batch

    table = pa.table({"s": pa.array(["a", None, "b"]), "x": [1, 2, 3]})
    rows = xs.from_arrow(table)
    made = rows.map_batches(twice, batch_format=batch_format, memory=LIBRARY)
    assert made.to_pydict() == {"s": ["a", None, "b"], "x": [2, 4, 6]}
    if batch_format != "polars":
        assert made.schema == table.schema
    grouped = rows.group_by("s").map_groups(twice, batch_format=batch_format, memory=LIBRARY)
    assert sorted(grouped.to_pydict()["x"]) == [2, 4, 6]


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
def test_formats_keep_types(batch_format: str) -> None:
    pytest.importorskip(batch_format)
    moment = dt.datetime(2024, 1, 31, 5, tzinfo=dt.timezone.utc)
    table = pa.table(
        {
            "zoned": pa.array([moment, None]),
            "category": pa.array(["a", None]).dictionary_encode(),
            "view": pa.array([None, "b"], pa.string_view()),
            "list": pa.array([[1], None]),
            "day": pa.array([dt.date(2024, 1, 31), None]),
        }
    )
    made = xs.from_arrow(table).map_batches(
        lambda batch: batch, batch_format=batch_format, memory=LIBRARY
    )
    assert made.to_arrow() == table


def test_nulls_of_dictionaries_stay() -> None:
    pytest.importorskip("numpy")
    words = pa.table({"v": pa.array(["a", None, "b"]).dictionary_encode()})
    rows = xs.from_arrow(words)
    assert rows.to_numpy()["v"].tolist() == ["a", None, "b"]
    [batch] = rows.iter_batches(batch_format="numpy")
    assert batch["v"].tolist() == ["a", None, "b"]
