"""A shuffle of a result in many small blocks: few maps read them, and nothing else differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset import execute
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.inputs import block_input
from exoshuffle.engines.local import LocalEngine
from exoshuffle.futures.events import TaskFinished
from tests.support.generated import generated, query
from tests.support.oracle import assert_same, write_files

ROWS = 40_000
PARTITIONS = 200
#: As many maps as there are at most where files hold so few rows, and those of an input of two files.
FEW = 20


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS, keys=500)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("small") / "in", table, 2, rows_per_group=10_000)


def blocks_of(source: Path) -> Dataset:
    """All rows in the order of their numbers, in many small blocks."""
    return xs.read_parquet(source).repartition(PARTITIONS, by="id", method="range")


def num_maps(engine: LocalEngine, dataset: Dataset) -> int:
    """How many maps it takes to make all rows, or scans where an operator runs in one piece."""
    names: Counter[str] = Counter()

    def count(event: TaskFinished) -> None:
        names[event.name] += 1

    engine.add_observer(count)
    dataset.to_arrow()
    engine.remove_observer(count)
    return names["map"] + names["scan"]


#: Operations on the rows, where the order in which blocks are read decides what comes out.
WITHOUT_NUMBERS: dict[str, Callable[[Dataset], Dataset]] = {
    "stable sort": lambda rows: rows.sort("k"),
    "sort behind a step": lambda rows: rows.filter("id % 3 > 0").sort("small", descending=True),
    "first and last": lambda rows: (
        rows.group_by("k").agg(first=("id", "first"), last=("id", "last")).sort("k")
    ),
    "the first of each key": lambda rows: rows.distinct("k").sort("k"),
    "by hash": lambda rows: rows.repartition(3, by="k"),
    "join": lambda rows: rows.join(rows.distinct("k"), on="k", num_partitions=3),
    "pushed": lambda rows: rows.sort("k", strategy="push"),
    "functions": lambda rows: rows.map_batches(lambda batch: batch.select(["k", "id"])).sort("k"),
}
#: Where each row has a number by its block.
WITH_NUMBERS: dict[str, Callable[[Dataset], Dataset]] = {
    "random order": lambda rows: rows.random_shuffle(7),
    "random order behind a step": lambda rows: rows.filter("id % 3 > 0").random_shuffle(7),
    "sample": lambda rows: rows.sample(1000, seed=7),
    "fraction": lambda rows: rows.sample(fraction=0.1, seed=7).sort("k"),
}


@pytest.mark.parametrize("name", WITHOUT_NUMBERS)
def test_few_maps_read_them_in_order(
    name: str, source: Path, roomy_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = WITHOUT_NUMBERS[name](blocks_of(source))
    assert num_maps(roomy_engine, made) < 3 * FEW
    together = made.to_arrow()
    monkeypatch.setattr(block_input, "MAX_TOGETHER", 1)
    assert num_maps(roomy_engine, made) > PARTITIONS
    assert_same(together, made.to_arrow())


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_rows_keep_their_numbers(
    name: str, source: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    made = WITH_NUMBERS[name](blocks_of(source))
    together = made.to_arrow()
    monkeypatch.setattr(block_input, "MAX_TOGETHER", 1)
    assert_same(together, made.to_arrow())


def test_equal_keys_stay_in_order(table: pa.Table, source: Path, engine: LocalEngine) -> None:
    rows = blocks_of(source)
    assert num_maps(engine, rows.sort("k")) < FEW
    wanted = query("select * from t order by k, id", t=table)
    assert_same(rows.sort("k").to_arrow(), wanted)


def test_several_blocks_of_a_partition(
    source: Path, roomy_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "piece_bytes", lambda _: 1)
    rows = xs.read_parquet(source).select("id", "k")
    made = rows.group_by("k", num_partitions=12).map_groups(lambda group: group).sort("id")
    maps = num_maps(roomy_engine, made)
    monkeypatch.setattr(block_input, "MAX_TOGETHER", 1)
    assert maps < 2 * FEW < PARTITIONS < num_maps(roomy_engine, made)


def test_a_plan_counts_the_same_maps(source: Path, engine: LocalEngine) -> None:
    made = blocks_of(source).sort("k")
    below, bill = made.explain().before[0], made.explain()
    assert num_maps(engine, made) == below.splits + bill.splits
