"""Arrow batches in and out of the native module: every type, nothing copied, nothing left behind."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle import _native
from exoshuffle.errors import CorruptFileError, InputError, OptionsError, SchemaError
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


def stream(rows: _native.Rows) -> pa.Table:
    """All rows, through Arrow's protocol."""
    return pa.RecordBatchReader.from_stream(rows).read_all()


def ipc_bytes(table: pa.Table) -> bytes:
    """An Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def in_batches(table: pa.Table, num_rows: int) -> pa.RecordBatchReader:
    """A stream that can be read once, whose columns are parts of larger ones."""
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(num_rows))


def one_partition(made: _native.Sorter, batches: Any) -> _native.Rows:
    """The batches, sorted, through one partition."""
    return made.sort(
        opened(slices(made.scatter_batches(batches, 0, made.choose_boundaries([], 1))))
    )


def test_batches_go_in_and_come_out_with_their_types() -> None:
    table = mixed_table(2_000)
    made = sorter(table.schema, ascending("id"))
    for batches in (table, in_batches(table, 77), table.to_batches()[0]):
        rows = one_partition(made, batches)
        for _ in range(2):
            result = stream(rows)
            assert result.schema.equals(table.schema)
            assert rows_of(result) == rows_of(table)
        assert rows_of(read_ipc(rows)) == rows_of(table)


def test_scattering_batches_is_scattering_the_split_of_them(tmp_path: Path) -> None:
    table = mixed_table(2_500, seed=1)
    made = sorter(table.schema, ascending("s", "k"))
    splits = parquet_splits(tmp_path, table, 50_000)
    tables = [
        stream(
            _native.Rows.scan(_native.ReadOptions(), table.schema.serialize().to_pybytes(), [split])
        )
        for split in splits
    ]
    assert rows_of(*tables) == rows_of(table)
    samples = [made.sample_batches(part, i, 40, 7) for i, part in enumerate(tables)]
    assert samples == [made.sample_batches(part, i, 40, 7) for i, part in enumerate(tables)]
    for assignment in (made.choose_boundaries(samples, 5), made.hash_assignment(5)):
        for index, (split, part) in enumerate(zip(splits, tables, strict=True)):
            from_file = slices(made.scatter([split], index, assignment))
            assert slices(made.scatter_batches(part, index, assignment)) == from_file
            assert sum(len(one) > 40 for one in from_file) > 1


def test_boundaries_of_sampled_batches_are_even() -> None:
    table = pa.table({"k": pa.array(range(10_000), pa.int64())})
    made = sorter(table.schema, ascending("k"))
    for num_rows in (64, 400, 20_000):
        samples = [
            made.sample_batches(table.slice(i * 5_000, 5_000), i, num_rows, 3) for i in (0, 1)
        ]
        offsets = made.scatter_batches(table, 0, made.choose_boundaries(samples, 4)).offsets
        shares = [(b - a - 40) / 80_000 for a, b in itertools.pairwise(offsets)]
        assert all(0.2 < share < 0.3 for share in shares), shares


def test_polars_and_other_variants_of_a_type_are_taken() -> None:
    table = pa.table({"k": pa.array(["b", None, "a word of more than twelve bytes"], pa.string())})
    made = sorter(table.schema, ascending("k"))
    frame = pl.DataFrame({"k": ["b", None, "a word of more than twelve bytes"]})
    expected = ["a word of more than twelve bytes", "b", None]
    assert stream(one_partition(made, frame))["k"].to_pylist() == expected
    dictionary = table.set_column(0, "k", table["k"].dictionary_encode())
    for kind in (pa.large_string(), pa.string_view()):
        assert (
            stream(one_partition(made, table.cast(pa.schema({"k": kind}))))["k"].to_pylist()
            == expected
        )
    result = stream(one_partition(made, dictionary))
    assert result["k"].to_pylist() == expected
    assert result.schema.equals(table.schema)


def test_other_columns_are_refused_by_name() -> None:
    made = sorter(pa.schema({"a": pa.int64(), "b": pa.int64()}), ascending("a"))
    everything = made.choose_boundaries([], 1)
    swapped = pa.table({"b": [1], "a": [2]})
    empty = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    with pytest.raises(SchemaError, match=r"columns \(b, a\) where \(a, b\)"):
        made.scatter_batches(swapped, 0, everything)
    for call in (
        lambda: made.scatter_batches(empty, 0, everything),
        lambda: _native.Sorter.records(_native.ReadOptions(), 8, 2).scatter_batches(
            pa.table({"record": pa.array([b"x" * 9], pa.binary(9))}), 0, b""
        ),
    ):
        with pytest.raises(SchemaError):
            call()
    with pytest.raises(OptionsError, match="__arrow_c_stream__"):
        made.scatter_batches([1, 2], 0, everything)
    filled = sorter(pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    with pytest.raises(InputError, match="not nullable"):
        filled.scatter_batches(pa.table({"a": [1, None]}), 0, everything)


def test_errors_of_a_stream_arrive() -> None:
    schema = pa.schema({"a": pa.int64()})

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise RuntimeError("the source ran dry")

    made = sorter(schema)
    with pytest.raises(InputError, match="ran dry"):
        made.scatter_batches(
            pa.RecordBatchReader.from_batches(schema, failing()), 0, made.round_robin_assignment(1)
        )


def test_records_come_out_as_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "records.dat"
    path.write_bytes(bytes((i * 7919) % 251 for i in range(100 * 30_000)))
    options = _native.ReadOptions(format="records", record_bytes=100, key_bytes=10)
    source = _native.Source([str(path)], options)
    made = _native.Sorter.records(options, 100, 10)
    everything = made.choose_boundaries([], 1)
    splits = source.splits(1_000_000)
    blocks = [slices(made.scatter([split], i, everything))[0] for i, split in enumerate(splits)]
    rows = made.sort(opened(blocks))
    data = path.read_bytes()
    expected = sorted((data[i : i + 100] for i in range(0, len(data), 100)), key=lambda r: r[:10])
    for _ in range(2):
        assert stream(rows)["record"].to_pylist() == expected
    scanned = [_native.Rows.scan(options, source.schema_ipc, [split]) for split in splits]
    tables = [stream(rows) for rows in scanned]
    again = [slices(made.scatter_batches(part, i, everything))[0] for i, part in enumerate(tables)]
    assert again == blocks


def test_a_scan_of_some_columns_has_these_in_this_order(tmp_path: Path) -> None:
    table = mixed_table(1_500, seed=2)
    schema = table.schema.serialize().to_pybytes()
    [split] = parquet_splits(tmp_path, table, 1 << 30)
    for columns in (["s", "id", "l"], ["d"], list(reversed(table.column_names))):
        result = stream(_native.Rows.scan(_native.ReadOptions(), schema, [split], columns))
        assert result.schema.names == columns
        assert rows_of(result) == rows_of(table.select(columns))
    assert stream(_native.Rows.scan(_native.ReadOptions(), schema, [split], [])).num_rows == 1_500
    with pytest.raises(SchemaError, match="no column 'x'"):
        _native.Rows.scan(_native.ReadOptions(), schema, [split], ["x"])


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "arrow"])
def test_other_formats_scan_some_columns_too(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table.{suffix}"
    if suffix == "csv":
        path.write_text("a,b,c\n" + "".join(f"{i},x{i},{i / 2}\n" for i in range(50)))
    elif suffix == "jsonl":
        path.write_text("".join(f'{{"a":{i},"b":"x{i}","c":{i / 2}}}\n' for i in range(50)))
    else:
        rows = {"a": range(50), "b": [f"x{i}" for i in range(50)], "c": [i / 2 for i in range(50)]}
        table = pa.table({name: pa.array(list(values)) for name, values in rows.items()})
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    source = _native.Source([str(path)], _native.ReadOptions())
    [split] = source.splits(1 << 30)
    result = stream(
        _native.Rows.scan(_native.ReadOptions(), source.schema_ipc, [split], ["c", "a"])
    )
    assert result.to_pydict() == {"c": [i / 2 for i in range(50)], "a": list(range(50))}


def test_files_fail_when_they_are_opened_and_when_they_are_read(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(range(200_000), pa.int64())})
    path = tmp_path / "table.parquet"
    pq.write_table(table, path, compression="snappy", use_dictionary=False)
    source = _native.Source([str(path)], _native.ReadOptions())
    [split] = source.splits(1 << 30)
    rows = _native.Rows.scan(_native.ReadOptions(), source.schema_ipc, [split])
    content = bytearray(path.read_bytes())
    path.unlink()
    with pytest.raises(InputError, match=r"table\.parquet"):
        pa.RecordBatchReader.from_stream(rows)
    content[700_000:700_100] = bytes(100)
    path.write_bytes(content)
    source = _native.Source([str(path)], _native.ReadOptions())
    [split] = source.splits(1 << 30)
    rows = _native.Rows.scan(_native.ReadOptions(), source.schema_ipc, [split])
    reader = pa.RecordBatchReader.from_stream(rows)
    with pytest.raises(pa.ArrowException, match=r"table\.parquet"):
        reader.read_all()
    with pytest.raises(CorruptFileError):
        rows.to_ipc_stream()


def test_rows_of_a_stream_are_taken_once(tmp_path: Path) -> None:
    table = mixed_table(3_000, seed=3).drop_columns(["v"])
    options = _native.WriteOptions("parquet", compression="zstd")
    rows = _native.Rows.from_batches(in_batches(table, 999))
    [file] = rows.write_files(str(tmp_path), 0, options).wait()
    assert file["rows"] == 3_000
    assert rows_of(pq.read_table(tmp_path / file["name"])) == rows_of(table)
    for take in (rows.to_ipc_stream, rows.__arrow_c_stream__):
        with pytest.raises(InputError, match="read once"):
            take()
    assert rows_of(read_ipc(_native.Rows.from_batches(table))) == rows_of(table)
    assert rows_of(stream(_native.Rows.from_batches(table))) == rows_of(table)


def test_an_ipc_stream_is_read_where_it_lies() -> None:
    table = mixed_table(3_000, seed=4)
    content = ipc_bytes(table)
    rows = _native.Rows.from_ipc(memoryview(content))
    for _ in range(2):
        result = stream(rows)
        assert result.schema.equals(table.schema)
        assert rows_of(result) == rows_of(table)
    numbers = pa.table({"a": pa.array(range(100_000), pa.int64())})
    content = ipc_bytes(numbers)
    block = pa.py_buffer(content)
    [chunk] = stream(_native.Rows.from_ipc(content))["a"].chunks[:1]
    address = chunk.buffers()[1].address
    assert block.address <= address < block.address + block.size, "the values were copied"
    empty = table.slice(0, 0)
    assert stream(_native.Rows.from_ipc(ipc_bytes(empty))).equals(empty)


@pytest.mark.parametrize(
    ("num_rows", "seed"),
    [*((num_rows, seed) for num_rows in (0, 1, 7, 5_000) for seed in range(4)), (70_000, 0)],
)
def test_a_stream_is_made_in_its_block(num_rows: int, seed: int) -> None:
    """Of types whose size is known from their rows; the block is hardly larger than the stream."""
    some = mixed_table(1_000, seed).drop_columns(["d", "l"])
    table = pa.concat_tables([some] * (num_rows // 1_000 + 1)).slice(0, num_rows)
    table = table.append_column("z", pa.nulls(num_rows))
    rows = one_partition(sorter(table.schema, ascending("s", "n")), table)
    made = rows.to_ipc_stream()
    block = bytearray(b"\xff" * made.num_bytes)
    made.write_into(block)
    source = pa.BufferReader(block)
    with pa.ipc.open_stream(source) as reader:
        result = reader.read_all()
    read = rows_of(result)
    assert read == rows_of(stream(rows))
    assert result.schema.equals(table.schema)
    assert rows_of(stream(_native.Rows.from_ipc(block))) == read
    rest = bytes(block[source.tell() :])
    assert not any(rest)
    assert len(rest) < 10_000 + 0.02 * len(block)
    with pytest.raises(ValueError, match="was written"):
        made.write_into(block)


def view_table(num_rows: int) -> pa.Table:
    """Texts that no view holds, and some that views do, as views."""
    texts = [
        f"a text that no view holds {i:08}" if i % 3 else f"short {i}" for i in range(num_rows)
    ]
    return pa.table({"id": pa.array(range(num_rows)), "v": pa.array(texts, pa.string_view())})


def buffer_bytes(batches: list[pa.RecordBatch]) -> int:
    """The bytes of all buffers, counted for each batch that keeps them."""
    buffers = (buffer for batch in batches for column in batch for buffer in column.buffers())
    return sum(buffer.size for buffer in buffers if buffer is not None)


def test_batches_of_views_keep_the_bytes_of_their_own_rows_alone() -> None:
    table = view_table(60_000)
    rows = one_partition(sorter(table.schema, ascending("id")), table)
    batches = stream(rows).to_batches()
    assert len(batches) > 5
    assert buffer_bytes(batches) < 1.1 * buffer_bytes(table.combine_chunks().to_batches())
    assert rows_of(*map(pa.Table.from_batches, ([batch] for batch in batches))) == rows_of(table)


def test_streams_of_parts_of_views_keep_the_bytes_of_their_rows_alone() -> None:
    """Joins and functions hand on batches that were cut from larger ones."""
    table = view_table(20_000)
    parts = _native.Rows.from_batches(in_batches(table, 1_000))
    blocks = []
    for made in parts.to_ipc_streams(200_000):
        blocks.append(bytearray(made.num_bytes))
        made.write_into(blocks[-1])
    assert len(blocks) > 2
    assert sum(map(len, blocks)) < 1.2 * buffer_bytes(table.combine_chunks().to_batches())
    read = [pa.ipc.open_stream(bytes(block)).read_all() for block in blocks]
    assert rows_of(*read) == rows_of(table)


def test_numbers_of_a_permutation_take_no_room() -> None:
    table = pa.table({"a": pa.array(range(50_000), pa.int64())})
    made = _native.Sorter.permutation(
        _native.ReadOptions(), table.schema.serialize().to_pybytes(), 1
    )
    rows = one_partition(made, table)
    assert table.nbytes < rows.to_ipc_stream().num_bytes < 1.05 * table.nbytes + 2_000
    assert sorted(read_ipc(rows)["a"].to_pylist()) == table["a"].to_pylist()


def test_a_damaged_ipc_stream_is_an_error() -> None:
    content = ipc_bytes(mixed_table(100, seed=5))
    for damaged in (b"", b"no stream at all", content[:40]):
        with pytest.raises(InputError, match="Arrow stream cannot be read"):
            _native.Rows.from_ipc(damaged)
    failed = 0
    for cut in range(len(content) // 2, len(content) - 9, 101):
        with pytest.raises(InputError):
            _native.Rows.from_ipc(content[:cut]).to_ipc_stream()
    for at in range(0, len(content), 37):
        flipped = bytearray(content)
        flipped[at] ^= 0xFF
        try:
            _native.Rows.from_ipc(bytes(flipped)).to_ipc_stream()
        except InputError:
            failed += 1
    assert failed > 0


class Slice(bytearray):
    """Bytes that say when they are gone."""


def test_a_stream_keeps_its_slices_and_lets_them_go() -> None:
    table = mixed_table(20_000, seed=6)
    made = sorter(table.schema, ascending("k"))
    [content] = slices(made.scatter_batches(table, 0, made.choose_boundaries([], 1)))
    block = Slice(content)
    gone = weakref.ref(block)
    rows = made.sort(opened([block]))
    reader = pa.RecordBatchReader.from_stream(rows)
    del rows, block
    gc.collect()
    first = reader.read_next_batch()
    assert gone() is not None
    del reader
    gc.collect()
    assert first.num_rows > 0
    del first
    gc.collect()
    assert gone() is None
    block = Slice(content)
    gone = weakref.ref(block)
    capsule = made.sort(opened([block])).__arrow_c_stream__()
    assert '"arrow_array_stream"' in repr(capsule)
    del capsule, block
    gc.collect()
    assert gone() is None, "a stream that nobody took was not released"


def test_threads_read_streams_at_the_same_time() -> None:
    table = mixed_table(30_000, seed=7)
    made = sorter(table.schema, ascending("s"))
    [content] = slices(made.scatter_batches(table, 0, made.choose_boundaries([], 1)))
    rows = made.sort(opened([bytearray(content)]))
    expected = stream(rows).num_rows
    found: list[int] = []

    def read() -> None:
        found.append(sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(rows)))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert found == [expected] * 8


def test_duckdb_reads_a_stream() -> None:
    from exoshuffle.operators.sql.relational import query

    table = mixed_table(5_000, seed=8).select(["k", "id"])
    rows = one_partition(sorter(table.schema, ascending("k")), table)
    batches = pa.RecordBatchReader.from_stream(rows)
    [row] = query("select count(*) as n, sum(id) as s from t", t=batches).read_all().to_pylist()
    assert row == {"n": 5_000, "s": sum(range(5_000))}


@pytest.mark.parametrize(
    ("kind", "in_place"),
    [
        (pa.bool_(), True),
        (pa.decimal128(10, 2), True),
        (pa.large_string(), True),
        (pa.null(), True),
        (pa.string_view(), True),
        (pa.binary_view(), True),
        (pa.dictionary(pa.int32(), pa.string()), False),
        (pa.list_(pa.int8()), True),
        (pa.large_list(pa.int8()), True),
        (pa.list_(pa.int8(), 3), True),
        (pa.list_(pa.string()), False),
    ],
)
def test_streams_whose_size_is_known_are_made_in_place(kind: pa.DataType, in_place: bool) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", kind)])
    assert sorter(schema, ascending("k")).streams_in_place == in_place
    encoded = schema.serialize().to_pybytes()
    assert (
        _native.Sorter.permutation(_native.ReadOptions(), encoded, 1).streams_in_place == in_place
    )
    assert not _native.Sorter.records(_native.ReadOptions(), 100, 10).streams_in_place
