"""Pipelines of stages on Ray: the same rows as on the embedded engine, also where workers and actors are killed."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.ray import RayEngine
from exoshuffle.errors import SkippedWarning
from exoshuffle.testing.meeting import PATIENCE_SECONDS

NUM_FILES, NUM_ROWS = 6, 5000


@pytest.fixture
def rows(tmp_path: Path) -> xs.Dataset:
    for number in range(NUM_FILES):
        x = range(number * NUM_ROWS, (number + 1) * NUM_ROWS)
        table = pa.table({"x": x, "text": [f"row {index}" for index in x]})
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
    return xs.read_parquet(tmp_path / "in")


def plus_one(batch):
    return batch.set_column(0, "x", pc.add(batch["x"], 1))


class Adder:
    def __init__(self, number):
        self.number, self.gpus = number, xs.get_gpu_ids()

    def __call__(self, batch):
        assert self.gpus == xs.get_gpu_ids() == [0]
        return batch.set_column(0, "x", pc.add(batch["x"], self.number))


def thrice(row):
    for number in range(3):
        yield {"x": row["x"], "number": number}


def test_chains_give_the_rows_of_their_functions(engine: RayEngine, rows: xs.Dataset) -> None:
    del engine
    schema = pa.schema({"x": pa.int64(), "number": pa.int64()})
    made = (
        rows.map_batches(plus_one, resources={"token": 1}, batch_size=1000)
        .map_batches(Adder, fn_constructor_args=(10,), num_gpus=1, concurrency=(0, 1))
        .filter("x % 2 = 0")
        .flat_map(thrice, schema=schema, num_cpus=0.5)
    )
    want = [(x, n) for x in range(11, NUM_FILES * NUM_ROWS + 11) if x % 2 == 0 for n in range(3)]
    assert list(zip(*made.to_arrow().to_pydict().values(), strict=True)) == want


def test_rows_are_skipped(engine: RayEngine, rows: xs.Dataset, tmp_path: Path) -> None:
    del engine

    def failing(row):
        if row["x"] % 10_000 == 7:
            raise ValueError("seven")
        return row

    with pytest.warns(SkippedWarning, match="3 rows skipped"):
        result = rows.map(failing, on_error="skip").write_parquet(tmp_path / "out")
    assert [one.first_row for one in result.skipped] == [7, 10_007, 20_007]
    assert result.rows == NUM_FILES * NUM_ROWS - 3


@pytest.mark.parametrize("kind", ["actor", "worker"])
def test_who_is_killed_loses_nothing(
    engine: RayEngine, rows: xs.Dataset, tmp_path: Path, kind: str
) -> None:
    del engine
    made, mark = run_with_a_death(rows, tmp_path, kind)
    assert mark.exists()
    assert made["x"].to_pylist() == list(range(1, NUM_FILES * NUM_ROWS + 1))


def test_what_an_object_held_is_free_at_the_end(
    engine: RayEngine, rows: xs.Dataset, tmp_path: Path
) -> None:
    """Without the garbage collector, which may not run before somebody waits for it."""
    del engine
    gc.collect()
    gc.disable()
    try:
        run_with_a_death(rows, tmp_path, "actor")
        assert xs.get(xs.remote(abs, num_gpus=1).remote(-1), timeout=PATIENCE_SECONDS) == 1
    finally:
        gc.enable()


def run_with_a_death(rows: xs.Dataset, tmp_path: Path, kind: str) -> tuple[pa.Table, Path]:
    """Adds one to ``x`` on the GPU; the first who gets a certain row is killed, and leaves a mark."""
    mark = tmp_path / "died"

    def dying(batch):
        if 12_000 in batch["x"].to_pylist() and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return plus_one(batch)

    class Dying:
        def __call__(self, batch):
            return dying(batch)

    function = dying if kind == "worker" else Dying
    made = rows.map_batches(function, num_gpus=1, batch_size=500, schema=rows.schema).to_arrow()
    return made, mark
