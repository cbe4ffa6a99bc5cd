"""A random shuffle keeps all rows, depends on its seed alone, and is a uniform permutation."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError
from tests.support.generated import assert_same_rows, generated
from tests.support.limits import large_memory_limit, small_memory_limit
from tests.support.oracle import write_files

ROWS = 300_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("shuffled") / "in", table, 3, rows_per_group=20_000)


def ids(dataset: xs.Dataset) -> pa.Array:
    return dataset.to_arrow()["id"].combine_chunks()


def places() -> pa.Array:
    """The number of each row of ``source``."""
    return pa.array(range(ROWS), pa.int64())


def test_rows_stay_and_move(table: pa.Table, source: Path, engine: LocalEngine) -> None:
    del engine
    shuffled = xs.read_parquet(source).random_shuffle(seed=1).to_arrow()
    assert shuffled.schema.equals(table.schema)
    assert_same_rows(shuffled, table)
    # The mean distance of a row from its old place is a third of all rows; its standard error is 0.0004 of them.
    distance = pc.mean(pc.abs(pc.subtract(shuffled["id"], places()))).as_py()
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


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CSV and JSON lines of 10 MB and of 1 KB; lines are of different lengths, and some are empty."""
    folder = tmp_path_factory.mktemp("text")
    lengths = random.Random(3)
    pads = ["x" * lengths.randrange(200) for _ in range(90_000)]
    for name, rows in (("a", pads), ("b", pads[:10])):
        lines = [f'{number},"{pad}"' for number, pad in enumerate(rows)]
        lines[5] += "\n\n"
        (folder / f"{name}.csv").write_text("id,pad\n" + "\n".join(lines) + "\n")
        records = [f'{{"id": {number}, "pad": "{pad}"}}\n' for number, pad in enumerate(rows)]
        (folder / f"{name}.jsonl").write_text("".join(records))
    return folder


def read(name: str, text: Path, source: Path) -> xs.Dataset:
    csv = xs.read_csv(str(text / "*.csv"))
    return {
        "csv": csv,
        "json lines": xs.read_json(str(text / "*.jsonl")),
        "steps": csv.filter("id % 7 > 0").with_columns(half="id / 2"),
        "steps of parquet": xs.read_parquet(source).filter("id % 3 = 0").select("id"),
        "union": csv.union(csv.filter("id % 2 = 0")),
    }[name]


@pytest.mark.parametrize("name", ["csv", "json lines", "steps", "steps of parquet", "union"])
def test_the_order_does_not_depend_on_how_files_are_cut(
    name: str, text: Path, source: Path, tmp_path: Path
) -> None:
    """Nor do samples. A cut of a text file does not tell how many rows are before it."""
    made = []
    for num_cpus, memory in [(1, small_memory_limit()), (4, large_memory_limit()), (16, "4GB")]:
        xs.init(memory_limit=memory, spill_dirs=str(tmp_path), num_cpus=num_cpus)
        dataset = read(name, text, source)
        found = [
            ids(dataset.random_shuffle(seed=5)),
            ids(dataset.sample(50, seed=5)),
            ids(dataset.sample(fraction=0.01, seed=5)),
        ]
        made.append(found)
        assert found[0].sort() == ids(dataset).sort()
        xs.shutdown()
    (shuffled, sample, _), *others = made
    assert others == [made[0]] * 2
    assert shuffled[:50] == sample
    assert shuffled != shuffled.sort()


def test_the_order_of_what_a_shuffle_made_goes_by_its_partitions(
    text: Path, tmp_path: Path
) -> None:
    made = []
    for num_cpus, memory in [(1, small_memory_limit()), (4, large_memory_limit())]:
        xs.init(memory_limit=memory, spill_dirs=str(tmp_path), num_cpus=num_cpus)
        rows = xs.read_csv(str(text / "*.csv")).distinct("id", num_partitions=6)
        made.append(ids(rows.random_shuffle(seed=5)))
        xs.shutdown()
    assert made[0] == made[1]


def test_rows_of_one_map_spread_evenly_over_places(source: Path, engine: LocalEngine) -> None:
    """Chi-square of (old place) x (new place) in 12 x 12 cells: multinomial, not merely even."""
    del engine
    cells, seeds = 12, 6
    statistics = []
    for seed in range(seeds):
        moved = ids(xs.read_parquet(source).random_shuffle(seed=seed))
        old, new = (pc.divide(pc.multiply(place, cells), ROWS) for place in (moved, places()))
        counts = pc.value_counts(pc.add(pc.multiply(old, cells), new)).field("counts").to_pylist()
        assert len(counts) == cells * cells
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
    assert actual["id"] != actual["id"].sort()


def test_the_inputs_of_a_union_are_shuffled_independently(
    source: Path, engine: LocalEngine
) -> None:
    """The same row of two inputs has two numbers: else both would come out side by side."""
    del engine
    dataset = xs.read_parquet(source).select("id", "k")
    for inputs in (dataset, xs.read_parquet(source)):
        found = ids(inputs.union(inputs).random_shuffle(seed=8))
        assert len(found) == 2 * ROWS
        together = pc.sum(pc.equal(found[1:], found[:-1])).as_py()
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
