"""Filters read less: rows that statistics rule out are not read, and the result is that of DuckDB on all rows."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs import narrowing
from exoshuffle.operators.core import picking
from tests.support.duck import duck

ROWS = 3000
START = dt.datetime(2024, 3, 30, 20, tzinfo=dt.timezone.utc)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Narrows files of any size."""
    monkeypatch.setattr(narrowing, "SMALL_BYTES", 0)
    monkeypatch.setattr(narrowing, "SMALL_FILE_BYTES", 0)
    with xs.init(memory_limit="400MB", num_cpus=2):
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
    assert skipped > 0
