"""Batches as NumPy arrays and as frames of pandas and Polars: values and types are those of the rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import SchemaError
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


@pytest.mark.parametrize("batch_size", [None, 3])
def test_tensors_are_arrays_of_several_axes(batch_size):
    numpy = pytest.importorskip("numpy")
    numbers = numpy.arange(60, dtype="float32").reshape(10, 2, 3)
    given = pa.table({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)})
    rows = xs.from_arrow([given.slice(0, 4), given.slice(4)])
    found = [batch["t"] for batch in rows.iter_batches(batch_size, batch_format="numpy")]
    assert numpy.array_equal(numpy.concatenate(found), numbers)
    assert rows.to_numpy()["t"].shape == (10, 2, 3)
    assert rows.limit(0).to_numpy()["t"].shape == (0, 2, 3)

    def turned(batch):
        return {"t": batch["t"].transpose(0, 2, 1)}

    made = rows.map_batches(turned, batch_format="numpy", batch_size=batch_size)
    assert made.schema.field("t").type == pa.fixed_shape_tensor(pa.float32(), (3, 2))
    assert numpy.array_equal(made.to_numpy()["t"], numbers.transpose(0, 2, 1))
    kept = rows.map_batches(lambda batch: batch, batch_format="numpy", schema=given.schema)
    assert kept.to_arrow().combine_chunks() == given.combine_chunks()
    other = pa.schema({"t": pa.fixed_shape_tensor(pa.float32(), (3, 3))})
    with pytest.raises(SchemaError, match=r"came back with \(t: .*shape=\[2,3\]"):
        rows.map_batches(lambda batch: batch, batch_format="numpy", schema=other).to_arrow()
