"""Filters read less: rows that statistics rule out are not read, and the result is that of DuckDB on all rows."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs import narrowing
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import InputError
from exoshuffle.operators.core import choosing, picking
from exoshuffle.operators.core.inputs import BatchInput
from exoshuffle.operators.core.readers import FileReader, splits_of
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.sql import spreads
from tests.support.duck import duck

ROWS = 3000
START = dt.datetime(2024, 3, 30, 20, tzinfo=dt.timezone.utc)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Narrows files of any size."""
    monkeypatch.setattr(narrowing, "SMALL_BYTES", 0)
    monkeypatch.setattr(narrowing, "SMALL_FILE_BYTES", 0)
    with xs.init(memory_limit=limits.limit_for(250_000_000), num_cpus=2):
        yield


def _types() -> dict[str, tuple[pa.DataType, Callable[[float], object]]]:
    """Columns by name: the type, and a value from a number that mostly rises with the row."""
    return {
        "i": (pa.int64(), lambda x: int(x) - 500),
        "small": (pa.int8(), lambda x: int(x / 15) - 100),
        "u": (pa.uint64(), lambda x: 2**63 - 1000 + int(x)),
        "u32": (pa.uint32(), lambda x: 2**31 - 1000 + int(x)),
        "f": (pa.float64(), lambda x: x / 7),
        "nan": (pa.float64(), lambda x: float("nan") if x % 97 < 3 else -0.0 if x < 9 else x),
        "f32": (pa.float32(), lambda x: x / 8 - 100),
        "dec": (pa.decimal128(9, 2), lambda x: decimal.Decimal(int(x) - 1000) / 100),
        "s": (pa.string(), lambda x: f"k{int(x):05d}" + "é" * 30),
        "dict": (pa.dictionary(pa.int32(), pa.string()), lambda x: f"d{int(x) // 200}"),
        "b": (pa.binary(), lambda x: bytes([int(x) // 256 + 120, int(x) % 256])),
        "flag": (pa.bool_(), lambda x: x > ROWS / 2),
        "d": (pa.date32(), lambda x: dt.date(2024, 1, 1) + dt.timedelta(int(x))),
        "t": (pa.timestamp("us"), lambda x: START.replace(tzinfo=None) + dt.timedelta(minutes=x)),
        "tz": (pa.timestamp("ms", "Europe/Berlin"), lambda x: START + dt.timedelta(minutes=int(x))),
        "time": (pa.time64("us"), lambda x: dt.time(int(x) // 150, int(x) % 60)),
    }


def _table(rng: random.Random) -> pa.Table:
    columns = {"row": pa.array(range(ROWS))}
    for name, (kind, value) in _types().items():
        nulls = rng.randrange(ROWS)
        values = [
            None
            if nulls <= row < nulls + 400 or rng.random() < 0.01
            else value(min(ROWS - 1.0, max(0.0, row + rng.gauss(0, 20))))
            for row in range(ROWS)
        ]
        columns[name] = pa.array(values, kind)
    columns["l"] = pa.array([[row] if row % 3 else None for row in range(ROWS)])
    return pa.table(columns)


def _by_arrow(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=700, data_page_size=200, write_page_index=True)


def _by_old_arrow(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=500, version="1.0", use_dictionary=["s"])


def _by_polars(table: pa.Table, path: Path) -> None:
    frame = pl.DataFrame(table)
    frame.write_parquet(path, row_group_size=600, data_page_size=300, statistics="full")


def _by_duckdb(table: pa.Table, path: Path) -> None:
    with duck(t=table) as db:
        db.execute(f"COPY t TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")


def _by_us(table: pa.Table, path: Path) -> None:
    xs.from_arrow(table).write_parquet(path)


# Polars opens its event loop with the first file, and keeps it.
pl.DataFrame({"x": [1]}).write_parquet(io.BytesIO())
WRITERS = [_by_arrow, _by_old_arrow, _by_polars, _by_duckdb, _by_us]


def _literal(rng: random.Random, name: str) -> str:
    kind, value = _types()[name]
    made = value(rng.choice([0.0, ROWS - 1.0, rng.uniform(0, ROWS - 1), rng.uniform(0, ROWS - 1)]))
    if isinstance(made, bool | float | int):
        return rng.choice([f"{made}", f"'{made}'"]) if not math.isnan(made) else "'nan'"
    if isinstance(made, bytes):
        return f"from_hex('{made.hex()}')"
    if isinstance(made, dt.datetime) and kind.tz is not None:
        return rng.choice([f"TIMESTAMPTZ '{made}'", f"'{made:%Y-%m-%d %H:%M:%S}'"])
    if isinstance(made, dt.datetime):
        return rng.choice([f"TIMESTAMP '{made}'", f"DATE '{made:%Y-%m-%d}'", f"'{made}'"])
    if isinstance(made, decimal.Decimal):
        return rng.choice([f"{made}", f"{int(made)}", f"{made}e0"])
    return f"'{made}'"


def _condition(rng: random.Random, depth: int = 0) -> str:
    if depth < 2 and rng.random() < 0.4:
        joined = rng.choice([" AND ", " OR "])
        return "(" + joined.join(_condition(rng, depth + 1) for _ in range(2)) + ")"
    name = rng.choice(list(_types()))
    one, other = _literal(rng, name), _literal(rng, name)
    made = [
        *(f"{name} {operator} {one}" for operator in ("=", "<>", "<", "<=", ">", ">=")),
        f"{one} < {name}",
        f"{name} BETWEEN {one} AND {other}",
        f"{name} IN ({one}, {other})",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"NOT ({name} = {one})",
        "l IS NULL",
        "row % 500 = 3",
    ]
    if name in ("s", "dict"):
        made += [f"{name} LIKE '{'k01' if name == 's' else 'd1'}%'", f"starts_with({name}, 'k002')"]
    if name == "flag":
        made += ["flag", "NOT flag"]
    return rng.choice(made)


def _rows(table: pa.Table, condition: str) -> list[int]:
    with duck(t=table) as db:
        # Literals without a zone are moments in the zone of the column, which DuckDB writes as UTC.
        db.execute(f"SET TimeZone = '{table.schema.field('tz').type.tz}'")
        db.execute(f"SELECT row FROM t WHERE {condition} ORDER BY row")  # noqa: S608  ours
        return [row for (row,) in db.fetchall()]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("picks", [False, True])
def test_random_conditions_keep_the_rows_that_duckdb_keeps(
    writer: Callable[[pa.Table, Path], None],
    picks: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if picks:
        monkeypatch.setattr(picking, "LEAST_ROWS", 1)
        monkeypatch.setattr(picking, "MOST_KEPT", 1)
    rng = random.Random(f"{writer.__name__} {picks}")
    table = _table(rng)
    writer(table, tmp_path / "in.parquet")
    data = xs.read_parquet(tmp_path / "in.parquet")
    columns = ["row", "s", "l", "dict"]
    stored = data.to_arrow()
    skipped = 0
    for _ in range(12):
        condition = _condition(rng)
        found = data.filter(condition)
        got = found.select(*columns).to_arrow()
        kept = _rows(stored, condition)
        assert got.column("row").to_pylist() == kept, condition
        assert (
            got.to_pydict() == stored.select(columns).take(pa.array(kept, pa.int64())).to_pydict()
        )
        skipped += found.explain().skipped_rows
    # Our file is one row group, which few conditions rule out.
    assert skipped > 0 or writer is _by_us


def _in_groups(path: Path) -> xs.Dataset:
    """Reads 30 row groups of 100 rows: ``x`` rises, ``y`` falls, and ``nulls`` has them in every tenth group."""
    rows = range(ROWS)
    table = pa.table(
        {
            "x": pa.array(rows),
            "y": [float(ROWS - row) for row in rows],
            "nulls": [None if row // 100 % 10 == 9 else row for row in rows],
            "text": [f"t{row:05d}" for row in rows],
        }
    )
    pq.write_table(table, path, row_group_size=100)
    return xs.read_parquet(path)


def _read_groups(read: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns the number of row groups of the files that a call has made its splits of."""
    seen: list[int] = []
    cut = FileInput.cut

    def counted(source: FileInput, *arguments: Any) -> list[Any]:
        seen.append(source.source.num_groups)
        return cut(source, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(FileInput, "cut", counted)
        read()
    return max(seen)


@pytest.mark.parametrize(
    ("condition", "groups"),
    [
        ("x = 1234", 1),
        ("x in (5, 2999)", 2),
        ("x between 100 and 299 and y > 0", 2),
        ("x < 50 or x >= 2900", 2),
        ("x < 50 or sqrt(x) > 3", 30),
        ("nulls is null", 3),
        ("text like 't012%'", 1),
        ("x > 5000", 0),
        ("y < 150", 2),
        ("x % 2 = 0", 30),
    ],
)
def test_row_groups_that_are_read(
    condition: str, groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _in_groups(tmp_path / "in.parquet")
    table = data.to_arrow()
    found = data.rename({"text": "t"}).rename({"t": "text"}).filter(condition)
    assert _read_groups(found.to_arrow, monkeypatch) == groups
    bill = found.explain()
    assert (bill.skipped_groups, bill.rows <= 100 * groups) == (30 - groups, True)
    assert found.to_arrow().column("x").to_pylist() == _numbers(table, condition)
    grouped = found.group_by("text").agg(n="count").to_arrow()
    assert grouped.num_rows == len(_numbers(table, condition))
    assert found.count() == len(_numbers(table, condition))


@pytest.mark.parametrize(
    ("condition", "num_queries"),
    [("x > -1.5 and y > 0.5", 2), ("x > 5 and y < 2900", 0), ("text >= 't0'", 0)],
)
def test_files_without_an_index_of_pages_are_asked_once(
    condition: str, num_queries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query for each column, and none where Arrow compares. All row groups stay, and were asked again as pages."""
    data = _in_groups(tmp_path / "in.parquet").filter(condition)
    asked: list[object] = []
    masks = spreads._masks

    def counted(*given: Any) -> Any:
        asked.append(given)
        return masks(*given)

    monkeypatch.setattr(spreads, "_masks", counted)
    data.to_arrow()
    assert len(asked) == num_queries


def _numbers(table: pa.Table, condition: str) -> list[int]:
    with duck(t=table) as db:
        db.execute(f"SELECT x FROM t WHERE {condition} ORDER BY x")  # noqa: S608  ours
        return [x for (x,) in db.fetchall()]


@pytest.mark.parametrize("count", [0, 1, 100, 101, ROWS, 10 * ROWS])
def test_a_limit_reads_no_more_row_groups_than_it_needs(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _in_groups(tmp_path / "in.parquet").select("x", "text").limit(count)
    groups = _read_groups(data.to_arrow, monkeypatch)
    assert groups == min(30, -(-count // 100))
    assert data.to_arrow().column("x").to_pylist() == list(range(min(ROWS, count)))
    assert data.explain().rows == min(ROWS, count)


def test_a_limit_of_a_union_reads_its_first_files(tmp_path: Path) -> None:
    first, other = (_in_groups(tmp_path / f"{name}.parquet") for name in "ab")
    found = first.union(other).limit(ROWS + 50)
    assert found.to_arrow().column("x").to_pylist() == [*range(ROWS), *range(50)]
    filtered = first.filter("x >= 2990").union(other).limit(15)
    assert filtered.to_arrow().column("x").to_pylist() == [*range(2990, ROWS), *range(5)]


@pytest.mark.parametrize(
    ("by", "descending", "nulls", "groups"),
    [
        ("x", False, "last", 1),
        ("x", True, "last", 1),
        # Nobody counted NaN, which is the greatest value, so every row group may have some.
        ("y", True, "last", 30),
        ("y", False, "last", 30),
        (["nulls", "x"], False, "last", 1),
        ("nulls", False, "first", 4),
        ("nulls", True, "last", 1),
        ("text", True, "last", 1),
    ],
)
def test_the_first_rows_of_a_sort_read_few_row_groups(
    by: str | list[str],
    descending: bool,
    nulls: str,
    groups: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = _in_groups(tmp_path / "in.parquet")
    wanted = data.sort(by, descending=descending, nulls=nulls).to_arrow().slice(0, 20)
    found = data.sort(by, descending=descending, nulls=nulls).limit(20)
    assert found.to_arrow().equals(wanted)
    assert _read_groups(found.to_arrow, monkeypatch) == groups


@pytest.mark.parametrize("writer", WRITERS)
def test_the_first_rows_of_random_tables(
    writer: Callable[[pa.Table, Path], None], tmp_path: Path
) -> None:
    rng = random.Random(writer.__name__)
    writer(_table(rng), tmp_path / "in.parquet")
    data = xs.read_parquet(tmp_path / "in.parquet").select("row", *_types())
    for name in rng.sample(list(_types()), 8):
        descending, nulls = rng.random() < 0.5, rng.choice(["first", "last"])
        ordered = data.select("row", name).sort(name, descending=descending, nulls=nulls)
        count = rng.choice([1, 30, 500])
        wanted = ordered.to_arrow().column("row").slice(0, count)
        assert ordered.limit(count).to_arrow().column("row").to_pylist() == wanted.to_pylist(), name


def test_samples_and_shuffles_are_the_same_behind_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _in_groups(tmp_path / "in.parquet")
    made = [
        data.sample(fraction=0.3, seed=5).filter("x between 500 and 900"),
        data.filter("x between 500 and 900").sample(40, seed=7),
        data.filter("x between 500 and 900").random_shuffle(seed=7),
    ]
    narrow = [each.to_arrow() for each in made]
    monkeypatch.setattr(narrowing, "SMALL_BYTES", 2**62)
    assert [each.to_arrow() for each in made] == narrow


def test_a_file_that_has_changed_is_an_error(tmp_path: Path) -> None:
    data = _in_groups(tmp_path / "in.parquet")
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="changed"):
        data.filter("x = 3").to_arrow()


COLUMNS: list[tuple[str, Callable[[xs.Dataset], xs.Dataset], set[str]]] = [
    ("select", lambda t: t.select("a"), {"a"}),
    ("filter", lambda t: t.filter("b > 3").select("a"), {"a", "b"}),
    ("sort", lambda t: t.sort("k").select("a"), {"a", "k"}),
    ("sort, then more", lambda t: t.sort("k").with_columns(x="a + 1").select("x"), {"a", "k"}),
    ("top_k", lambda t: t.sort("k").limit(3).select("a"), {"a", "k"}),
    ("group_by", lambda t: t.group_by("k").agg(x=("a", "sum")), {"a", "k"}),
    ("distinct", lambda t: t.select("k").distinct(), {"k"}),
    ("explode", lambda t: t.explode("l").select("a"), {"a", "l"}),
    ("union", lambda t: t.union(t).select("a"), {"a"}),
    ("limit", lambda t: t.limit(5).select("a"), {"a", "b", "c", "k", "l"}),
    ("count of a filter", lambda t: t.filter("b > 3").group_by().agg(n="count"), {"b"}),
    ("group of a sort", lambda t: t.sort("b").group_by("k").agg(x=("a", "sum")), {"a", "b", "k"}),
    ("drop", lambda t: t.sort("k").drop("b", "c", "l"), {"a", "k"}),
    ("rename", lambda t: t.sort("k").rename({"a": "z"}).select("z"), {"a", "k"}),
]


@pytest.mark.parametrize(
    ("make", "columns"), [case[1:] for case in COLUMNS], ids=[c[0] for c in COLUMNS]
)
def test_columns_that_are_read(
    make: Callable[[xs.Dataset], xs.Dataset],
    columns: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = make(_wide(tmp_path / "in.parquet"))
    read, table = _columns_read(result, monkeypatch)
    assert read == columns
    memory = make(xs.from_arrow(pq.read_table(tmp_path / "in.parquet"))).to_arrow()
    assert sorted(map(str, table.to_pylist())) == sorted(map(str, memory.to_pylist()))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize(
    "wanted", [["a"], ["k"], ["b_right"], ["c", "a_right"], ["k", "b", "c_right"]]
)
def test_joins_read_keys_and_what_is_needed(
    how: str,
    partitions: int | None,
    wanted: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, right = (_wide(tmp_path / f"{name}.parquet") for name in ("one", "two"))
    joined = left.join(right, on="k", how=how, num_partitions=partitions)
    wanted = [name for name in wanted if name in joined.columns] or ["a"]
    read, table = _columns_read(joined.select(*wanted), monkeypatch)
    expected = {name.removesuffix("_right") for name in wanted} | {"k"}
    assert expected <= read
    assert len(read) <= len(expected) + 1
    assert table.equals(joined.to_arrow().select(wanted))
    assert joined.select(*wanted).explain().rows > 0


def _wide(path: Path) -> xs.Dataset:
    rows = range(400)
    names = {name: [(row * step) % 90 for row in rows] for step, name in enumerate("kabc", 7)}
    pq.write_table(pa.table({**names, "l": [[row, row + 1] for row in rows]}), path)
    return xs.read_parquet(path)


def _columns_read(result: xs.Dataset, monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], pa.Table]:
    """Returns the columns of files that maps read, and the result."""
    seen: set[str] = set()
    made = FileInput.map_input

    def noted(source: FileInput, side: Side) -> Any:
        found = made(source, side)
        batches = found if isinstance(found, BatchInput) else found.in_batches()
        seen.update(batches.reader.columns)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(FileInput, "map_input", noted)
        return seen, result.to_arrow()


def _sampled(tmp_path: Path) -> list[xs.Dataset]:
    """Returns samples of few rows: of files, behind and before steps, of several files and of a sample."""
    data = _in_groups(tmp_path / "in.parquet")
    other = _in_groups(tmp_path / "other.parquet")
    for part in (1, 2):
        (tmp_path / f"hive/p={part}").mkdir(parents=True, exist_ok=True)
        pq.write_table(data.to_arrow(), tmp_path / f"hive/p={part}/in.parquet")
    return [
        data.sample(fraction=0.01, seed=5),
        data.rename({"text": "t"})
        .with_columns(z="x + 1")
        .filter("z > 50")
        .sample(fraction=0.02, seed=1),
        data.sample(fraction=0.03, seed=5).filter("nulls is not null").select("text"),
        data.union(other).sample(fraction=0.02, seed=9),
        xs.read_parquet([tmp_path / "in.parquet", tmp_path / "other.parquet"]).sample(
            fraction=0.02, seed=2
        ),
        xs.read_parquet(tmp_path / "hive").sample(fraction=0.04, seed=3),
        data.sample(fraction=0.04, seed=4).sample(fraction=0.5, seed=4),
        data.filter("x between 500 and 900")
        .sample(fraction=0.05, seed=7)
        .sort("x", descending=True),
        data.limit(1234).sample(fraction=0.05, seed=7),
        data.sample(fraction=1e-9, seed=7),
    ]


def test_samples_of_few_rows_are_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [each.to_arrow() for each in _sampled(tmp_path)]
    monkeypatch.setattr(choosing, "MOST_CHOSEN", 0)
    for number, (got, data) in enumerate(zip(found, _sampled(tmp_path), strict=True)):
        assert got.equals(data.to_arrow()), number
    assert 0 < found[0].num_rows < ROWS / 50


def test_a_sample_reads_its_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, sizes = _in_groups(tmp_path / "in.parquet"), []
    opened = FileReader.open

    def seen(reader: FileReader, item: Any) -> Any:
        sizes.extend(split.size for split in splits_of(item))
        return opened(reader, item)

    monkeypatch.setattr(FileReader, "open", seen)
    found = data.sample(fraction=0.01, seed=5).to_arrow()
    assert sum(sizes) == found.num_rows
    sizes.clear()
    assert data.sample(fraction=0.5, seed=5).to_arrow().num_rows < sum(sizes) == ROWS
