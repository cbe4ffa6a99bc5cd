"""Columns of every kind travel along unchanged, nested ones too; dictionaries come out as dictionaries."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.operators.core.keys import SortKey
from tests.support.oracle import assert_same, expected, read_directory, with_row_numbers
from tests.support.tables import column_of

pytestmark = pytest.mark.usefixtures("engine")

NUM_ROWS = 700


def _values(i: int) -> dict[str, tuple[pa.DataType, Any]]:
    """Columns of row ``i``: name, type, value."""
    point = pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])
    return {
        "nothing": (pa.null(), None),
        "flag": (pa.bool_(), i % 3 == 0),
        "half": (pa.float16(), float(i % 100)),
        "wide decimal": (pa.decimal256(60, 3), i * 10**40 + i),
        "duration": (pa.duration("ns"), i * 1000),
        "date64": (pa.date64(), i * 86_400_000),
        "months": (pa.month_day_nano_interval(), pa.MonthDayNano([i, -i, i * 7])),
        "fixed": (pa.binary(3), b"%03d" % i),
        "view": (pa.string_view(), f"view {i} " * (i % 5)),
        "bytes view": (pa.binary_view(), b"\0\xff" * (i % 17)),
        "list": (pa.list_(pa.int64()), list(range(i % 4))),
        "large list": (pa.large_list(pa.large_string()), [f"{i}"] * (i % 3)),
        "pair": (pa.list_(pa.int8(), 2), [i % 100, 1]),
        "struct": (point, {"x": i / 2, "tags": [f"t{i}", None] * (i % 2)}),
        "map": (pa.map_(pa.string(), point), [(f"k{i}", {"x": 1.0, "tags": None})] * (i % 2)),
        "deep": (pa.list_(pa.list_(pa.struct([("v", pa.int32())]))), [[{"v": i}, None], None, []]),
    }


def _table() -> pa.Table:
    """Every column of ``_values`` with nulls among its values, a key with duplicates, and a dictionary."""
    rng = random.Random(11)
    names = {name: kind for name, (kind, _) in _values(0).items()}
    rows = [_values(i) for i in range(NUM_ROWS)]
    columns: dict[str, pa.Array] = {"key": pa.array([rng.randrange(90) for _ in rows], pa.int16())}
    for name, kind in names.items():
        columns[name] = column_of(
            kind, [None if rng.random() < 0.1 else row[name][1] for row in rows]
        )
    words = [rng.choice([None, "red", "green", "blue"]) for _ in rows]
    columns["word"] = pa.array(words).dictionary_encode()
    return with_row_numbers(pa.table(columns))


def _write_ipc(directory: Path, table: pa.Table, num_files: int) -> Path:
    directory.mkdir()
    for index in range(num_files):
        start, stop = (i * len(table) // num_files for i in (index, index + 1))
        with pa.ipc.new_file(str(directory / f"{index}.arrow"), table.schema) as writer:
            writer.write_table(table.slice(start, stop - start), max_chunksize=64)
    return directory


@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_every_type_travels_through_arrow_files(strategy: str, tmp_path: Path) -> None:
    table = _table()
    source = _write_ipc(tmp_path / "in", table, 3)
    dataset = xs.read_ipc(source).sort("key", strategy=strategy, num_partitions=4)
    dataset.write_ipc(tmp_path / "out")
    wanted = expected(table.drop(["months"]), [SortKey("key")])
    result = read_directory(tmp_path / "out", "arrow")
    assert_same(result.drop(["months"]), wanted)
    order = wanted["row_number"].to_pylist()
    months = table["months"].to_pylist()
    assert result["months"].to_pylist() == [months[row] for row in order]
    assert dataset.to_arrow().drop(["months"]).schema == wanted.schema


def test_nested_columns_travel_through_json_lines(tmp_path: Path) -> None:
    lines = [
        '{"k": 3, "list": [1, null], "deep": {"a": [{"b": "x"}]}}',
        '{"k": 1, "list": [], "deep": {"a": null}}',
        '{"k": 2, "list": null, "deep": null}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    result = xs.read_json(tmp_path / "in.jsonl").sort("k").to_arrow()
    assert result.to_pylist() == [
        {"k": 1, "list": [], "deep": {"a": None}},
        {"k": 2, "list": None, "deep": None},
        {"k": 3, "list": [1, None], "deep": {"a": [{"b": "x"}]}},
    ]


def test_a_dictionary_column_is_a_key_by_its_values(tmp_path: Path) -> None:
    words = pa.DictionaryArray.from_arrays(
        pa.array([2, 0, 1, None, 2, 0], pa.int8()), ["c", "b", "a"]
    )
    table = with_row_numbers(pa.table({"word": words}))
    source = _write_ipc(tmp_path / "in", table, 1)
    result = xs.read_ipc(source).sort("word", nulls="first").to_arrow()
    assert result.schema == table.schema
    assert result["word"].to_pylist() == [None, "a", "a", "b", "c", "c"]
    assert result["row_number"].to_pylist() == [3, 0, 4, 2, 1, 5]


def test_no_columns_but_the_key(tmp_path: Path) -> None:
    table = pa.table({"only": pa.array([3, 1, 2], pa.uint8())})
    source = _write_ipc(tmp_path / "in", table, 1)
    assert xs.read_ipc(source).sort("only").to_arrow()["only"].to_pylist() == [1, 2, 3]
