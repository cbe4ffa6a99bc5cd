"""Random order: every row once, the same for a seed however the input is cut, and no order left of the old one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle import _native
from exoshuffle.errors import OptionsError, SchemaError
from tests.unit.native_tables import mixed_table, opened, read_ipc, rows_of, slices

#: Where nothing is read from files, or all by default.
PLAIN = _native.ReadOptions()


def permutation(
    schema: pa.Schema, seed: int, options: _native.ReadOptions = PLAIN
) -> _native.Sorter:
    """A sorter of rows in random order."""
    return _native.Sorter.permutation(options, schema.serialize().to_pybytes(), seed)


def shuffled(
    made: _native.Sorter, splits: list[_native.Split], num_partitions: int
) -> list[pa.Table]:
    """The partitions of a shuffle of all splits."""
    assignment = made.choose_boundaries([], num_partitions)
    blocks = [
        slices(made.scatter([split], index, assignment)) for index, split in enumerate(splits)
    ]
    return [
        read_ipc(made.sort(opened(parts, partition)))
        for partition, parts in enumerate(zip(*blocks, strict=True))
    ]


def write(directory: Path, suffix: str, tables: list[pa.Table]) -> list[str]:
    """A file of each table, in small groups."""
    paths = []
    for index, table in enumerate(tables):
        path = directory / f"part-{index}.{suffix}"
        if suffix == "parquet":
            pq.write_table(table, path, row_group_size=300)
        elif suffix == "arrow":
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=300)
        else:
            path.write_bytes(b"".join(table["record"].to_pylist()))
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "dat"])
def test_the_order_depends_on_the_seed_and_not_on_the_splits(tmp_path: Path, suffix: str) -> None:
    options = _native.ReadOptions()
    tables = [mixed_table(1_000, seed=i) for i in range(3)]
    if suffix == "dat":
        options = _native.ReadOptions(format="records", record_bytes=100)
        records = [b"%0100d" % i for i in range(3_000)]
        tables = [
            pa.table({"record": pa.array(records[i : i + 1000], pa.binary(100))})
            for i in range(0, 3_000, 1000)
        ]
    source = _native.Source(write(tmp_path, suffix, tables), options)
    schema = pa.ipc.read_schema(pa.py_buffer(source.schema_ipc))
    orders = []
    for seed, split_bytes, num_partitions in [
        (1, 1 << 30, 1),
        (1, 20_000, 5),
        (1, 7_777, 3),
        (2, 7_777, 3),
    ]:
        splits = source.splits(split_bytes)
        parts = shuffled(permutation(schema, seed, options), splits, num_partitions)
        assert all(part.schema.equals(schema) for part in parts)
        orders.append(rows_of(*parts))
        counts = [part.num_rows for part in parts]
        assert max(counts) - min(counts) < 250, counts
    assert len(source.splits(7_777)) > 9
    assert sorted(orders[0]) == sorted(rows_of(*tables))
    assert orders[0] == orders[1] == orders[2]
    assert orders[0] != orders[3]
    assert sorted(orders[0]) == sorted(orders[3])


def test_nothing_is_left_of_the_old_order(tmp_path: Path) -> None:
    num_rows, cells = 40_000, 20
    table = pa.table({"n": pa.array(range(num_rows), pa.int64())})
    source = _native.Source(write(tmp_path, "parquet", [table]), _native.ReadOptions())
    parts = shuffled(permutation(table.schema, 9), source.splits(50_000), 4)
    order = pa.concat_tables(parts)["n"].to_pylist()
    counts = [0] * cells**2
    for now, before in enumerate(order):
        counts[now * cells // num_rows * cells + before * cells // num_rows] += 1
    mean = num_rows / cells**2
    chi_square = sum((count - mean) ** 2 / mean for count in counts)
    degrees = (cells - 1) ** 2
    assert abs(chi_square - degrees) < 5 * (2 * degrees) ** 0.5


def test_lines_are_permuted_too(tmp_path: Path) -> None:
    path = tmp_path / "lines.csv"
    path.write_text("n\n" + "".join(f"{i}\n" for i in range(20_000)))
    source = _native.Source([str(path)], _native.ReadOptions())
    schema = pa.ipc.read_schema(pa.py_buffer(source.schema_ipc))
    splits = source.splits(20_000)
    assert len(splits) > 3
    first, again = (shuffled(permutation(schema, 3), splits, 3) for _ in range(2))
    assert rows_of(*first) == rows_of(*again)
    order = [row for part in first for row in part["n"].to_pylist()]
    assert sorted(order) == list(range(20_000))
    assert order[:100] != sorted(order[:100])


def test_batches_are_told_apart_by_their_number() -> None:
    table = mixed_table(500)
    made = permutation(table.schema, 4)
    everything = made.choose_boundaries([], 1)

    def order(index: int, batches: pa.Table) -> list[str]:
        [content] = slices(made.scatter_batches(batches, index, everything))
        return rows_of(read_ipc(made.sort(opened([content], first=index))))

    whole = order(0, table)
    assert sorted(whole) == sorted(rows_of(table))
    assert whole == order(0, pa.concat_tables([table[:123], table[123:]]))
    assert whole != order(1, table)


def test_sampling_and_measuring_work_as_for_tables(tmp_path: Path) -> None:
    table = mixed_table(1_000)
    source = _native.Source(write(tmp_path, "parquet", [table]), _native.ReadOptions())
    [split] = source.splits(1 << 30)
    made = permutation(table.schema, 4)
    assert made.sample([split], 0, 10, 0) == made.sample_batches(table, 0, 10, 0) == b""
    assert made.choose_boundaries([b""], 3) == made.choose_boundaries([], 3)
    rows, num_bytes, *_ = made.measure([split], 100, 0)
    plain = _native.Sorter.table(_native.ReadOptions(), table.schema.serialize().to_pybytes(), [])
    assert plain.measure([split], 100, 0)[:2] == (rows, num_bytes - 8 * rows)
    with pytest.raises(OptionsError, match="can only sort"):
        made.hash_assignment(3)
    with pytest.raises(OptionsError, match="can only sort"):
        made.gather(opened([]))
    with pytest.raises(OptionsError, match="0 partitions"):
        made.choose_boundaries([], 0)
    with pytest.raises(SchemaError):
        made.scatter_batches(table.select(["id"]), 0, made.choose_boundaries([], 1))
