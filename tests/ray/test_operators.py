"""Operators that choose rows, or shuffle within windows, give on Ray what the local engine gives, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.ray import RayEngine
from tests.support.generated import generated
from tests.support.oracle import assert_same, write_files

PROGRAMS: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
    "top": lambda dataset: dataset.top_k(700, ["small", "x"], nulls="first"),
    "sample": lambda dataset: dataset.select("k", "id").sample(500, seed=3),
    "fraction": lambda dataset: dataset.filter("id % 2 = 0").sample(fraction=0.2, seed=3),
    "window": lambda dataset: dataset.random_shuffle(seed=9, window=800),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("rows") / "in", generated(60_000, 9000), 3)


@pytest.fixture(scope="module")
def expected(source: Path) -> dict[str, pa.Table]:
    """The result of the local engine."""
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
    assert_same(actual, expected[name])
