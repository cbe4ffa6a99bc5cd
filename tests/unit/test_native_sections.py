"""Sections: what maps say of their slices is held against what comes out of them."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle import _native
from exoshuffle.errors import ShuffleCheckError
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

HEADER_BYTES = 40


def test_inputs_that_share_partitions_are_told_apart(tmp_path: Path) -> None:
    left, right = mixed_table(2_000, seed=1), mixed_table(900, seed=2).select(["s", "k", "v"])
    by_left, by_right = (sorter(table.schema, ascending("k", "s")) for table in (left, right))
    splits = parquet_splits(tmp_path, left, 40_000)
    assert len(splits) > 2
    num_partitions = 50
    assignment = by_left.hash_assignment(num_partitions)
    assert assignment == by_right.hash_assignment(num_partitions)
    blocks = [
        slices(by_left.scatter([split], index, assignment, tag=0))
        for index, split in enumerate(splits)
    ]
    blocks += [
        slices(by_right.scatter_batches(part, index, assignment, 255))
        for index, part in enumerate((right[:500], right[500:]), len(splits))
    ]
    sizes = [len(part) for block in blocks for part in block]
    assert min(sizes) == HEADER_BYTES, "slices without rows say so"
    lefts, rights = [], []
    partition_of_key: dict[str, int] = {}
    for partition in range(num_partitions):
        parts = [block[partition] for block in blocks]
        merged = b"".join(parts)
        for found in ([merged], parts, [b"", merged, b""]):
            sections = opened(found, partition)
            assert len(sections) == len(splits) + 2
            by_key = read_ipc(by_left.sort(sections))
            gathered = read_ipc(by_left.gather(sections, 0))
            if by_key.num_rows:
                with pytest.raises(ShuffleCheckError, match="did not hand on all of them"):
                    opened(found, partition).check()
            others = read_ipc(by_right.gather(sections, 255))
            sections.check()
        assert sorted(rows_of(gathered)) == sorted(rows_of(by_key))
        assert gathered["id"].to_pylist() == sorted(gathered["id"].to_pylist())
        lefts.append(by_key)
        rights.append(others)
        assert read_ipc(by_right.gather(sections, 7)).num_rows == 0
        for key in rows_of(by_key.select(["k", "s"]), others.select(["k", "s"])):
            assert partition_of_key.setdefault(key, partition) == partition
    assert sorted(rows_of(*lefts)) == sorted(rows_of(left))
    assert sorted(rows_of(*rights)) == sorted(rows_of(right))


def test_rows_stay_where_they_are_and_keep_their_slices() -> None:
    class Slice(bytearray):
        """Bytes that say when they are gone."""

    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    table = pa.table({"a": range(100)}, schema=schema)
    made = sorter(table.schema)
    parts = [
        slices(made.scatter_batches(table, index, made.round_robin_assignment(1)))[0]
        for index in range(2)
    ]
    assert {len(part) for part in parts} == {HEADER_BYTES + 800}
    held = Slice(b"".join(parts))
    gone = weakref.ref(held)
    sections = opened([held])
    rows = made.gather(sections)
    assert read_ipc(rows)["a"].to_pylist() == [*range(100), *range(100)]
    sections.check()
    assert sections.failure is None
    held[HEADER_BYTES] ^= 1
    with pytest.raises(ShuffleCheckError, match="rows of map 0 that are not those"):
        read_ipc(rows)
    assert sections.failure is not None
    del held, sections
    gc.collect()
    assert gone() is not None
    del rows
    gc.collect()
    assert gone() is None


def record_maps() -> tuple[_native.Sorter, list[bytes]]:
    """A sorter of records, and what three maps send to one partition."""
    made = _native.Sorter.records(_native.ReadOptions(), 20, 4)
    everything = made.choose_boundaries([], 1)
    chosen = random.Random(5)
    tables = [
        pa.table({"record": pa.array([chosen.randbytes(20) for _ in range(300)], pa.binary(20))})
        for _ in range(3)
    ]
    return made, [
        slices(made.scatter_batches(table, index, everything))[0]
        for index, table in enumerate(tables)
    ]


def table_maps(make: Callable[[pa.Schema], _native.Sorter]) -> tuple[_native.Sorter, list[bytes]]:
    """The same of a table with nested columns."""
    tables = [mixed_table(300, seed) for seed in range(3)]
    made = make(tables[0].schema)
    everything = made.choose_boundaries([], 1)
    return made, [
        slices(made.scatter_batches(table, index, everything))[0]
        for index, table in enumerate(tables)
    ]


def by_keys(schema: pa.Schema) -> _native.Sorter:
    return sorter(schema, ascending("s", "k"))


def by_chance(schema: pa.Schema) -> _native.Sorter:
    return _native.Sorter.permutation(_native.ReadOptions(), schema.serialize().to_pybytes(), 3)


MAPS: dict[str, Callable[[], tuple[_native.Sorter, list[bytes]]]] = {
    "records": record_maps,
    "table": lambda: table_maps(by_keys),
    "permutation": lambda: table_maps(by_chance),
}


def hand_on(made: _native.Sorter, parts: list[Any]) -> pa.Table:
    """The rows of a partition, sorted, all of them checked."""
    sections = _native.Sections(parts, 0, 0, 3)
    rows = read_ipc(made.sort(sections))
    sections.check()
    return rows


@pytest.mark.parametrize("kind", MAPS)
def test_changed_bytes_are_found_and_the_map_is_named(kind: str) -> None:
    made, parts = MAPS[kind]()
    assert hand_on(made, parts).num_rows == 900
    chosen = random.Random(7)
    for _ in range(60):
        index = chosen.randrange(3)
        changed = bytearray(parts[index])
        at = chosen.randrange(HEADER_BYTES, len(changed))
        changed[at] ^= 1 << chosen.randrange(8)
        with pytest.raises(ShuffleCheckError, match=f"rows of map {index} that are not those"):
            hand_on(made, [*parts[:index], changed, *parts[index + 1 :]])


@pytest.mark.parametrize("kind", MAPS)
def test_outputs_of_maps_come_each_once_and_in_order(kind: str) -> None:
    made, parts = MAPS[kind]()
    a, b, c = parts
    for given, words in (
        ([a, b], "did not get the output of map 2"),
        ([a, c], "did not get the output of map 1"),
        ([], "did not get the output of 3 maps, the first of them map 0"),
        ([a, b, b, c], "got the output of map 1 twice"),
        ([a, a, c], "got the output of map 0 twice"),
        ([b, a, c], "got the output of map 0 behind that of map 1"),
    ):
        for slices_ in (given, [b"".join(given)]):
            with pytest.raises(ShuffleCheckError, match=words):
                hand_on(made, slices_)
    with pytest.raises(ShuffleCheckError, match="map 2, and there are only the maps 0 to 1"):
        _native.Sections(parts, 0, 0, 2)
    assert len(_native.Sections([b, c], 0, 1)) == 2
    with pytest.raises(ShuffleCheckError, match="map 1"):
        _native.Sections([a, c])
    with pytest.raises(ShuffleCheckError, match="got the output of map 0 for partition 0"):
        _native.Sections(parts, 7, 0, 3)


def test_damaged_headers_are_refused() -> None:
    made, parts = MAPS["table"]()
    for damaged in (parts[0][:-1], parts[0][:9], parts[0] + b"\0"):
        with pytest.raises(ShuffleCheckError, match="cannot tell its slice 0 apart"):
            hand_on(made, [damaged, *parts[1:]])
    for at in range(HEADER_BYTES):
        changed = bytearray(parts[2])
        changed[at] ^= 4
        with pytest.raises(ShuffleCheckError, match="slice 2 apart at byte 0: the header"):
            hand_on(made, [*parts[:2], changed])


def test_rows_that_nobody_took_are_missed() -> None:
    made, parts = MAPS["table"]()
    sections = opened(parts)
    reader = pa.RecordBatchReader.from_stream(made.sort(sections))
    assert reader.read_next_batch().num_rows == 900
    with pytest.raises(ShuffleCheckError, match="got 900 rows from the maps and did not hand on"):
        sections.check()
