"""Samples: as many rows as promised, each as likely as any other, chosen by the seed and the files alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError
from exoshuffle.operators.steps import sample as steps_sample
from tests.support.generated import assert_same_rows, generated
from tests.support.limits import large_memory_limit, small_memory_limit
from tests.support.oracle import assert_same, write_files

ROWS = 60_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("sampled") / "in", table, 3, rows_per_group=5000)


def ids(dataset: xs.Dataset) -> list[int]:
    return dataset.to_arrow()["id"].to_pylist()


# --- exactly n ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 1234, ROWS, ROWS + 1])
def test_so_many_rows(n: int, table: pa.Table, source: Path, engine: LocalEngine) -> None:
    """They are the first of a random shuffle, whose numbers are made by the native module."""
    del engine
    dataset = xs.read_parquet(source)
    sampled = dataset.sample(n, seed=7).to_arrow()
    assert_same(sampled, dataset.random_shuffle(seed=7).limit(n).to_arrow())
    assert sampled.schema.equals(table.schema)
    assert len(set(sampled["id"].to_pylist())) == min(n, ROWS)


def test_records_are_sampled_too(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    gensort(tmp_path / "in", 9000, partitions=3)
    records = xs.read_records(tmp_path / "in")
    assert records.sample(500, seed=3).to_arrow() == records.random_shuffle(3).limit(500).to_arrow()
    assert records.sample(fraction=0.1).write_records(tmp_path / "out").rows > 700


def test_more_rows_than_fit(engine: LocalEngine, tmp_path: Path) -> None:
    rows = pa.table({"id": range(120_000), "pad": ["y" * 900] * 120_000})
    assert rows.nbytes > engine.budget_bytes
    write_files(tmp_path / "in", rows, 4, rows_per_group=10_000)
    sampled = ids(xs.read_parquet(tmp_path / "in").sample(100_000).select("id"))
    assert len(set(sampled)) == 100_000


def test_every_row_is_as_likely_as_any_other(source: Path, engine: LocalEngine) -> None:
    """Chi-square of where 20 samples of 600 rows come from, in 60 stretches of the input."""
    del engine
    dataset = xs.read_parquet(source).select("id")
    assert_uniform([i for seed in range(20) for i in ids(dataset.sample(600, seed=seed))])
    with pytest.raises(AssertionError):  # a sample that prefers the first rows
        assert_uniform(
            [i * 99 // 100 for seed in range(4) for i in ids(dataset.sample(6000, seed=seed))]
        )


def assert_uniform(found: list[int], cells: int = 60) -> None:
    """Chi-square has ``cells - 1`` degrees of freedom: mean 59, variance 118."""
    counts = [0] * cells
    for row in found:
        counts[row * cells // ROWS] += 1
    mean = len(found) / cells
    statistic = sum((count - mean) ** 2 / mean for count in counts)
    assert abs(statistic - (cells - 1)) < 4 * (2 * (cells - 1)) ** 0.5, statistic


# --- a fraction --------------------------------------------------------------------------------------------------


def test_a_fraction_is_binomial_and_in_order(
    table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    del engine
    dataset = xs.read_parquet(source)
    sizes = []
    for seed in range(20):
        found = ids(dataset.select("id").sample(fraction=0.3, seed=seed))
        assert found == sorted(set(found))
        sizes.append(len(found))
    mean, variance = ROWS * 0.3, ROWS * 0.3 * 0.7
    assert abs(sum(sizes) / 20 - mean) < 4 * (variance / 20) ** 0.5, sizes
    spread = sum((size - mean) ** 2 for size in sizes) / 20
    assert 0.25 < spread / variance < 2.5, (
        sizes
    )  # chi-square with 20 degrees, at 1 in 10,000 either side
    whole = dataset.sample(fraction=0.05, seed=1).to_arrow()
    assert_same(whole, table.take(whole["id"]))


def test_smaller_fractions_are_parts_of_larger_ones(source: Path, engine: LocalEngine) -> None:
    del engine
    dataset = xs.read_parquet(source)
    assert_same(dataset.sample(fraction=1.0).to_arrow(), dataset.to_arrow())
    large, small = (set(ids(dataset.sample(fraction=part, seed=3))) for part in (0.5, 0.01))
    assert small < large
    assert ids(dataset.sample(fraction=1e-30)) == []


# --- what it depends on ------------------------------------------------------------------------------------------

CHAINS: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
    "filter": lambda dataset: dataset.filter("id % 3 = 0"),
    "select": lambda dataset: dataset.select("k", id="id + 0"),
    "replace": lambda dataset: dataset.with_columns(k="k + 1").drop("nested"),
    "rename": lambda dataset: dataset.rename({"id": "old"}).select(id="old"),
}


@pytest.mark.parametrize("name", CHAINS)
def test_steps_do_not_change_the_choice(name: str, source: Path, engine: LocalEngine) -> None:
    del engine
    dataset = xs.read_parquet(source)
    left = ids(CHAINS[name](dataset))
    chosen = set(ids(dataset.sample(fraction=0.2, seed=4)))
    after = CHAINS[name](dataset).sample(fraction=0.2, seed=4)
    assert ids(after) == [row for row in left if row in chosen]
    assert after.schema.equals(CHAINS[name](dataset).schema)
    kept = set(left)
    first = [row for row in ids(dataset.random_shuffle(seed=4)) if row in kept]
    assert ids(CHAINS[name](dataset).sample(100, seed=4)) == first[:100]


def test_the_choice_depends_on_the_seed_alone(table: pa.Table, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", table, 1, rows_per_group=5000)

    def made(
        num_cpus: int, memory: int | str, sample: Callable[[xs.Dataset], xs.Dataset]
    ) -> object:
        xs.init(memory_limit=memory, spill_dirs=str(tmp_path), num_cpus=num_cpus)
        found = ids(sample(xs.read_parquet(source).filter("id % 2 = 0")))
        xs.shutdown()
        return found

    def rows(dataset: xs.Dataset) -> xs.Dataset:
        return dataset.sample(50, seed=5)

    def fraction(dataset: xs.Dataset) -> xs.Dataset:
        return dataset.sample(fraction=0.1, seed=5)

    first = made(1, large_memory_limit(), rows)
    assert first == made(2, small_memory_limit(), rows) == made(4, "2GB", rows)
    assert first != made(1, large_memory_limit(), lambda dataset: dataset.sample(50, seed=6))
    # For so many CPUs the file is cut into parts of 1 MB.
    assert made(1, large_memory_limit(), fraction) == made(100, large_memory_limit(), fraction)


def test_samples_of_samples_unions_and_results(
    table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    del engine
    dataset = xs.read_parquet(source).select("id", "k")
    half = dataset.sample(fraction=0.5, seed=1)
    quarter = half.sample(fraction=0.5, seed=1)
    assert abs(len(ids(quarter)) - ROWS / 4) < 4 * (ROWS * 3 / 16) ** 0.5
    both = ids(dataset.union(dataset).sample(fraction=0.5, seed=2))
    # Independent choices of the two: a row is in both with probability 1/4.
    twice = len(both) - len(set(both))
    assert abs(twice - ROWS / 4) < 4 * (ROWS * 3 / 16) ** 0.5
    after = dataset.sort("k", num_partitions=5).sample(fraction=0.1, seed=1)
    assert_same(after.to_arrow(), after.to_arrow())
    assert abs(len(ids(after)) - ROWS / 10) < 4 * (ROWS * 9 / 100) ** 0.5
    assert len(ids(dataset.distinct("k").sample(300))) == 300
    rows = dataset.map_batches(lambda batch: batch).sample(fraction=0.2).to_arrow()
    assert_same_rows(rows, table.select(["id", "k"]).take(rows["id"]))
    totals = dataset.sample(fraction=0.25, seed=9).group_by().agg(n="count").to_arrow()
    assert totals["n"].to_pylist() == [len(ids(dataset.sample(fraction=0.25, seed=9)))]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs one of n and fraction"),
        ({"n": 3, "fraction": 0.5}, "needs one of n and fraction"),
        ({"n": -1}, "n is -1; it must be a whole number from 0"),
        ({"n": 0.5}, "for a share of the rows write fraction=0.5"),
        ({"fraction": 0.0}, "fraction is 0.0; it must be above 0 and at most 1"),
        ({"fraction": 1.5}, "fraction is 1.5"),
        ({"fraction": float("nan")}, "fraction is nan"),
        ({"n": 3, "seed": -1}, "choose a whole number from 0"),
        ({"fraction": 0.3, "seed": 2**64}, "choose a whole number from 0"),
    ],
)
def test_mistakes(arguments: dict[str, float], words: str, source: Path) -> None:
    with pytest.raises(OptionsError, match=words):
        xs.read_parquet(source).sample(**arguments)


def test_batches_of_one_row_are_numbered_together(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbering a batch takes as long as numbering thousands of rows."""
    del engine
    rows, calls = 1000, []
    table = pa.table({"id": range(rows)})
    with pa.ipc.new_file(str(tmp_path / "ones.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    counted = steps_sample.numbers

    def count(*arguments: int) -> pa.Array:
        calls.append(arguments)
        return counted(*arguments)

    monkeypatch.setattr(steps_sample, "numbers", count)
    drawn = counted(7, 0, 0, rows).to_pylist()
    wanted = sorted(range(rows), key=lambda row: drawn[row])
    assert ids(xs.read_ipc(tmp_path / "ones.arrow").sample(rows, seed=7)) == wanted
    assert len(calls) <= 3
