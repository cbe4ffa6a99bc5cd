"""Programs of the guides of Ray Data, with names as their users guess them: each gives the values that it must."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import exoshuffle as xs
from tests.support.limits import large_memory_limit


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """One with room for libraries of frames in its worker processes."""
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        yield


def test_from_items() -> None:
    ds = xs.from_items([{"col1": i, "col2": i * 2} for i in range(1000)])
    ds.show(3)
    assert ds.take(2) == [{"col1": 0, "col2": 0}, {"col1": 1, "col2": 2}]
    assert ds.count() == 1000
    assert ds.take_all()[-1] == {"col1": 999, "col2": 1998}
    assert xs.from_items([1, 2, 3]).take() == [{"item": 1}, {"item": 2}, {"item": 3}]
    assert ds.schema.names == ["col1", "col2"]


def test_range_map() -> None:
    ds = xs.range(100)
    assert ds.take(3) == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert ds.select(id=xs.col("id") ** 2).take(3) == [{"id": 0}, {"id": 1}, {"id": 4}]
    assert ds.filter(xs.col("id") % 2 == 0).count() == 50
    assert ds.limit(5).count() == 5


def test_map_batches() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("numpy")

    def add_dog_years(batch):
        batch["age_in_dog_years"] = 7 * batch["age"]
        return batch

    ds = xs.from_items([{"name": "Luna", "age": 4}, {"name": "Rory", "age": 14}]).map_batches(
        add_dog_years, batch_format="numpy", memory="150MB"
    )
    assert [r["age_in_dog_years"] for r in ds.take_all()] == [28, 98]

    def drop_na(batch):
        return batch.dropna()

    p = xs.from_items([{"x": 1.0}, {"x": None}]).map_batches(
        drop_na, batch_format="pandas", memory="150MB"
    )
    assert p.count() == 1


def test_filter_columns() -> None:
    ds = xs.from_items([{"a": i, "b": i % 3, "c": str(i)} for i in range(30)])
    assert ds.filter("a > 25").count() == 4
    assert ds.select_columns(["a", "b"]).columns == ["a", "b"]
    assert ds.drop_columns(["c"]).schema.names == ["a", "b"]
    assert ds.rename_columns({"a": "z"}).schema.names == ["z", "b", "c"]
    n = ds.with_column("d", ds["a"] + 1)
    assert n.take(1)[0]["d"] == 1
    assert ds.with_column("e", xs.col("a") * 2).take(2)[1]["e"] == 2


def test_groupby() -> None:
    pytest.importorskip("pandas")
    ds = xs.from_items([{"k": i % 3, "v": i} for i in range(30)])
    s = ds.groupby("k").sum("v")
    rows = sorted(s.take_all(), key=lambda r: r["k"])
    assert [r["v"] for r in rows] == [135, 145, 155], rows
    assert ds.groupby("k").count().count() == 3
    assert ds.groupby("k").mean("v").count() == 3

    def normalize(group):
        group["v"] = group["v"] - group["v"].mean()
        return group

    m = (
        ds.cast({"v": float})
        .groupby("k")
        .map_groups(normalize, batch_format="pandas", memory="150MB")
    )
    assert sum(r["v"] for r in m.take_all()) == pytest.approx(0)
    assert ds.sum("v") == 435
    assert ds.max("v") == 29
    assert ds.min("v") == 0
    assert ds.mean("v") == 14.5
    assert sorted(ds.unique("k").to_dict()["k"]) == [0, 1, 2]


def test_shuffle() -> None:
    ds = xs.range(1000)
    s = ds.random_shuffle(seed=42)
    rows = [r["id"] for r in s.take_all()]
    assert sorted(rows) == list(range(1000))
    assert rows != list(range(1000))
    assert [r["id"] for r in ds.random_shuffle(seed=42).take_all()] == rows
    assert 0 < ds.sample(fraction=0.1, seed=1).count() < 1000


def test_repartition() -> None:
    ds = xs.range(1000).repartition(10)
    m = ds.materialize()
    assert m.count() == 1000
    assert len(list(ds.iter_batches())) == 10


def test_iter() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("numpy")
    ds = xs.range(100)
    sizes = [len(b["id"]) for b in ds.iter_batches(batch_size=32)]
    assert sizes == [32, 32, 32, 4], sizes
    assert [
        len(b["id"]) for b in ds.iter_batches(batch_size=32, drop_last=True, batch_format="numpy")
    ] == [32, 32, 32]
    assert sum(r["id"] for r in ds.iter_rows()) == 4950
    total = 0
    for epoch in range(2):
        for batch in ds.random_shuffle(seed=epoch).iter_batches(
            batch_size=10, batch_format="pandas"
        ):
            total += int(batch["id"].sum())
    assert total == 9900


def test_write_read(tmp_path) -> None:
    pytest.importorskip("pandas")
    path = tmp_path / "out"
    xs.range(1000).write_parquet(path)
    back = xs.read_parquet(path)
    assert back.count() == 1000
    back.write_csv(tmp_path / "csv")
    assert xs.read_csv(tmp_path / "csv").sum("id") == 499500
    back.write_json(tmp_path / "json")
    assert xs.read_json(tmp_path / "json").count() == 1000
    back.limit(10).to_pandas().to_parquet(tmp_path / "p.parquet")
    assert xs.read_parquet(tmp_path / "p.parquet").count() == 10


def test_train() -> None:
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")
    df = pd.DataFrame(
        {"x": np.arange(64, dtype="float32"), "y": 2 * np.arange(64, dtype="float32")}
    )
    ds = xs.from_pandas(df)
    train, val = ds.filter("x % 4 <> 0"), ds.filter("x % 4 = 0")
    w = 0.0
    for epoch in range(30):
        for batch in train.random_shuffle(seed=epoch).iter_batches(
            batch_size=16, batch_format="numpy"
        ):
            x, y = batch["x"] / 64, batch["y"] / 64
            w -= 1.0 * float(((w * x - y) * x).mean())
    assert w == pytest.approx(2, abs=0.2)

    def predict(batch):
        batch["pred"] = w * batch["x"]
        return batch

    err = (
        val.map_batches(predict, batch_format="numpy", memory="150MB")
        .with_column("err", (xs.col("pred") - xs.col("y")).abs())
        .max("err")
    )
    assert err < 30
    assert xs.from_dict({"data": np.zeros(4)}).count() == 4
