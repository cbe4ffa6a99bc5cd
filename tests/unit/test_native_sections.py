"""Sections: slices of several inputs in one partition, told apart by a tag."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pyarrow as pa
import pytest

from exoshuffle import _native
from exoshuffle.errors import InputError, OptionsError
from tests.unit.native_tables import (
    ascending,
    mixed_table,
    parquet_splits,
    read_ipc,
    rows_of,
    slices,
    sorter,
)


def test_inputs_that_share_partitions_are_told_apart(tmp_path: Path) -> None:
    left, right = mixed_table(2_000, seed=1), mixed_table(900, seed=2).select(["s", "k", "v"])
    by_left, by_right = (sorter(table.schema, ascending("k", "s")) for table in (left, right))
    splits = parquet_splits(tmp_path, left, 40_000)
    assert len(splits) > 2
    num_partitions = 50
    assignment = by_left.hash_assignment(num_partitions)
    assert assignment == by_right.hash_assignment(num_partitions)
    blocks = [
        slices(by_left.scatter(split, index, assignment, tag=0))
        for index, split in enumerate(splits)
    ]
    blocks += [
        slices(by_right.scatter_batches(part, index, assignment, 255))
        for index, part in enumerate((right[:500], right[500:]))
    ]
    assert any(part == b"" for block in blocks for part in block), "empty slices have no header"
    lefts, rights = [], []
    partition_of_key: dict[str, int] = {}
    for partition in range(num_partitions):
        parts = [block[partition] for block in blocks]
        merged = b"".join(parts)
        for found in ([merged], parts, [b"", merged, b""]):
            own = _native.sections(found, 0)
            assert [bytes(memoryview(one)) for one in own] == [
                part[16:] for part in parts[: len(splits)] if part
            ]
        lefts.append(read_ipc(by_left.sort(own)))
        gathered = read_ipc(by_left.gather(own))
        assert sorted(rows_of(gathered)) == sorted(rows_of(lefts[-1]))
        assert gathered["id"].to_pylist() == sorted(gathered["id"].to_pylist())
        rights.append(read_ipc(by_right.gather(_native.sections([merged], 255))))
        assert _native.sections([merged], 7) == []
        for key in rows_of(lefts[-1].select(["k", "s"]), rights[-1].select(["k", "s"])):
            assert partition_of_key.setdefault(key, partition) == partition
    assert sorted(rows_of(*lefts)) == sorted(rows_of(left))
    assert sorted(rows_of(*rights)) == sorted(rows_of(right))


def test_sections_lie_in_their_slice_and_keep_it() -> None:
    class Slice(bytearray):
        """Bytes that say when they are gone."""

    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    table = pa.table({"a": range(100)}, schema=schema)
    made = sorter(table.schema)
    content = slices(made.scatter_batches(table, 0, made.round_robin_assignment(1), 3))[0]
    assert len(content) == 16 + 800
    held = Slice(content * 2)
    gone = weakref.ref(held)
    first, second = _native.sections([held], 3)
    assert len(first) == len(second) == 800
    assert memoryview(first).readonly
    held[16] ^= 1
    assert memoryview(first)[0] == 1, "the section is a copy"
    held[16] ^= 1
    del held
    gc.collect()
    assert gone() is not None
    rows = made.gather([first, second])
    del first, second
    assert read_ipc(rows)["a"].to_pylist() == [*range(100), *range(100)]
    assert gone() is not None
    del rows
    gc.collect()
    assert gone() is None


def test_damaged_sections_are_refused() -> None:
    table = mixed_table(10)
    made = sorter(table.schema)
    [content] = slices(made.scatter_batches(table, 0, made.round_robin_assignment(1), 1))
    padded = bytearray(content)
    padded[3] = 1
    for damaged in (content[:-1], content[:9], bytes(padded), content + b"\0"):
        with pytest.raises(InputError, match="slice is corrupt at byte"):
            _native.sections([content, damaged], 1)
    records = _native.Sorter.records("{}", 8, 2)
    rows = pa.table({"record": pa.array([b"x" * 8], pa.binary(8))})
    with pytest.raises(OptionsError, match="tag 4"):
        records.scatter_batches(rows, 0, records.choose_boundaries([], 1), 4)
