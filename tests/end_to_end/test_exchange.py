"""Results in memory: Arrow tables, batches, and other libraries through the Arrow stream protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.jobs.in_order import MAX_LENT
from exoshuffle.engines.local import LocalEngine
from exoshuffle.operators.core.keys import SortKey
from tests.support.oracle import assert_same, expected, with_row_numbers, write_files
from tests.support.tables import distributed


@pytest.fixture
def table() -> pa.Table:
    return with_row_numbers(distributed("mostly null", 20_000))


@pytest.fixture
def dataset(engine: LocalEngine, table: pa.Table, tmp_path: Path) -> Iterator[xs.Dataset]:
    del engine
    source = write_files(tmp_path / "in", table, 4)
    return xs.read_parquet(source).sort("key", descending=True, num_partitions=6)


def test_every_way_out_gives_the_same_rows(dataset: xs.Dataset, table: pa.Table) -> None:
    wanted = expected(table, [SortKey("key", True)])
    assert_same(dataset.to_arrow(), wanted)
    assert_same(pa.Table.from_batches(list(dataset.iter_batches())), wanted)
    assert_same(pa.table(dataset), wanted)
    assert_same(pa.RecordBatchReader.from_stream(dataset).read_all(), wanted)
    assert pl.DataFrame(dataset).equals(pl.DataFrame(wanted), null_equal=True)
    assert duckdb.sql("select row_number from dataset").fetchall() == [
        (row,) for row in wanted["row_number"].to_pylist()
    ]


def test_an_unsorted_dataset_keeps_its_order(dataset: xs.Dataset, table: pa.Table) -> None:
    assert_same(xs.read_parquet(dataset.files).to_arrow(), table)


def test_a_dataset_can_be_read_again_and_left_halfway(
    dataset: xs.Dataset, engine: LocalEngine
) -> None:
    batches = dataset.iter_batches()
    first = next(batches)
    batches.close()
    del batches
    assert next(dataset.iter_batches()).equals(first)
    del first
    assert dataset.to_arrow().num_rows == 20_000
    assert engine.stats()["used_blocks_bytes"] == 0


def test_batches_outlive_the_engine(dataset: xs.Dataset) -> None:
    result = dataset.to_arrow()
    keys = result["key"].to_pylist()
    xs.shutdown()
    assert result["key"].to_pylist() == keys


def test_batches_are_lent_by_the_store_while_the_caller_drops_them(
    dataset: xs.Dataset, engine: LocalEngine
) -> None:
    held, allocated = [], pa.total_allocated_bytes()
    for batch in dataset.iter_batches():
        assert batch.num_rows
        held.append(engine.stats()["used_blocks_bytes"])
        assert pa.total_allocated_bytes() == allocated
    del batch
    assert min(held) > 0
    assert engine.stats()["used_blocks_bytes"] == 0


def test_whoever_keeps_batches_pins_no_more_than_two_partitions(
    dataset: xs.Dataset, engine: LocalEngine, table: pa.Table
) -> None:
    kept = list(dataset.iter_batches())
    assert len(kept) >= 6
    assert engine.stats()["num_objects"] == 0
    largest = max(batch.nbytes for batch in kept) + 2**20
    assert 0 < engine.stats()["used_blocks_bytes"] <= MAX_LENT * largest
    assert_same(pa.Table.from_batches(kept), expected(table, [SortKey("key", True)]))
    result = dataset.to_arrow()
    del kept
    assert engine.stats()["used_blocks_bytes"] == 0, "a table pins nothing"
    assert result.num_rows == table.num_rows


def test_a_dataset_describes_itself(dataset: xs.Dataset) -> None:
    assert "4 parquet files" in repr(dataset)
    assert "key" in repr(dataset)
    assert dataset.schema.names == ["key", "text", "row_number"]
    bill = dataset.explain()
    assert bill.rows == 20_000
    assert bill.partitions == 6
    assert bill.splits == 1  # which reads all of these small files
    assert bill.slices == bill.splits * bill.partitions
