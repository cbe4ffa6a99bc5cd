"""A random shuffle keeps all rows, depends on its seed alone, and is a uniform permutation."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError
from tests.conftest import small_memory_limit
from tests.end_to_end.generated import assert_same_rows, generated
from tests.end_to_end.oracle import write_files

ROWS = 300_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("shuffled") / "in", table, 3, rows_per_group=20_000)


def ids(dataset: xs.Dataset) -> list[int]:
    return dataset.to_arrow()["id"].to_pylist()


def test_rows_stay_and_move(table: pa.Table, source: Path, engine: LocalEngine) -> None:
    del engine
    shuffled = xs.read_parquet(source).random_shuffle(seed=1).to_arrow()
    assert shuffled.schema.equals(table.schema)
    assert_same_rows(shuffled, table)
    moved = shuffled["id"].to_pylist()
    # The mean distance of a row from its old place is a third of all rows; its standard error is 0.0004 of them.
    distance = sum(abs(old - new) for new, old in enumerate(moved)) / ROWS
    assert abs(distance / ROWS - 1 / 3) < 0.002


def test_the_order_depends_on_the_seed_alone(source: Path, tmp_path: Path) -> None:
    orders = []
    for num_cpus, num_partitions, strategy in [
        (1, 8, "simple"),
        (2, 16, "push"),
        (2, None, "auto"),
    ]:
        xs.init(memory_limit=small_memory_limit(), spill_dirs=str(tmp_path), num_cpus=num_cpus)
        dataset = xs.read_parquet(source).random_shuffle(
            seed=5, strategy=strategy, num_partitions=num_partitions
        )
        orders.append(ids(dataset))
        xs.shutdown()
    assert orders[0] == orders[1] == orders[2]
    xs.init(memory_limit=small_memory_limit(), spill_dirs=str(tmp_path))
    assert ids(xs.read_parquet(source).random_shuffle(seed=6)) != orders[0]
    xs.shutdown()


def test_rows_of_one_map_spread_evenly_over_places(source: Path, engine: LocalEngine) -> None:
    """Chi-square of (old place) x (new place) in 12 x 12 cells: multinomial, not merely even."""
    del engine
    cells, seeds = 12, 6
    statistics = []
    for seed in range(seeds):
        counts = [0] * (cells * cells)
        for new, old in enumerate(ids(xs.read_parquet(source).random_shuffle(seed=seed))):
            counts[old * cells // ROWS * cells + new * cells // ROWS] += 1
        mean = ROWS / cells**2
        statistics.append(sum((count - mean) ** 2 / mean for count in counts))
    # 121 degrees of freedom each: mean 121, variance 242. Too even is as wrong as too uneven.
    mean = sum(statistics) / seeds
    assert abs(mean - 121) < 4 * (242 / seeds) ** 0.5, statistics


def test_shuffling_the_result_of_steps(table: pa.Table, source: Path, engine: LocalEngine) -> None:
    del engine
    dataset = xs.read_parquet(source).filter("id % 3 = 0").select("id", "k").random_shuffle(seed=2)
    actual = dataset.to_arrow()
    assert_same_rows(actual, table.select(["id", "k"]).take(list(range(0, ROWS, 3))))
    assert actual["id"].to_pylist() != sorted(actual["id"].to_pylist())


def test_the_inputs_of_a_union_are_shuffled_independently(
    source: Path, engine: LocalEngine
) -> None:
    """The same row of two inputs has two numbers: else both would come out side by side."""
    del engine
    dataset = xs.read_parquet(source).select("id", "k")
    for inputs in (dataset, xs.read_parquet(source)):
        found = ids(inputs.union(inputs).random_shuffle(seed=8))
        assert len(found) == 2 * ROWS
        together = sum(one == other for one, other in itertools.pairwise(found))
        assert together < 20  # one pair is to be expected


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_out_of_range_are_refused(seed: int, source: Path) -> None:
    with pytest.raises(OptionsError, match="choose a whole number from 0"):
        xs.read_parquet(source).random_shuffle(seed)


def test_records_are_shuffled_too(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    from exoshuffle.cloudsort import gensort, valsort

    gensort(tmp_path / "in", 30_000, partitions=3)
    before = valsort(tmp_path / "in")
    xs.read_records(tmp_path / "in").random_shuffle(seed=3).write_records(tmp_path / "out")
    after = valsort(tmp_path / "out")
    assert (after.records, after.checksum) == (30_000, before.checksum)
    assert (
        xs.read_records(tmp_path / "in").to_arrow() != xs.read_records(tmp_path / "out").to_arrow()
    )
