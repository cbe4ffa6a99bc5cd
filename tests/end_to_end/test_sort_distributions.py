"""Skewed, degenerate and spilled inputs against DuckDB; equal keys must spread over the partitions and stay stable."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.plan import memory
from tests.support.oracle import (
    assert_same,
    check_both_strategies,
    expected,
    read_directory,
    with_row_numbers,
    write_files,
)
from tests.support.tables import DISTRIBUTIONS, distributed

pytestmark = pytest.mark.usefixtures("engine")

NUM_ROWS = 6000


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("num_partitions", [1, 4, 64])
def test_every_distribution_is_sorted_by_both_strategies(
    name: str, num_partitions: int, tmp_path: Path
) -> None:
    table = with_row_numbers(distributed(name, NUM_ROWS))
    source = write_files(tmp_path / "in", table, 5)
    keys = [SortKey("key", descending=name == "zipf")]
    check_both_strategies(source, keys, num_partitions, expected(table, keys))


@pytest.mark.parametrize("name", ["all equal", "one huge key", "few distinct", "all null", "zipf"])
def test_equal_keys_are_split_evenly(name: str, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", distributed(name, 20_000), 4)
    result = xs.read_parquet(source).sort("key", num_partitions=8).write_parquet(tmp_path / "out")
    sizes = [file["rows"] for file in result.files]
    assert len(sizes) == 8
    assert max(sizes) <= 1.3 * 20_000 / 8


def test_more_partitions_than_rows_leaves_no_empty_files(tmp_path: Path) -> None:
    table = with_row_numbers(distributed("uniform", 10))
    source = write_files(tmp_path / "in", table, 2)
    result = xs.read_parquet(source).sort("key", num_partitions=50).write_parquet(tmp_path / "out")
    assert all(file["rows"] for file in result.files)
    assert sum(file["rows"] for file in result.files) == 10
    assert_same(read_directory(tmp_path / "out", "parquet"), expected(table, [SortKey("key")]))


@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_data_that_exceeds_memory_is_spilled_and_sorted(
    strategy: str, engine: LocalEngine, tmp_path: Path
) -> None:
    rng = random.Random(3)
    rows = 800_000
    table = with_row_numbers(
        pa.table(
            {
                "key": pa.array([rng.getrandbits(16) for _ in range(rows)], pa.int32()),
                "payload": pa.array([b"%0100d" % i for i in range(rows)]),
            }
        )
    )
    source = write_files(tmp_path / "in", table, 4, rows_per_group=50_000)
    dataset = xs.read_parquet(source).sort("key", descending=True, strategy=strategy)
    result = dataset.write_parquet(tmp_path / "out")
    assert result.spilled_bytes > 20_000_000
    assert engine.stats()["num_recovered"] == 0
    assert_same(
        read_directory(tmp_path / "out", "parquet"), expected(table, [SortKey("key", True)])
    )


@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_a_few_rows_of_a_megabyte(strategy: str, tmp_path: Path) -> None:
    rng = random.Random(5)
    big = {7, 50, 51, 119}
    table = with_row_numbers(
        pa.table(
            {
                "key": [
                    f"{rng.getrandbits(8)}" * (1 if i not in big else 400_000) for i in range(120)
                ],
                "payload": [rng.randbytes(1_000_000 if i in big else 10) for i in range(120)],
            }
        )
    )
    source = write_files(tmp_path / "in", table, 3, rows_per_group=10)
    dataset = xs.read_parquet(source).sort("key", strategy=strategy, num_partitions=6)
    dataset.write_parquet(tmp_path / "out")
    assert_same(read_directory(tmp_path / "out", "parquet"), expected(table, [SortKey("key")]))


def test_sorting_again_keeps_the_earlier_order_among_equals(tmp_path: Path) -> None:
    table = with_row_numbers(distributed("few distinct", 3000))
    source = write_files(tmp_path / "in", table, 3)
    twice = xs.read_parquet(source).sort("text", descending=True).sort("key", num_partitions=5)
    assert_same(twice.to_arrow(), expected(table, [SortKey("key"), SortKey("text", True)]))


def test_the_result_of_a_sort_can_be_sorted(tmp_path: Path) -> None:
    table = with_row_numbers(distributed("uniform", 3000))
    source = write_files(tmp_path / "in", table, 3)
    xs.read_parquet(source).sort("key", num_partitions=7).write_parquet(tmp_path / "once")
    xs.read_parquet(tmp_path / "once").sort("row_number").write_parquet(tmp_path / "twice")
    assert_same(read_directory(tmp_path / "twice", "parquet"), table)
    assert pq.read_table(source).equals(table)


@pytest.mark.parametrize("order", ["sorted", "descending", "clustered", "random"])
def test_partitions_are_even_whatever_the_order_of_the_input(
    order: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """More splits than are sampled where that is dear, of many sizes, each with keys of its own."""
    rows, num_partitions = 60_000, 60
    monkeypatch.setattr(memory, "MIN_SPLIT_BYTES", 5_000)
    monkeypatch.setattr(memory, "MAX_SPLIT_BYTES", 5_000)
    monkeypatch.setattr(memory, "_grown_bytes", lambda *_: 0)
    cluster, places = rows // 37, list(range(38))
    random.Random(4).shuffle(places)
    keys = {
        "sorted": range(rows),
        "descending": range(rows, 0, -1),
        "clustered": [places[row // cluster] * rows + row for row in range(rows)],
        "random": [random.Random(row).getrandbits(60) for row in range(rows)],
    }[order]
    table = pa.table({"key": pa.array(keys, pa.int64()), "text": ["x" * 20] * rows})
    (tmp_path / "in").mkdir()
    with pq.ParquetWriter(tmp_path / "in" / "a.parquet", table.schema) as writer:
        start = 0
        while start < rows:
            length = (137, 311, 53)[start % 3]
            writer.write_table(table.slice(start, length))
            start += length
    dataset = xs.read_parquet(tmp_path / "in").sort("key", num_partitions=num_partitions)
    assert dataset.explain(strategy="simple").splits > 200
    result = dataset.write_parquet(tmp_path / "out")
    sizes = sorted(file["rows"] for file in result.files)
    assert len(sizes) == num_partitions
    assert sizes[-1] <= 1.5 * sizes[num_partitions // 2]
    assert sum(sizes) == rows
