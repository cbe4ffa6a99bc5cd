"""A loader below PyTorch's own: its batches as they are, and a refusal wherever worker processes would repeat rows.

PyTorch is tried where it is installed. A stand-in has the base class and nothing else.
"""

from __future__ import annotations

import importlib.machinery
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError
from exoshuffle.operators.tensors import converter
from tests.support.limits import large_memory_limit

pytestmark = [
    pytest.mark.usefixtures("_engine"),
    pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack capsule"),
]
ROWS = 100


@pytest.fixture
def _engine() -> Iterator[None]:
    """An engine with room for what PyTorch takes."""
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        yield


@pytest.fixture
def files(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), tmp_path / "in.parquet")
    return tmp_path


def loader(files: Path, **options: Any) -> xs.DataLoader:
    return xs.DataLoader(
        xs.read_parquet(files), **{"batch_size": 30, "seed": 7, "format": "arrow"} | options
    )


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> type:
    """The base class of a stand-in for PyTorch."""
    made = {name: types.ModuleType(name) for name in ("torch", "torch.utils", "torch.utils.data")}
    data = made["torch.utils.data"]
    data.IterableDataset = type("IterableDataset", (), {})  # type: ignore[attr-defined]
    data.get_worker_info = lambda: None  # type: ignore[attr-defined]
    for name, module in made.items():
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    return data.IterableDataset  # type: ignore[attr-defined, no-any-return]


def test_its_items_are_the_batches(base: type, files: Path) -> None:
    made = loader(files)
    dataset: Any = made.as_torch_dataset()
    assert isinstance(dataset, base)
    assert len(dataset) == 4
    order = [batch["id"].to_pylist() for epoch in loader(files).epochs(2) for batch in epoch]
    assert [batch["id"].to_pylist() for batch in (*dataset, *dataset)] == order
    assert made.state_dict()["epoch"] == 2


@pytest.mark.usefixtures("base")
def test_it_does_not_travel(files: Path) -> None:
    """Worker processes that are started by spawn get it by pickle."""
    with pytest.raises(OptionsError, match="sends its dataset to worker processes, and each"):
        pickle.dumps(loader(files).as_torch_dataset())


def test_where_pytorch_is_missing(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loader(files)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(OptionsError, match="as_torch_dataset needs torch, and it is not installed"):
        made.as_torch_dataset()


def test_a_loader_that_is_taken_for_rows_by_number(files: Path) -> None:
    """As PyTorch's loader takes what is no ``IterableDataset``."""
    with pytest.raises(
        OptionsError, match=r"give torch's DataLoader as its dataset loader.as_torch_dataset\(\)"
    ):
        loader(files)[3]


def test_below_the_loader_of_pytorch(files: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    order = [batch["id"].to_pylist() for batch in loader(files)]
    made = loader(files, format="torch")
    batches = data.DataLoader(made.as_torch_dataset(), batch_size=None)
    assert len(batches) == 4
    assert [batch["id"].tolist() for batch in batches] == order
    assert made.state_dict()["epoch"] == 1


def test_worker_processes_of_pytorch_are_refused(files: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    dataset = loader(files, format="torch").as_torch_dataset()
    workers = data.DataLoader(dataset, batch_size=None, num_workers=2)
    with pytest.raises(OptionsError, match=r"each would hand out all; .* num_workers=0"):
        list(workers)


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint16(), pa.float16(), pa.bool_()])
def test_tensors_are_joined_without_threads_of_torch(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those wait busily, while tasks of ours need the CPUs."""
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    convert = converter("torch", pa.schema({"x": kind}))
    parts = [pa.array(numpy.arange(start, start + 3) % 2).cast(kind) for start in (0, 1)]
    tensors = [convert(pa.record_batch({"x": part}))["x"] for part in parts]
    expected = torch.cat(tensors)
    monkeypatch.setattr(torch, "cat", None)
    assert convert.joined is not None
    joined = convert.joined(tensors)
    assert joined.dtype == expected.dtype
    assert joined.tolist() == expected.tolist()


def test_tensors_are_joined_where_numpy_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    convert = converter("torch", pa.schema({"x": pa.int64()}))
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert convert.joined is not None
    assert convert.joined([torch.tensor([1]), torch.tensor([2, 3])]).tolist() == [1, 2, 3]
