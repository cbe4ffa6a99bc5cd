"""Batches as NumPy arrays, as tensors, and as frames of pandas and Polars: values and types are those of the rows."""

from __future__ import annotations

import datetime as dt
import importlib.machinery
import sys
import types
from collections.abc import Iterator

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, SchemaError
from tests.support.limits import large_memory_limit

#: Libraries that ask for a capsule without naming a version get a warning from newer releases of pyarrow.
pytestmark = pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack capsule")
#: The memory that a worker process needs to load a library.
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


def test_a_frame_with_two_columns_of_one_name_is_refused() -> None:
    """The first of them was left out without a word."""
    pandas = pytest.importorskip("pandas")
    rows = xs.from_arrow(pa.table({"a": [1, 2], "b": [3, 4]}))
    with pytest.raises(SchemaError, match=r"a frame with two columns named 'a'; names must differ"):
        rows.map_batches(
            lambda f: pandas.concat([f, f[["a"]] + 1], axis=1),
            batch_format="pandas",
            memory=LIBRARY,
        )


def test_a_series_is_no_frame() -> None:
    pytest.importorskip("pandas")
    rows = xs.from_arrow(pa.table({"a": [1, 2], "b": [3, 4]}))
    with pytest.raises(SchemaError, match="map_groups: the function returned Series; return a"):
        rows.group_by("a").map_groups(lambda f: f.sum(), batch_format="pandas", memory=LIBRARY)


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


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_batches_of_tensors(library: str) -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip(library)
    flags = [row % 3 == 0 for row in range(1000)]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(range(2000), pa.float32()), 2)
    rows = xs.from_arrow(pa.table({"x": pa.array(range(1000), pa.int32()), "f": flags, "l": lists}))
    kind = "Tensor" if library == "torch" else "ArrayImpl"
    batches = list(rows.iter_batches(300, batch_format=library))
    assert {type(values).__name__ for batch in batches for values in batch.values()} == {kind}
    made = {name: numpy.concatenate([numpy.asarray(b[name]) for b in batches]) for name in "xfl"}
    assert made["x"].tolist() == list(range(1000))
    assert made["f"].tolist() == flags
    assert made["l"].tolist() == [[2.0 * row, 2.0 * row + 1] for row in range(1000)]
    shards = rows.iter_split(1, batch_size=300, batch_format=library)
    assert [batch["l"].shape for shard in shards for batch in shard][-1] == (100, 2)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_functions_of_tensors(library: str) -> None:
    pytest.importorskip(library)

    def doubled(batch):
        return {"x": batch["x"] * 2, "square": batch["x"][:, None] * batch["x"][:, None]}

    rows = xs.from_arrow(pa.table({"x": pa.array(range(100), pa.int32())}))
    made = rows.map_batches(doubled, batch_format=library, memory="400MB")
    assert made.schema.types == [pa.int32(), pa.fixed_shape_tensor(pa.int32(), [1])]
    assert made.to_pydict()["x"] == [2 * row for row in range(100)]


def test_columns_without_tensors_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = types.ModuleType("torch")
    torch.__spec__ = importlib.machinery.ModuleSpec("torch", None)
    torch.from_dlpack = list
    monkeypatch.setitem(sys.modules, "torch", torch)
    rows = xs.from_arrow(pa.table({"x": [1], "text": ["a"]}))
    for call in (rows.iter_batches, lambda **given: rows.iter_split(2, **given)):
        with pytest.raises(
            SchemaError, match=r'batch_format="torch" has no tensors of string.*\'text\'; select'
        ):
            call(batch_format="torch")
    lists = xs.from_arrow(pa.table({"tokens": [[1.5, 2], [3]], "x": [1, 2]}))
    advised = r"cast\(\{'tokens': pyarrow.list_\(pyarrow.float64\(\), n\)\}\)"
    with pytest.raises(SchemaError, match=r"type of column 'tokens'; .*\('x'\).*" + advised):
        lists.iter_batches(batch_format="torch")


def test_libraries_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    rows = xs.from_arrow(pa.table({"x": [1]}))
    with pytest.raises(OptionsError, match='batch_format="torch" needs torch, and it is not inst'):
        rows.iter_batches(batch_format="torch")
