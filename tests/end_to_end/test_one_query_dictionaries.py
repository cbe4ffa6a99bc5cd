"""Dictionaries of text in the one query: DuckDB reads them as they are, and the result has dictionaries again."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

import exoshuffle as xs
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.operators.one_query import files
from tests.support.one_query import as_shuffled, counted_queries
from tests.support.oracle import assert_same, write_files

pytestmark = pytest.mark.shares_engine

NUM_ROWS = 1_200
LONG = pa.dictionary(pa.int32(), pa.large_string())
ORDERED = pa.dictionary(pa.int16(), pa.string(), ordered=True)


@pytest.fixture(scope="module", autouse=True)
def _engine() -> Iterator[None]:
    xs.init(num_cpus=2, memory_limit="2GB")
    yield
    xs.shutdown()


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    return counted_queries(monkeypatch)


def _batch(start: int, count: int) -> pa.RecordBatch:
    """Rows whose dictionaries are in another order in each batch."""
    rows = range(start, start + count)
    words = pa.array([f"w{(i + start) % 41}" for i in range(41)])
    keys = pa.array([i % 41 if i % 9 else None for i in rows], pa.int16())
    return pa.record_batch(
        {
            "word": pa.DictionaryArray.from_arrays(keys, words),
            "town": pa.array([f"town number {i % 13}" for i in rows]).cast(LONG),
            "size": pa.array(["xs s m l"[i % 7 : i % 7 + 2] for i in rows]).cast(ORDERED),
            "value": pa.array(rows, pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.Table.from_batches([_batch(start, 150) for start in range(0, NUM_ROWS, 150)])


@pytest.fixture(params=["open", "streams", "ipc", "given"])
def rows(
    request: pytest.FixtureRequest,
    table: pa.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Dataset:
    if request.param == "given":
        return xs.from_arrow(table)
    if request.param == "ipc":
        with pa.ipc.new_stream(tmp_path / "a.arrow", table.schema) as file:
            file.write_table(table)
        return xs.read_ipc(tmp_path / "a.arrow")
    monkeypatch.setattr(files, "can_open", lambda *_: request.param == "open")
    return xs.read_parquet(write_files(tmp_path / "in", table, 2, 200))


def _assert_alike(rows: Dataset, *keys: str) -> None:
    wanted = as_shuffled(rows).to_arrow()
    found = rows.to_arrow()
    assert found.schema.equals(wanted.schema, check_metadata=True)
    plain = pa.schema([(f.name, getattr(f.type, "value_type", f.type)) for f in wanted.schema])
    order = [(key, "ascending") for key in keys]
    assert_same(found.cast(plain).sort_by(order), wanted.cast(plain).sort_by(order))


def test_groups_joins_and_conditions(rows: Dataset, counts: collections.Counter[str]) -> None:
    groups = rows.filter("word > 'w1' or word is null").group_by("word", "size")
    _assert_alike(
        groups.agg(
            n="count",
            known=("word", "count"),
            least=("town", "min"),
            most=("word", "max"),
            towns=("town", "count_distinct"),
            total=("value", "sum"),
        ),
        "word",
        "size",
    )
    towns = pa.table({"place": [f"town number {i}" for i in range(3)], "km": [3, 1, 2]})
    joined = rows.join(xs.from_arrow(towns), left_on="town", right_on="place")
    _assert_alike(joined.group_by("town", "km").agg(n="count"), "town")
    assert counts == {"query": 2}


def test_sorts(rows: Dataset, counts: collections.Counter[str]) -> None:
    groups = rows.group_by("size", "word").agg(n="count")
    ordered = groups.sort(["size", "word"], descending=[True, False])
    assert_same(ordered.to_arrow(), as_shuffled(ordered).to_arrow())
    assert counts == {"query": 1}
