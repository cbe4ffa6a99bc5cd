"""Pickles of native objects: they come back equal, and those of another version are refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle import _native
from exoshuffle.errors import InputError


@pytest.fixture
def source(tmp_path: Path) -> _native.Source:
    """Files in folders that are a column."""
    for day in ("a", "b"):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        table = pa.table({"k": range(1000), "s": ["text"] * 1000})
        pq.write_table(table, folder / "in.parquet", row_group_size=100)
    return _native.Source([str(tmp_path)], _native.ReadOptions())


def read_options() -> _native.ReadOptions:
    """Some of each kind."""
    schema = pa.schema({"k": pa.decimal128(9, 2)}).serialize().to_pybytes()
    return _native.ReadOptions(
        format="csv", csv_names=["k"], csv_null_values=["-"], schema=schema, hive=False
    )


def write_options() -> _native.WriteOptions:
    """Some of each kind."""
    return _native.WriteOptions(
        "parquet", compression="zstd", partition_by=["k"], dictionary_columns=[True, False]
    )


def carried(value: Any) -> Any:
    """The value as it comes to another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  made here


def scanned(source: _native.Source, splits: list[_native.Split]) -> pa.Table:
    """The rows of splits."""
    rows = _native.Rows.scan(source.read_options, source.schema_ipc, splits)
    return pa.RecordBatchReader.from_stream(rows).read_all()


def test_a_split_comes_back_equal_and_is_read_alike(source: _native.Source) -> None:
    splits = source.splits(1)
    again = carried(splits)
    assert len(splits) > 10
    assert again == splits
    assert {*again} == {*splits}
    assert splits[0] != splits[1]
    assert scanned(source, again) == scanned(source, splits)


def test_a_split_says_what_it_reads(source: _native.Source) -> None:
    first, *_, last = source.splits(1, first_file=7)
    assert (first.file_index, first.first_row, last.file_index, last.end) == (7, 0, 8, 1000)
    assert first.rows == first.size == first.end
    assert str(last) == f"rows {last.first_row} to 1000 of {source.files[1]}"
    assert repr(last) == f"<Split: {last}>"
    assert last.file == source.files[1]


def test_a_source_comes_back_with_what_was_found(source: _native.Source) -> None:
    state = pickle.dumps(source)
    for file in source.files:
        Path(file).rename(f"{file}.elsewhere")
    again = pickle.loads(state)  # noqa: S301  made above
    for name in ("paths", "files", "rows", "bytes", "memory_bytes", "schema_ipc", "num_groups"):
        assert getattr(again, name) == getattr(source, name)
    assert again.read_options == source.read_options
    assert again.splits(5000) == source.splits(5000)
    assert again.partitions_ipc() == source.partitions_ipc()
    assert again.with_files([1]).splits(5000) == source.with_files([1]).splits(5000)


@pytest.mark.parametrize("make", [read_options, write_options])
def test_options_come_back_equal(make: Callable[[], Any]) -> None:
    again = carried(make())
    assert again == make()
    assert hash(again) == hash(make())
    assert repr(again) == repr(make())


def test_other_options_are_not_equal() -> None:
    assert _native.ReadOptions(format="csv") != _native.ReadOptions(format="jsonl")
    assert _native.WriteOptions("csv") != _native.WriteOptions("csv", csv_tabs=True)


@pytest.mark.parametrize("kind", ["split", "source", "read", "write"])
def test_bytes_of_another_version_and_damaged_ones_are_refused(
    kind: str, source: _native.Source
) -> None:
    made = {
        "split": source.splits(1 << 30)[0],
        "source": source,
        "read": read_options(),
        "write": write_options(),
    }[kind]
    make, (*others, state) = made.__reduce__()
    with pytest.raises(InputError, match=r"another version of exoshuffle \(version 250 of"):
        make(*others, b"\xfa" + state[1:])
    for damaged in (b"", state[:-1], state + b"\0"):
        with pytest.raises(InputError, match="damaged"):
            make(*others, damaged)
