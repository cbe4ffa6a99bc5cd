"""Repartitioning keeps all rows, makes the partitions asked for, and keeps the order within each."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, SchemaError
from tests.support.generated import assert_same_rows, generated
from tests.support.oracle import write_files

ROWS = 200_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS, keys=100)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("parts") / "in", table, 5, rows_per_group=20_000)


def parts(directory: Path) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted(directory.glob("*.parquet"))]


def test_in_turn(table: pa.Table, source: Path, engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    xs.read_parquet(source).repartition(7).write_parquet(tmp_path / "out")
    made = parts(tmp_path / "out")
    assert len(made) == 7
    assert max(map(len, made)) - min(map(len, made)) <= 40  # one per map, of which there are fewer
    for part in made:
        assert part["id"].to_pylist() == sorted(part["id"].to_pylist())
    assert_same_rows(pa.concat_tables(made), table)


@pytest.mark.parametrize("keys", ["k", ["small", "x"], "text"])
def test_by_hash(
    keys: object, table: pa.Table, source: Path, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    xs.read_parquet(source).repartition(5, by=keys).write_parquet(tmp_path / "out")
    made = parts(tmp_path / "out")
    names = [keys] if isinstance(keys, str) else keys
    groups = [
        {
            tuple(0.0 if value == 0 else str(value) for value in row)
            for row in zip(*(part[name].to_pylist() for name in names), strict=True)
        }
        for part in made
    ]
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert_same_rows(pa.concat_tables(made), table)


def test_by_range(table: pa.Table, source: Path, engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    xs.read_parquet(source).repartition(9, by="id", method="range").write_parquet(tmp_path / "out")
    made = parts(tmp_path / "out")
    assert len(made) == 9
    assert [part["id"][0].as_py() for part in made] == sorted(
        part["id"][0].as_py() for part in made
    )
    assert pa.concat_tables(made)["id"].to_pylist() == list(range(ROWS))
    assert max(map(len, made)) < 1.3 * ROWS / 9
    assert_same_rows(pa.concat_tables(made), table)


def test_by_size(source: Path, engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    result = xs.read_parquet(source).repartition(target_size="2MB").write_parquet(tmp_path / "out")
    assert 4 <= len(result.files) <= 16


def test_wrong_arguments(source: Path) -> None:
    dataset = xs.read_parquet(source)
    with pytest.raises(OptionsError, match="one of num_partitions and target_size"):
        dataset.repartition()
    with pytest.raises(OptionsError, match="one of num_partitions and target_size"):
        dataset.repartition(3, target_size="1MB")
    with pytest.raises(OptionsError, match="known are hash, range"):
        dataset.repartition(3, by="k", method="magic")
    with pytest.raises(SchemaError, match="nope"):
        dataset.repartition(3, by="nope")
    with pytest.raises(SchemaError, match="nested"):
        dataset.repartition(3, by="nested")
