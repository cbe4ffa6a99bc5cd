"""Operators on Ray give the rows that the local engine gives, those that define an order in the same order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.ray import RayEngine
from tests.end_to_end.generated import assert_same_rows, generated
from tests.end_to_end.oracle import assert_same, write_files


def best_groups(dataset: xs.Dataset) -> xs.Dataset:
    grouped = dataset.filter("small > 1").group_by("k").agg(n="count", total=("id", "sum"))
    return grouped.sort(["total", "k"], num_partitions=3).limit(500)


def joined(dataset: xs.Dataset) -> xs.Dataset:
    keys = dataset.select("k", other="id").filter("other % 3 = 0")
    return dataset.select("k", "id").join(keys, on="k", how="full", num_partitions=4)


def in_a_function(dataset: xs.Dataset) -> xs.Dataset:
    def doubled(batch: pa.Table) -> pa.Table:
        return batch.select(["id"]).append_column("pid", batch["id"])

    return dataset.map_batches(doubled).random_shuffle(seed=4, num_partitions=3)


PROGRAMS: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
    "groups": best_groups,
    "join": joined,
    "shuffle": lambda dataset: dataset.random_shuffle(seed=9),
    "distinct": lambda dataset: dataset.drop("nested").distinct("k"),
    "turn": lambda dataset: dataset.repartition(3),
    "function": in_a_function,
    "top": lambda dataset: dataset.top_k(700, ["small", "x"], nulls="first"),
    "sample": lambda dataset: dataset.select("k", "id").sample(500, seed=3),
    "fraction": lambda dataset: dataset.filter("id % 2 = 0").sample(fraction=0.2, seed=3),
    "window": lambda dataset: dataset.random_shuffle(seed=9, window=800),
}
#: Those whose rows come in one order, whatever runs them.
ORDERED = ("groups", "shuffle", "top", "sample", "fraction", "window")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("rows") / "in", generated(60_000, 9000), 3)


@pytest.fixture(scope="module")
def expected(source: Path) -> dict[str, pa.Table]:
    """What the local engine makes."""
    xs.init(num_cpus=2, memory_limit="2GB")
    made = {name: run(xs.read_parquet(source)).to_arrow() for name, run in PROGRAMS.items()}
    xs.shutdown()
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_the_local_engine(
    name: str, source: Path, expected: dict[str, pa.Table], engine: RayEngine
) -> None:
    del engine
    actual = PROGRAMS[name](xs.read_parquet(source)).to_arrow()
    if name in ORDERED:
        assert_same(actual, expected[name])
    else:
        assert_same_rows(actual, expected[name])
