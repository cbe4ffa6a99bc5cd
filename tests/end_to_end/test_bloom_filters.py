"""Bloom filters of Parquet leave out row groups whose bounds say nothing, and never a row that a filter keeps."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs import narrowing
from exoshuffle.engines.local.memory import limits
from tests.support.duck import duck

ROWS, GROUP = 2000, 200
START = dt.datetime(2024, 3, 30, 20, tzinfo=dt.timezone.utc)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Narrows files of any size."""
    monkeypatch.setattr(narrowing, "SMALL_BYTES", 0)
    monkeypatch.setattr(narrowing, "SMALL_FILE_BYTES", 0)
    with xs.init(memory_limit=limits.limit_for(250_000_000), num_cpus=2):
        yield


#: Columns by name: the type, and a value of a number below 10,000.
TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "i8": (pa.int8(), lambda x: x % 251 - 125),
    "i16": (pa.int16(), lambda x: 3 * x - 15_000),
    "i32": (pa.int32(), lambda x: x * 200_003 - 10**9),
    "i64": (pa.int64(), lambda x: x * 10**14 - 5 * 10**17),
    "u8": (pa.uint8(), lambda x: x % 256),
    "u32": (pa.uint32(), lambda x: x * 429_000),
    "u64": (pa.uint64(), lambda x: x * 1_844_000_000_000_000),
    "f32": (pa.float32(), lambda x: [float("nan"), -0.0, 0.0, x / 8][min(x, 3)]),
    "f64": (pa.float64(), lambda x: [float("nan"), -0.0, 0.0, x / 7][min(x, 3)]),
    "dec": (pa.decimal128(9, 2), lambda x: decimal.Decimal(x - 5000) / 100),
    "dec18": (pa.decimal128(18, 4), lambda x: decimal.Decimal(x - 5000) / 10_000),
    "dec30": (pa.decimal128(30, 2), lambda x: decimal.Decimal(x - 5000) / 100),
    "s": (pa.string(), lambda x: f"k{x}" + "é" * (x % 3)),
    "view": (pa.string_view(), lambda x: f"a longer text, not inlined: {x}"),
    "dict": (pa.dictionary(pa.int32(), pa.string()), lambda x: f"d{x}"),
    "b": (pa.binary(), lambda x: x.to_bytes(4, "little")),
    "fixed": (pa.binary(3), lambda x: x.to_bytes(3, "little")),
    "d": (pa.date32(), lambda x: dt.date(2000, 1, 1) + dt.timedelta(x)),
    "ms": (pa.timestamp("ms"), lambda x: START.replace(tzinfo=None) + dt.timedelta(minutes=x)),
    "us": (pa.timestamp("us"), lambda x: START.replace(tzinfo=None) + dt.timedelta(minutes=x)),
    "ns": (pa.timestamp("ns"), lambda x: START.replace(tzinfo=None) + dt.timedelta(minutes=x)),
    "tz": (pa.timestamp("us", "Europe/Berlin"), lambda x: START + dt.timedelta(minutes=x)),
    "time": (pa.time64("us"), lambda x: dt.time(x % 24, x % 60, x % 59)),
}
#: Columns whose filters are not asked: types that DuckDB rounds, and that filters have no one form of.
UNASKED = {"dec30", "ns"}


def _table() -> pa.Table:
    """Every row group has values from the whole range, so bounds rule out nothing."""
    rng = random.Random(5)
    numbers = [
        [*rng.sample(range(4, 9996), GROUP - 6), 0, 1, 2, 3, 9996, 9999]
        for _ in range(ROWS // GROUP)
    ]
    rows = [number for group in numbers for number in group]
    columns: dict[str, pa.Array] = {"row": pa.array(range(ROWS))}
    for name, (kind, value) in TYPES.items():
        made = [None if rng.random() < 0.02 else value(number) for number in rows]
        columns[name] = pa.array(made, kind)
    return pa.table(columns)


def _by_arrow(table: pa.Table, path: Path) -> None:
    filters = {name: {"ndv": GROUP, "fpp": 0.001} for name in TYPES}
    pq.write_table(table, path, row_group_size=GROUP, bloom_filter_options=filters)


def _by_old_arrow(table: pa.Table, path: Path) -> None:
    """Times of 96 bits, decimals of the fewest bytes, and integers where unsigned ones are unknown."""
    filters = {name: {"ndv": GROUP, "fpp": 0.001} for name in TYPES if name not in UNASKED}
    pq.write_table(
        table,
        path,
        row_group_size=GROUP,
        version="1.0",
        use_deprecated_int96_timestamps=True,
        store_schema=False,
        bloom_filter_options=filters,
    )


def _by_duckdb(table: pa.Table, path: Path) -> None:
    """DuckDB gives filters to columns that it encodes by dictionaries, of few values."""
    few = table.slice(0, GROUP // 4)
    with duck(t=pa.concat_tables([few] * 100)) as db:
        db.execute(f"COPY t TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")


WRITERS = [_by_arrow, _by_old_arrow, _by_duckdb]


def _literals(name: str, value: Any) -> list[str]:
    if isinstance(value, bytes):
        return [f"from_hex('{value.hex()}')"]
    if name == "tz":
        return [f"TIMESTAMPTZ '{value}'", f"'{value:%Y-%m-%d %H:%M:%S%z}'"]
    if isinstance(value, dt.datetime):
        return [f"TIMESTAMP '{value}'", f"'{value}'"]
    if isinstance(value, float) and math.isnan(value):
        return ["'nan'", "'nan'::DOUBLE"]
    if isinstance(value, int | float | decimal.Decimal):
        return [f"{value}", f"'{value}'", f"{value}e0"]
    return [f"'{value}'"]


def _rows(table: pa.Table, condition: str) -> list[int]:
    with duck(t=table) as db:
        zone = table.schema.field("tz").type.tz
        db.execute(f"SET TimeZone = '{zone or 'UTC'}'")
        db.execute(f"SELECT row FROM t WHERE {condition} ORDER BY row")  # noqa: S608  ours
        return [row for (row,) in db.fetchall()]


@pytest.mark.parametrize("writer", WRITERS)
def test_no_row_is_lost_whatever_its_type(
    writer: Callable[[pa.Table, Path], None], tmp_path: Path
) -> None:
    rng = random.Random(writer.__name__)
    table = _table()
    writer(table, tmp_path / "in.parquet")
    data = xs.read_parquet(tmp_path / "in.parquet")
    stored = data.to_arrow()
    for name in rng.sample(list(TYPES), 10):
        value = TYPES[name][1]
        number, absent = rng.choice([rng.randrange(4), rng.randrange(4, 9996)]), 4711
        literal = rng.choice(_literals(name, value(number)))
        other = rng.choice(_literals(name, value(absent)))
        condition = rng.choice([f"{name} = {literal}", f"{name} IN ({literal}, {other})"])
        found = data.filter(condition).select("row").to_arrow()
        assert sorted(found.column("row").to_pylist()) == _rows(stored, condition), condition


def test_filters_of_these_types_are_asked(tmp_path: Path) -> None:
    _by_arrow(_table(), tmp_path / "in.parquet")
    data = xs.read_parquet(tmp_path / "in.parquet")
    skipped = {
        name
        for name, (_, value) in TYPES.items()
        if data.filter(f"{name} = {_literals(name, value(4711))[0]}").explain().skipped_groups
    }
    assert skipped == {*TYPES} - UNASKED


def _groups(tmp_path: Path, **options: Any) -> xs.Dataset:
    """Reads ten row groups whose bounds are all alike; ``x`` has even numbers, ten times as many as rows."""
    rng = random.Random(3)
    numbers = [[0, *rng.sample(range(2, 20_000, 2), GROUP - 2), 20_000] for _ in range(10)]
    x = [number for group in numbers for number in group]
    table = pa.table({"x": x, "s": [f"s{number}" for number in x], "row": range(ROWS)})
    filters = {"x": {"ndv": GROUP, "fpp": 1e-6}, "s": {"ndv": GROUP, "fpp": 1e-6}}
    path = tmp_path / "groups.parquet"
    pq.write_table(table, path, row_group_size=GROUP, bloom_filter_options=filters, **options)
    return xs.read_parquet(path)


@pytest.mark.parametrize(
    "condition",
    [
        "x = {0}",
        "{0} = x",
        "x = {0}.0",
        "x IN ({0}, 7)",
        "s = 's{0}'",
        "s IN ('s{0}', 'other')",
        "x = {0} AND s = 's{0}'",
        "x = 7 OR s = 's{0}'",
        "x = {0} AND row >= 0",
    ],
)
def test_row_groups_that_are_left(condition: str, tmp_path: Path) -> None:
    data = _groups(tmp_path)
    table = data.to_arrow()
    value = table.column("x")[GROUP * 3 + 5].as_py()
    holding = {row // GROUP for row, x in enumerate(table.column("x").to_pylist()) if x == value}
    condition = condition.format(value)
    found = data.rename({"s": "t"}).rename({"t": "s"}).filter(condition)
    assert found.explain().skipped_groups == 10 - len(holding)
    with duck(t=table) as db:
        db.execute(f"SELECT row FROM t WHERE {condition} ORDER BY row")  # noqa: S608  ours
        assert [(row,) for row in found.to_arrow().column("row").to_pylist()] == db.fetchall()


@pytest.mark.parametrize(
    "condition", ["x = 7 OR row >= 0", "x <> 7", "x = 7e0", "x + 0 = 7", "x = NULL", "NOT x = 7"]
)
def test_conditions_that_filters_are_not_asked_for(condition: str, tmp_path: Path) -> None:
    data = _groups(tmp_path)
    assert data.filter(condition).explain().skipped_groups == 0


def test_no_filter_is_read_where_bounds_rule_all_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("asked")

    data = _groups(tmp_path)
    monkeypatch.setattr(narrowing, "equal_values", refused)
    assert data.filter("x = -5").count() == 0
    with pytest.raises(AssertionError, match="asked"):
        data.filter("x = 7").count()


def test_double_literals_equal_several_integers(tmp_path: Path) -> None:
    filters = {"x": {"ndv": 10, "fpp": 1e-6}}
    table = pa.table({"x": [0, 2**53 + 1, 2**60]})
    pq.write_table(table, tmp_path / "in.parquet", bloom_filter_options=filters)
    found = xs.read_parquet(tmp_path / "in.parquet").filter(f"x = {2**53}e0")
    assert found.to_arrow().column("x").to_pylist() == [2**53 + 1]


def _with_changed_filters(tmp_path: Path, change: Callable[[bytes, int, int], bytes]) -> xs.Dataset:
    """Reads a file whose filters of ``x`` were changed: ``change`` gets the file, and offset and length of each."""
    _groups(tmp_path)
    path = tmp_path / "groups.parquet"
    metadata, content = pq.ParquetFile(path).metadata, path.read_bytes()
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(0)
        content = change(content, chunk.bloom_filter_offset, chunk.bloom_filter_length)
    path.write_bytes(content)
    return xs.read_parquet(path)


def _emptied(content: bytes, offset: int, length: int) -> bytes:
    """Clears the bits of a filter: it denies every value, its bounds too."""
    return content[: offset + 20] + bytes(length - 20) + content[offset + length :]


def _halved(content: bytes, offset: int, length: int) -> bytes:
    """Changes the number of bytes in a header to 64."""
    assert length > 100
    header = bytes([0x15, 0x80, 0x01])
    assert content[offset] == 0x15
    return content[:offset] + header + content[offset + len(header) :]


def _damaged(content: bytes, offset: int, length: int) -> bytes:
    """Overwrites a header."""
    assert length > 12
    return content[:offset] + b"\xff" * 12 + content[offset + 12 :]


@pytest.mark.parametrize("change", [_emptied, _halved, _damaged])
def test_a_filter_that_cannot_be_right_is_ignored(
    change: Callable[[bytes, int, int], bytes], tmp_path: Path
) -> None:
    data = _with_changed_filters(tmp_path, change)
    value = data.select("x").to_arrow().column("x")[GROUP * 3 + 5].as_py()
    found = data.filter(f"x = {value}")
    assert (found.explain().skipped_groups, found.count() > 0) == (0, True)


def test_files_without_statistics_and_files_of_other_types(tmp_path: Path) -> None:
    data = _groups(tmp_path, write_statistics=False)
    value = data.select("x").to_arrow().column("x")[5].as_py()
    assert 5 <= data.filter(f"x = {value}").explain().skipped_groups < 10
    narrow = pa.table({"x": pa.array([2, 4], pa.int64()), "s": ["s2", "s4"], "row": [0, 1]})
    pq.write_table(narrow, tmp_path / "other.parquet")
    both = xs.read_parquet([tmp_path / "groups.parquet", tmp_path / "other.parquet"])
    assert both.filter("x = 4").count() >= 1
