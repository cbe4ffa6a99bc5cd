"""Slices that are scattered anew: the same rows, in the same order, divided by finer boundaries or other hash bits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle import _native
from exoshuffle.errors import ShuffleCheckError
from tests.unit.native_tables import (
    ascending,
    mixed_table,
    parquet_splits,
    read_ipc,
    rows_of,
    slices,
    sorter,
)


def opened(parts: list[Any], partition: int = 0) -> Any:
    """Slices of some maps, as sections."""
    return _native.Sections(parts, partition, None)


def scattered(made: Any, splits: list[str], assignment: bytes) -> list[list[Any]]:
    """The slices of each partition."""
    blocks = [
        slices(made.scatter([split], index, assignment)) for index, split in enumerate(splits)
    ]
    return [list(parts) for parts in zip(*blocks, strict=True)]


def again(made: Any, parts: list[Any], assignment: bytes, partition: int = 0) -> list[list[Any]]:
    """The slices of each part of one partition; two maps share them."""
    half = len(parts) // 2
    blocks = [
        slices(made.scatter_sections(opened(some, partition), index, assignment))
        for index, some in enumerate((parts[:half], parts[half:]))
    ]
    return [list(found) for found in zip(*blocks, strict=True)]


@pytest.mark.parametrize("keys", [["k"], ["s", "k"], ["b", "t", "ls"]])
def test_ranges_within_a_partition_sort_as_the_partition_does(
    tmp_path: Path, keys: list[str]
) -> None:
    table = mixed_table(3_000)
    made = sorter(table.schema, ascending(*keys))
    splits = parquet_splits(tmp_path, table, 60_000)
    (partition,) = scattered(made, splits, made.choose_boundaries([], 1))
    half = len(partition) // 2
    samples = [
        made.sample_sections(opened(some), index, 500, 0)
        for index, some in enumerate((partition[:half], partition[half:]))
    ]
    parts = again(made, partition, made.choose_boundaries(samples, 6))
    found = [read_ipc(made.sort(opened(part, n))) for n, part in enumerate(parts)]
    assert rows_of(*found) == rows_of(read_ipc(made.sort(opened(partition))))
    assert min(part.num_rows for part in found) > 250


def test_equal_keys_are_divided_by_position(tmp_path: Path) -> None:
    table = pa.table({"k": pa.array([1] * 4_000), "n": pa.array(range(4_000))})
    made = sorter(table.schema, ascending("k"))
    (partition,) = scattered(
        made, parquet_splits(tmp_path, table, 10_000), made.choose_boundaries([], 1)
    )
    parts = again(
        made,
        partition,
        made.choose_boundaries(
            [made.sample_sections(opened(partition[: len(partition) // 2]), 0, 900, 0)], 4
        ),
    )
    found = [read_ipc(made.sort(opened(part, n))) for n, part in enumerate(parts)]
    assert pa.concat_tables(found).column("n").to_pylist() == list(range(4_000))
    assert found[0].num_rows > 100


@pytest.mark.parametrize("keys", [["k"], ["f", "s"], ["v", "n"]])
def test_levels_of_the_hash_divide_a_partition_but_no_key(tmp_path: Path, keys: list[str]) -> None:
    table = mixed_table(3_000)
    made = sorter(table.schema, ascending(*keys))
    first = scattered(made, parquet_splits(tmp_path, table, 60_000), made.hash_assignment(2))
    for number, partition in enumerate(first):
        whole = read_ipc(made.gather(opened(partition, number)))
        parts = [
            read_ipc(made.gather(opened(part, n)))
            for n, part in enumerate(again(made, partition, made.hash_assignment(5, 1), number))
        ]
        assert sorted(rows_of(*parts)) == sorted(rows_of(whole))
        assert sum(part.num_rows > 0 for part in parts) > 3
        seen: dict[str, int] = {}
        for index, part in enumerate(parts):
            for row in part.select(keys).to_pylist():
                key = repr([0.0 if value == 0 else value for value in row.values()])
                assert seen.setdefault(key, index) == index, key


def test_rows_in_random_order_keep_their_numbers(tmp_path: Path) -> None:
    table = mixed_table(2_000)
    made = _native.Sorter.permutation(
        _native.ReadOptions(), table.schema.serialize().to_pybytes(), 5
    )
    splits = parquet_splits(tmp_path, table, 60_000)
    partition = scattered(made, splits, made.choose_boundaries([], 3))[1]
    samples = [made.sample_sections(opened(partition, 1), 0, 300, 0)]
    parts = again(made, partition, made.choose_boundaries(samples, 4), 1)
    found = [read_ipc(made.sort(opened(part, n))) for n, part in enumerate(parts)]
    assert rows_of(*found) == rows_of(read_ipc(made.sort(opened(partition, 1))))
    assert min(part.num_rows for part in found) > 50


def test_records_are_divided_too() -> None:
    made = _native.Sorter.records(_native.ReadOptions(), 100, 10)
    draw = random.Random(3)
    partition = []
    for index, count in enumerate((50, 0, 200, 1)):
        records = pa.array([draw.randbytes(100) for _ in range(count)], pa.binary(100))
        table = pa.table({"record": records})
        whole = made.choose_boundaries([], 1)
        partition += slices(made.scatter_batches(table, index, whole))
    samples = [made.sample_sections(opened(partition), 0, 200, 0)]
    parts = again(made, partition, made.choose_boundaries(samples, 4))
    found = [read_ipc(made.sort(opened(part, n))) for n, part in enumerate(parts)]
    both = [table.column(0).to_pylist() for table in found]
    assert sum(both, []) == read_ipc(made.sort(opened(partition))).column(0).to_pylist()  # noqa: RUF017  four lists


def test_changed_rows_are_refused() -> None:
    table = mixed_table(100)
    made = sorter(table.schema, ascending("k"))
    (slice_,) = slices(made.scatter_batches(table, 0, made.choose_boundaries([], 1)))
    changed = bytearray(slice_)
    changed[60] ^= 1
    for use in (
        lambda sections: made.scatter_sections(sections, 0, made.hash_assignment(3)),
        lambda sections: made.sample_sections(sections, 0, 10, 0),
    ):
        with pytest.raises(ShuffleCheckError, match="map 0"):
            use(opened([changed]))
