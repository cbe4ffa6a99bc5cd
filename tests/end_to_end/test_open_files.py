"""Files that DuckDB reads itself inside the one query: which these are, and that their rows are those of our reader."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.inputs import narrowing
from exoshuffle.dataset.jobs import one_query
from exoshuffle.errors import InputError
from exoshuffle.futures import current_engine
from exoshuffle.operators.one_query import files, task
from tests.support.one_query import as_shuffled

pytestmark = pytest.mark.shares_engine

NUM_ROWS = 1_000
ROWS = pa.table(
    {
        "key": pa.array([i % 7 if i % 11 else None for i in range(NUM_ROWS)], pa.int32()),
        "name": [f"n{i % 5}" for i in range(NUM_ROWS)],
        "value": list(range(NUM_ROWS)),
    }
)
#: Values lie in the file as they are.
PLAIN: dict[str, Any] = {"use_dictionary": False, "compression": "none"}


@pytest.fixture(scope="module", autouse=True)
def _engine() -> Iterator[None]:
    xs.init(num_cpus=2, memory_limit="2GB")
    yield
    xs.shutdown()


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of files that DuckDB has opened."""
    monkeypatch.setattr(one_query, "MIN_BYTES", 0)
    found: list[list[str]] = []

    def noting(cursor: Any, name: str, source: Any, schema: bytes) -> None:
        open_files(cursor, name, source, schema)
        found.append([Path(path).name for path in source.files])

    monkeypatch.setattr(task, "open_files", noting)
    return found


open_files = task.open_files


def written(path: Path, rows: pa.Table = ROWS, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **{"row_group_size": 300, **options})
    return path


def replace(path: Path, old: bytes, new: bytes) -> None:
    """Replaces some bytes of a file where they come first."""
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def zigzag(number: int) -> bytes:
    """A number below 8,192, as Thrift writes it."""
    return bytes([number * 2 % 128 + 128, number * 2 // 128])


def groups(rows: Dataset) -> Dataset:
    return rows.group_by("name").agg(n="count", keys=("key", "count"), total=("value", "sum"))


def assert_as_shuffled(rows: Dataset, key: str = "name") -> None:
    found = rows.to_arrow().sort_by(key)
    assert found.equals(as_shuffled(rows).to_arrow().sort_by(key))


def test_files_without_checksums_are_read_by_duckdb(
    tmp_path: Path, opened: list[list[str]]
) -> None:
    written(tmp_path / "it's" / "a.parquet")
    written(tmp_path / "it's" / "b.parquet", compression="zstd")
    rows = xs.read_parquet(tmp_path / "it's").filter("value >= 100")
    assert_as_shuffled(groups(rows))
    assert opened == [["a.parquet", "b.parquet"]]


def test_files_with_checksums_are_read_by_duckdb_if_they_match(
    tmp_path: Path, opened: list[list[str]]
) -> None:
    written(tmp_path / "in" / "a.parquet")
    written(tmp_path / "in" / "b.parquet", write_page_checksum=True, compression="zstd")
    assert_as_shuffled(groups(xs.read_parquet(tmp_path / "in")))
    assert opened == [["a.parquet", "b.parquet"]]


def test_files_are_looked_through_once(
    tmp_path: Path, opened: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[set[str]] = []

    def noting(source: Any, schema: pa.Schema, engine: Any) -> bool:
        looked.append(set(schema.names))
        return can_open(source, schema, engine)

    can_open = files.can_open
    monkeypatch.setattr(files, "can_open", noting)
    rows = xs.read_parquet(written(tmp_path / "a.parquet"))
    most = rows.group_by("name").agg(most=("value", "max"))
    least = rows.group_by("name").agg(least=("value", "min"))
    found = most.join(least, on="name").group_by("most", "least").agg(n="count")
    assert found.to_arrow().num_rows == 5
    assert looked == [{"name", "value"}]
    assert len(opened) == 2


def test_a_wrong_checksum_is_found(tmp_path: Path, opened: list[list[str]]) -> None:
    path = written(tmp_path / "a.parquet", write_page_checksum=True, **PLAIN)
    replace(path, b"n3", b"n4")
    with pytest.raises(InputError, match="checksum"):
        groups(xs.read_parquet(path)).to_arrow()
    assert opened == []


def test_a_page_that_claims_more_than_there_can_be(tmp_path: Path, opened: list[list[str]]) -> None:
    """DuckDB would set 134 MB apart for it."""
    rows = pa.table({"name": [f"n{i % 5}" * 1_000 for i in range(NUM_ROWS)]})
    path = written(tmp_path / "a.parquet", rows, use_dictionary=False, row_group_size=NUM_ROWS)
    size = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset + 3
    content = bytearray(path.read_bytes())
    # Thrift: field 2, a number; the one before it is the kind of the page.
    assert content[size - 1] == 0x15
    assert [byte >= 0x80 for byte in content[size : size + 4]] == [True, True, True, False]
    content[size : size + 4] = b"\xfe\xff\xff\x7f"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.parquet"):
        xs.read_parquet(path).group_by("name").agg(n="count").to_arrow()
    assert opened == []


@pytest.mark.parametrize("claimed", [200, 299, 301])
def test_pages_with_other_numbers_of_values_than_the_group(
    claimed: int, tmp_path: Path, opened: list[list[str]]
) -> None:
    """DuckDB would read on in the next column, or leave values out."""
    path = written(tmp_path / "a.parquet", ROWS.select(["name", "value"]), **PLAIN)
    # In a header: field 5, a structure, whose field 1 is the number, in zigzag order.
    replace(path, b"\x2c\x15" + zigzag(300), b"\x2c\x15" + zigzag(claimed))
    rows = xs.read_parquet(path).group_by("name").agg(n="count", total=("value", "sum"))
    with pytest.raises(InputError, match=r"a\.parquet"):
        rows.to_arrow()
    assert opened == []


def test_a_file_that_was_cut_inside(tmp_path: Path, opened: list[list[str]]) -> None:
    path = written(tmp_path / "a.parquet", **PLAIN)
    content = path.read_bytes()
    path.write_bytes(content[:4] + content[200:])
    with pytest.raises(InputError, match=r"a\.parquet"):
        groups(xs.read_parquet(path)).to_arrow()
    assert opened == []


def test_bounds_in_the_footer_that_are_wrong(tmp_path: Path, opened: list[list[str]]) -> None:
    """DuckDB would make the keys narrower by them, and take the greatest value from there."""
    numbers = pa.table({"n": pa.array([i % 100 for i in range(NUM_ROWS)], pa.int64())})
    path = written(tmp_path / "a.parquet", numbers, **PLAIN)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    before = path.read_bytes()
    # The last of 300 values, behind bounds in the header.
    at = chunk.data_page_offset + chunk.total_compressed_size - 8
    assert before[at : at + 8] == (99).to_bytes(8, "little")
    path.write_bytes(before[:at] + (70_000).to_bytes(8, "little") + before[at + 8 :])
    rows = xs.read_parquet(path)
    found = rows.group_by("n").agg(count="count").filter("n >= 99").sort("n").to_arrow()
    assert found.to_pylist() == [{"n": 99, "count": 9}, {"n": 70_000, "count": 1}]
    keyed = rows.select(n="n", key="n % 2").group_by("key").agg(most=("n", "max"))
    assert keyed.sort("key").to_arrow()["most"].to_pylist() == [70_000, 99]
    assert opened == [["a.parquet"], ["a.parquet"]]


@pytest.mark.parametrize(
    ("told", "condition", "wanted"),
    [
        # Bounds in the wrong order tell nothing.
        ((99, 0), "n = 50", 10),
        ((99, 0), "n > 50", 490),
        ((99, 0), "n >= 99", 10),
        ((99, 0), "n < 1", 10),
        # Others are believed, as in other programs.
        ((0, 40), "n = 40", 10),
        ((0, 40), "n = 50", 0),
    ],
)
def test_filters_by_bounds_that_are_wrong(
    told: tuple[int, int],
    condition: str,
    wanted: int,
    tmp_path: Path,
    opened: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(narrowing, "SMALL_FILE_BYTES", 0)
    monkeypatch.setattr(narrowing, "SMALL_BYTES", 0)
    numbers = pa.table({"n": pa.array([i % 100 for i in range(NUM_ROWS)], pa.int64())})
    path = written(tmp_path / "a.parquet", numbers, **{**PLAIN, "row_group_size": 500})
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    low, high, new_low, new_high = (
        b"\x08" + bound.to_bytes(8, "little") for bound in (0, 99, *told)
    )
    claims = content[footer:].replace(low, b"?low").replace(high, b"?high")
    claims = claims.replace(b"?low", new_low).replace(b"?high", new_high)
    path.write_bytes(content[:footer] + claims)
    statistics = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == told
    rows = xs.read_parquet(path).filter(condition)
    assert rows.count() == wanted
    groups = rows.group_by("n").agg(count="count").to_arrow()
    assert sum(groups["count"].to_pylist()) == wanted
    assert bool(opened) == bool(wanted)


@pytest.mark.parametrize("bounds", [True, False])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_nan_is_found_whatever_bounds_in_footers_tell(
    bounds: bool, kind: pa.DataType, tmp_path: Path, opened: list[list[str]]
) -> None:
    values = pa.array([math.nan, 0.0, -0.0, 1.0, None] * 60, kind)
    rows = pa.table({"x": values, "name": ["a", "b"] * 150})
    path = written(tmp_path / "a.parquet", rows, write_statistics=bounds, write_page_index=bounds)
    for condition in ("x > 5", "x >= 5", "not x <= 2", "x = 'nan'::double", "x = 0"):
        kept = xs.read_parquet(path).filter(condition).group_by("name").agg(n="count")
        count = 60 if condition == "x = 0" else 30
        assert kept.sort("name").to_arrow().to_pylist() == [
            {"name": "a", "n": count},
            {"name": "b", "n": count},
        ]
    assert len(opened) == 5


@pytest.mark.parametrize("bounds", [(math.nan, 1.5), (0.5, math.nan), (1.5, 0.5)])
def test_floats_whose_bounds_are_spoilt_are_not_left_to_duckdb(
    bounds: tuple[float, float], tmp_path: Path, opened: list[list[str]]
) -> None:
    rows = pa.table({"x": [0.5, 1.0, 1.5] * 100})
    path = written(tmp_path / "a.parquet", rows)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    low, high, new_low, new_high = (
        b"\x08" + struct.pack("<d", bound) for bound in (0.5, 1.5, *bounds)
    )
    claims = content[footer:].replace(low, b"?low").replace(high, b"?high")
    claims = claims.replace(b"?low", new_low).replace(b"?high", new_high)
    assert claims != content[footer:]
    path.write_bytes(content[:footer] + claims)
    kept = xs.read_parquet(path).filter("x > 0.75 and x < 1.25").group_by("x").agg(n="count")
    assert kept.to_arrow().to_pylist() == [{"x": 1.0, "n": 100}]
    counted = xs.read_parquet(path).filter("x > 0.75 and x < 1.25").group_by().agg(n="count")
    assert counted.to_arrow().to_pylist() == [{"n": 100}]
    assert opened == []


def test_the_types_of_values_are_those_of_our_reader(
    tmp_path: Path, opened: list[list[str]]
) -> None:
    rows = ROWS.select(["value"])
    ends = {"i8": (-128, 127), "i16": (-(2**15), 2**15 - 1), "i32": (-(2**31), 2**31 - 1)}
    unsigned = {"u8": 2**8, "u16": 2**16, "u32": 2**32, "u64": 2**64}
    columns: dict[str, pa.Array] = {}
    for name, (low, high) in ends.items():
        columns[name] = pa.array([low, high] * 500, pa.type_for_alias(f"int{name[1:]}"))
    for name, end in unsigned.items():
        columns[name] = pa.array([0, end - 1] * 500, pa.type_for_alias(f"uint{name[1:]}"))
    for digits in (5, 12, 38):
        values = [decimal.Decimal("9" * (digits - 2) + ".99"), decimal.Decimal("-0.01")] * 500
        columns[f"d{digits}"] = pa.array(values, pa.decimal128(digits, 2))
    days = [dt.date(1, 1, 1), dt.date(9999, 12, 31)] * 500
    columns["day"] = pa.array(days)
    # The first and last microseconds of the years 1 and 9999.
    times = [-62_135_596_800_000_000, 253_402_300_799_999_999]
    columns["time"] = pa.array(times * 500, pa.timestamp("us"))
    columns["yes"] = pa.array([True, None] * 500)
    columns["large"] = pa.array(["", "x" * 5_000] * 500, pa.large_string())
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    path = written(tmp_path / "a.parquet", rows, row_group_size=500)
    keys = list(columns)
    found = xs.read_parquet(path).group_by(keys).agg(n="count", total=("value", "sum"))
    assert_as_shuffled(found, "i8")
    assert found.to_arrow().num_rows == 2
    assert opened
    least = [xs.read_parquet(path).filter(f"{name} = {end - 1}") for name, end in unsigned.items()]
    for kept in least:
        assert kept.group_by("yes").agg(n="count").to_arrow()["n"].to_pylist() == [500]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("ms"), 1_000),
        (pa.timestamp("ns"), 1_000),
        (pa.timestamp("us", "Europe/Rome"), 1_000),
        (pa.time64("us"), 1_000),
        (pa.dictionary(pa.int32(), pa.int64()), 1_000),
        (pa.uuid(), b"0123456789abcdef"),
        (pa.json_(), "{}"),
        (pa.float16(), 1.5),
        (pa.binary(), b"x"),
        (pa.decimal256(40, 2), decimal.Decimal("1.25")),
        (pa.list_(pa.int64()), [1, 2]),
    ],
    ids=str,
)
def test_types_that_readers_may_take_otherwise(
    kind: pa.DataType, value: object, tmp_path: Path, opened: list[list[str]]
) -> None:
    rows = ROWS.append_column("odd", pa.array([value] * NUM_ROWS, kind))
    found = xs.read_parquet(written(tmp_path / "a.parquet", rows))
    counts = found.group_by("name").agg(n=("odd", "count"))
    assert counts.sort("name").to_arrow()["n"].to_pylist() == [200] * 5
    assert opened == []


def test_times_of_96_bits(tmp_path: Path, opened: list[list[str]]) -> None:
    rows = ROWS.append_column("time", pa.array([1_000_000] * NUM_ROWS, pa.timestamp("us")))
    path = written(tmp_path / "a.parquet", rows, use_deprecated_int96_timestamps=True)
    cast = xs.read_parquet(path).select(time="CAST(time AS TIMESTAMP)")
    assert cast.group_by("time").agg(n="count").to_arrow()["n"].to_pylist() == [NUM_ROWS]
    assert opened == []


def test_columns_in_another_order(tmp_path: Path, opened: list[list[str]]) -> None:
    written(tmp_path / "in" / "a.parquet")
    written(tmp_path / "in" / "b.parquet", ROWS.select(["value", "key", "name"]))
    assert_as_shuffled(groups(xs.read_parquet(tmp_path / "in")))
    assert opened == [["a.parquet", "b.parquet"]]


def test_a_row_group_that_has_no_room(tmp_path: Path, opened: list[list[str]]) -> None:
    share = current_engine().budget_bytes // (files.GROUPS_SHARE * current_engine().num_cpus)
    text = [f"{i:09}" + "x" * (share // 1_000) for i in range(NUM_ROWS)]
    rows = ROWS.append_column("text", pa.array(text))
    path = written(tmp_path / "a.parquet", rows, compression="none", row_group_size=NUM_ROWS)
    found = xs.read_parquet(path).filter("text >= '0'").group_by("name").agg(n="count")
    assert found.sort("name").to_arrow()["n"].to_pylist() == [200] * 5
    assert opened == []


@pytest.mark.parametrize(
    "name", ["a[1].parquet", "what?.parquet", "all*.parquet", "day=1/a.parquet"]
)
def test_names_that_mean_something_to_duckdb(
    name: str, tmp_path: Path, opened: list[list[str]]
) -> None:
    written(tmp_path / name)
    rows = xs.read_parquet(tmp_path)
    assert groups(rows).sort("name").to_arrow()["n"].to_pylist() == [200] * 5
    assert opened == []


def test_names_of_columns_that_differ_in_case(tmp_path: Path, opened: list[list[str]]) -> None:
    rows = ROWS.append_column("NAME", pa.array(["other"] * NUM_ROWS))
    assert_as_shuffled(groups(xs.read_parquet(written(tmp_path / "a.parquet", rows))))
    assert opened == []


def test_types_that_differ_between_files(tmp_path: Path, opened: list[list[str]]) -> None:
    small = pa.schema([("key", pa.int32()), ("name", pa.string()), ("value", pa.int16())])
    written(tmp_path / "in" / "a.parquet", ROWS.cast(small))
    written(tmp_path / "in" / "b.parquet", ROWS)
    assert_as_shuffled(groups(xs.read_parquet(tmp_path / "in")))
    assert opened == []


def test_the_first_rows_of_a_file(tmp_path: Path, opened: list[list[str]]) -> None:
    rows = xs.read_parquet(written(tmp_path / "a.parquet")).limit(400)
    assert groups(rows).sort("name").to_arrow()["n"].to_pylist() == [80] * 5
    assert opened == []


def test_a_file_that_changes_under_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.parquet")

    def changing(*given: Any) -> None:
        open_files(*given)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(task, "open_files", changing)
    with pytest.raises(InputError, match="changed"):
        groups(xs.read_parquet(path)).to_arrow()


def test_keys_without_numbers_meet(tmp_path: Path, opened: list[list[str]]) -> None:
    left = pa.table({"x": [math.nan, 0.0, -0.0, 1.0, None] * 50, "name": ["a", "b"] * 125})
    right = pa.table({"x": [math.nan, -0.0, 5.0], "size": [1, 2, 3]})
    sides = [
        xs.read_parquet(written(tmp_path / f"{i}.parquet", t, write_statistics=False))
        for i, t in enumerate((left, right))
    ]
    rows = sides[0].join(sides[1], on="x").group_by("size").agg(n="count")
    assert_as_shuffled(rows, "size")
    assert rows.sort("size").to_arrow()["n"].to_pylist() == [50, 100]
    assert opened[0] == ["0.parquet"]
    assert opened[1] == ["1.parquet"]
