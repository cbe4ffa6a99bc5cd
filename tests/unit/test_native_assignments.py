"""Assignments of the native sorter: which partition rows go to."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from exoshuffle import _native
from exoshuffle.errors import InputError, OptionsError, ShuffleCheckError
from tests.unit.native_tables import (
    ascending,
    mixed_table,
    opened,
    parquet_splits,
    read_ipc,
    rows_of,
    slices,
    sorter,
)


def partitions(
    made: _native.Sorter, splits: list[_native.Split], assignment: bytes
) -> list[pa.Table]:
    """The rows of each partition, after a shuffle of all splits."""
    blocks = [
        slices(made.scatter([split], index, assignment)) for index, split in enumerate(splits)
    ]
    return [
        read_ipc(made.sort(opened(parts, partition)))
        for partition, parts in enumerate(zip(*blocks, strict=True))
    ]


@pytest.mark.parametrize("keys", [["k"], ["f"], ["s"], ["d"], ["v", "n"], ["b", "t", "ls"]])
def test_hashing_keeps_equal_keys_together(tmp_path: Path, keys: list[str]) -> None:
    table = mixed_table(3_000)
    made = sorter(table.schema, ascending(*keys))
    splits = parquet_splits(tmp_path, table, 60_000)
    assert len(splits) > 3
    parts = partitions(made, splits, made.hash_assignment(7))
    assert len(parts) == 7
    assert sorted(rows_of(*parts)) == sorted(rows_of(table))
    # NaN compares unequal to itself, and 0.0 is -0.0.
    seen: dict[str, int] = {}
    for index, part in enumerate(parts):
        for row in part.select(keys).to_pylist():
            key = repr([0.0 if value == 0 else value for value in row.values()])
            assert seen.setdefault(key, index) == index, key


def test_dealing_in_turn_needs_no_keys(tmp_path: Path) -> None:
    table = mixed_table(3_000)
    made = sorter(table.schema)
    splits = parquet_splits(tmp_path, table, 60_000)
    parts = partitions(made, splits, made.round_robin_assignment(8))
    counts = [part.num_rows for part in parts]
    assert sum(counts) == 3_000
    assert max(counts) - min(counts) <= len(splits)
    assert sorted(rows_of(*parts)) == sorted(rows_of(table))


def test_gathering_keeps_the_order_of_the_slices() -> None:
    tables = [mixed_table(700, seed) for seed in (1, 2, 3)]
    keyed = sorter(tables[0].schema, ascending("k"))
    for made in (keyed, sorter(tables[0].schema)):
        blocks = [
            slices(made.scatter_batches(table, index, made.round_robin_assignment(3)))
            for index, table in enumerate(tables)
        ]
        for part in range(3):
            rows = read_ipc(made.gather(opened([block[part] for block in blocks], part)))
            alone = [
                read_ipc(made.gather(opened([block[part]], part, first=index)))
                for index, block in enumerate(blocks)
            ]
            assert rows_of(rows) == rows_of(*alone)
            merged = b"".join(block[part] for block in blocks)
            assert rows_of(read_ipc(made.gather(opened([merged], part)))) == rows_of(rows)
            for one in alone:
                assert one["id"].to_pylist() == sorted(one["id"].to_pylist())
    assert read_ipc(keyed.gather(opened([]))).equals(tables[0].slice(0, 0))
    with pytest.raises(ShuffleCheckError, match="a section is cut off"):
        opened([blocks[0][0][:-1]])
    other = sorter(pa.schema({"s": pa.string(), "l": pa.list_(pa.int8())}))
    with pytest.raises(ShuffleCheckError, match="rows of map 0"):
        other.gather(opened([blocks[0][0]]))
    with pytest.raises(OptionsError, match="only sort"):
        _native.Sorter.records(_native.ReadOptions(), 100, 10).gather(opened([]))


def test_bad_assignments_are_refused(tmp_path: Path) -> None:
    table = mixed_table(10)
    made = sorter(table.schema, ascending("k"))
    with pytest.raises(OptionsError, match="name the columns to hash"):
        sorter(table.schema).hash_assignment(3)
    for count in (0, (1 << 20) + 1):
        with pytest.raises(OptionsError, match=f"{count} partitions"):
            made.hash_assignment(count)
        with pytest.raises(OptionsError, match=f"{count} partitions"):
            made.round_robin_assignment(count)
    [split] = parquet_splits(tmp_path, table, 1_000_000)
    for damaged in (b"", b"\x07", made.hash_assignment(3)[:-1], made.hash_assignment(3) + b"\0"):
        with pytest.raises(InputError, match="assignment cannot be read"):
            made.scatter([split], 0, damaged)
    records = _native.Sorter.records(_native.ReadOptions(), 100, 10)
    for assign in (records.hash_assignment, records.round_robin_assignment):
        with pytest.raises(OptionsError, match="only sort"):
            assign(3)


def test_equal_ranges_are_of_numbers(tmp_path: Path) -> None:
    numbers = [0, 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
    schema = pa.schema([pa.field("n", pa.uint64(), nullable=False)])
    table = pa.table([pa.array(numbers, pa.uint64())], schema=schema)
    made = sorter(schema, ascending("n"))
    splits = parquet_splits(tmp_path, table, 60_000)
    parts = partitions(made, splits, made.even_assignment(4))
    assert [part["n"].to_pylist() for part in parts] == [
        [number for number in numbers if number * 4 >> 64 == part] for part in range(4)
    ]
    with pytest.raises(OptionsError, match="uint64 without nulls"):
        sorter(pa.schema([("n", pa.uint64())]), ascending("n")).even_assignment(4)
    with pytest.raises(OptionsError, match="partitions"):
        made.even_assignment(0)
