"""Batches for training as arrays: values and shapes are those of the rows, and numbers are not copied.

NumPy, JAX and PyTorch are tried where they are installed. A stand-in for PyTorch takes what every library takes: the
DLPack capsules of Arrow's arrays.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, SchemaError
from exoshuffle.operators.tensors import converter
from tests.support.limits import large_memory_limit

#: Libraries that ask for a capsule without naming a version get a warning from newer releases of pyarrow.
pytestmark = pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack capsule")

ROWS = 100


@pytest.fixture
def table() -> pa.Table:
    """Each value tells the number of its row."""
    sixfold = pa.array([float(value) for value in range(6 * ROWS)], pa.float32())
    lists = pa.FixedSizeListArray.from_arrays(sixfold, 6)
    nested = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(sixfold, 2), 3)
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2, 3]), lists)
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "flag": [row % 3 == 0 for row in range(ROWS)],
            "list": lists,
            "nested": nested,
            "tensor": tensors,
        }
    )


class Tensor:
    """A stand-in for a tensor: where its values are, and its shape."""

    def __init__(self, array: Any) -> None:
        self.array = array
        capsule = array.__dlpack__()
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.restype, get_pointer.argtypes = (
            ctypes.POINTER(ctypes.c_void_p),
            [ctypes.py_object, ctypes.c_char_p],
        )
        self.address = get_pointer(capsule, b"dltensor")[0]
        self.shape: tuple[int, ...] = (len(array),)
        self.is_truth = False

    def reshape(self, *shape: int) -> Tensor:
        self.shape = shape
        return self

    def bool(self) -> Tensor:
        self.is_truth = True
        return self


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch")
    module.__spec__ = importlib.machinery.ModuleSpec("torch", None)
    module.from_dlpack = Tensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)


@pytest.mark.usefixtures("torch")
def test_tensors_lie_where_the_values_are(table: pa.Table) -> None:
    batch = table.to_batches()[0].slice(10, 30)
    made = converter("torch", table.schema)(batch)
    assert {name: tensor.shape for name, tensor in made.items()} == {
        "id": (30,),
        "flag": (30,),
        "list": (30, 6),
        "nested": (30, 3, 2),
        "tensor": (30, 2, 3),
    }
    assert made["flag"].is_truth
    assert made["flag"].array.to_pylist() == [row % 3 == 0 for row in range(10, 40)]
    ids = batch["id"].buffers()[1]
    assert made["id"].address == ids.address + 10 * 8
    values = table["list"].chunk(0).values.buffers()[1]
    for name in ("list", "nested", "tensor"):
        assert made[name].address == values.address + 10 * 6 * 4


@pytest.mark.usefixtures("torch")
def test_batches_without_rows_have_their_shapes(table: pa.Table) -> None:
    made = converter("torch", table.schema)(table.to_batches()[0].slice(5, 0))
    assert made["tensor"].shape == (0, 2, 3)


@pytest.mark.usefixtures("torch")
def test_nulls_are_no_tensors() -> None:
    for values in (pa.array([1, None]), pa.array([[1, 2], [3, None]], pa.list_(pa.int64(), 2))):
        batch = pa.record_batch({"x": values})
        with pytest.raises(
            InputError, match=r"column 'x' has 1 nulls in a batch of 2 rows.*fill_nu"
        ):
            converter("torch", batch.schema)(batch)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.timestamp("us"), pa.list_(pa.int64()), pa.dictionary(pa.int32(), pa.string())],
)
def test_types_without_tensors_are_refused(kind: pa.DataType) -> None:
    schema = pa.schema([("x", pa.int64()), ("other", kind)])
    with pytest.raises(SchemaError, match=r"no tensors of .*'other'; select others \('x'\)"):
        converter("torch", schema)


@pytest.fixture
def files(table: pa.Table, tmp_path: Path) -> Path:
    pq.write_table(table, tmp_path / "in.parquet")
    return tmp_path


@pytest.fixture
def libraries() -> Iterator[None]:
    """An engine with room for what libraries take."""
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        yield


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("library", ["numpy", "jax", "torch"])
def test_arrays_have_the_values_of_the_rows(library: str, files: Path) -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip(library)
    seen: list[int] = []
    for batch in xs.DataLoader(xs.read_parquet(files), batch_size=33, seed=2, format=library):
        made = {name: numpy.asarray(array) for name, array in batch.items()}
        ids = made["id"].tolist()
        seen += ids
        assert made["flag"].tolist() == [row % 3 == 0 for row in ids]
        expected = numpy.array([[6 * row + place for place in range(6)] for row in ids])
        for name, shape in [("list", (6,)), ("nested", (3, 2)), ("tensor", (2, 3))]:
            assert made[name].shape == (len(ids), *shape)
            assert (made[name].reshape(len(ids), 6) == expected).all()
    assert sorted(seen) == list(range(ROWS))


@pytest.mark.usefixtures("libraries")
def test_numpy_arrays_are_views(files: Path) -> None:
    pytest.importorskip("numpy")
    for batch in xs.DataLoader(xs.read_parquet(files), batch_size=ROWS, seed=2):
        views = {name for name, array in batch.items() if not array.flags.owndata}
        assert views >= {"id", "list", "nested", "tensor"}
        assert not batch["id"].flags.writeable


def test_arrays_of_numbers_import_no_pandas(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    (tmp_path / "pandas.py").write_text("print('imported'); raise ImportError")
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import pyarrow as pa
from exoshuffle.operators.tensors import converter

for kind, values in ((pa.float32(), bytes(16)), (pa.uint16(), bytes(range(8)))):
    column = pa.Array.from_buffers(kind, 4, [None, pa.py_buffer(values)])[1:]
    batch = pa.RecordBatch.from_arrays([column], names=["x"])
    array = converter("numpy", batch.schema)(batch)["x"]
    start = column.buffers()[1].address + array.itemsize
    assert array.__array_interface__["data"] == (start, True)
    assert array.tolist() == column.to_pylist()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_what_is_no_array_is_objects(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    numpy = pytest.importorskip("numpy")
    table = pa.table(
        {
            "n": pa.array([1, None], pa.int64()),
            "text": ["a", None],
            "category": pa.array(["b", None]).dictionary_encode(),
            "view": pa.array(["c", None], pa.string_view()),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    (batch,) = xs.DataLoader(xs.read_parquet(tmp_path), batch_size=2, shuffle=False)
    assert batch["n"][0] == 1
    assert numpy.isnan(batch["n"][1])
    assert [batch[name].tolist() for name in ("text", "category", "view")] == [
        ["a", None],
        ["b", None],
        ["c", None],
    ]
