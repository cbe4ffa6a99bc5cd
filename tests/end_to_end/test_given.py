"""Rows that the program gives: every kind of table in memory comes back as it was, and operators read it as files."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.execute import given_input
from exoshuffle.dataset.inputs import storing
from exoshuffle.dataset.inputs.ranges import MAX_PARTS
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import ClosedError, SchemaError
from exoshuffle.operators.core.order import ByKeys, SortKey
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.group_by.aggregate import GroupBy
from exoshuffle.plan.workload import Workload
from exoshuffle.testing.meeting import poll
from tests.support.generated import generated, query
from tests.support.limits import large_memory_limit
from tests.support.oracle import assert_same

pytestmark = pytest.mark.usefixtures("engine")

# Polars starts its threads when it collects for the first time, and they hold descriptors.
pl.LazyFrame({"x": [1]}).collect()

ODD = pa.table(
    {
        "whole": pa.array([3, None, 1, 2], pa.int32()),
        "text": ["a", None, "", "zoë"],
        "view": pa.array(["a" * 30, None, "", "b" * 40], pa.string_view()),
        "word": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "list": [[1], None, [], [2, None]],
        "nested": [{"a": [{"b": 1}]}, None, {"a": None}, {"a": []}],
        "moment": pa.array([0, 1, None, 2], pa.timestamp("us", "Europe/Paris")),
        "price": pa.array([1, None, 3, 4], pa.decimal128(10, 2)),
        "nothing": pa.nulls(4),
        "day": [dt.date(2024, 1, 31), None, dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    }
)

KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "chunks": lambda table: pa.concat_tables([table.slice(i, 1) for i in range(4)]),
    "part of a table": lambda table: pa.concat_tables([table, table, table]).slice(4, 4),
    "reader": lambda table: table.to_reader(max_chunksize=3),
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "dataset": xs.from_arrow,
    "list of batches": lambda table: table.to_batches(max_chunksize=3),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_rows", [0, 4])
def test_arrow_data_comes_back_as_it_was(kind: str, num_rows: int) -> None:
    given = KINDS[kind](ODD)
    if num_rows == 0:
        given = ODD.slice(0, 0)
    dataset = xs.from_arrow(given)
    assert dataset.schema == ODD.schema
    for _ in range(2):  # a reader, too, can be used again
        assert_same(dataset.to_arrow(), ODD.slice(0, num_rows))


def test_frames_of_polars_come_back() -> None:
    frame = pl.DataFrame(
        {
            "i": [1, None, 3],
            "s": ["x", None, "long enough for a view of its own"],
            "c": pl.Series(["u", "v", "u"], dtype=pl.Categorical),
            "e": pl.Series(["u", None, "u"], dtype=pl.Enum(["u", "v"])),
            "l": [["a"], [], None],
            "t": [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), None, None],
        }
    )
    for given in (frame, frame.lazy(), frame.head(0)):
        for take in (xs.from_polars, xs.from_arrow):
            wanted = (
                frame.head(0) if given is not frame and len(given.lazy().collect()) == 0 else frame
            )
            assert pl.DataFrame(take(given)).equals(wanted)


def test_frames_of_pandas_come_without_their_index() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": [1, 2, 3], "s": ["a", None, "c"], "f": [0.5, None, 2.5]})
    wanted = {"x": [2, 3], "s": [None, "c"], "f": [None, 2.5]}
    for take in (xs.from_pandas, xs.from_arrow):
        dataset = take(frame[frame.x > 1])
        assert dataset.to_arrow().to_pydict() == wanted
        assert dataset.schema.metadata is None


def test_duckdb_relations_are_read() -> None:
    relation = duckdb.sql("SELECT range AS i, range % 7 AS k FROM range(10000)")
    totals = xs.from_arrow(relation).group_by("k").agg(n="count", s=("i", "sum")).sort("k")
    wanted = relation.query(
        "r", "SELECT k, count(*) n, sum(i)::BIGINT s FROM r GROUP BY k ORDER BY k"
    )
    assert totals.to_arrow().to_pydict() == wanted.to_arrow_table().to_pydict()


def test_columns_and_items() -> None:
    given = {"x": [1, None], "s": ("a", "b"), "a": pa.array([1.5, 2]), "r": range(2)}
    wanted = {"x": [1, None], "s": ["a", "b"], "a": [1.5, 2], "r": [0, 1]}
    assert xs.from_pydict(given).to_arrow().to_pydict() == wanted
    assert xs.from_dict({"p": pl.Series([1, 2])}).to_arrow().to_pydict() == {"p": [1, 2]}
    rows = [{"a": 1}, {"b": "x", "a": None}]
    assert xs.from_items(rows).to_arrow().to_pylist() == [
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
    ]
    assert xs.from_items(iter([1, None])).to_arrow().to_pydict() == {"item": [1, None]}
    schema = pa.schema([("n", pa.int8()), ("s", pa.string())])
    assert xs.from_items([], schema=schema).to_arrow().schema == schema
    assert xs.from_pydict({"s": ["a"], "n": [1]}, schema=schema).to_arrow().schema == schema


@pytest.mark.parametrize(
    "given",
    [
        (10,),
        (0,),
        (5, 0),
        (2, 9, 3),
        (9, 2, -3),
        (-3, 4),
        (0, 2**62, 2**61),
        (2**63 - 1, -(2**63), -(2**61) - 1),
    ],
)
def test_range(given: tuple[int, ...]) -> None:
    numbers = list(range(*given))
    assert xs.range(*given).to_arrow().to_pydict() == {"id": numbers}
    assert xs.range(*given).sort("id").to_arrow()["id"].to_pylist() == sorted(numbers)


def test_a_range_has_few_parts_however_long_it_is() -> None:
    """Each part is an item in the program's memory: those of 10**14 numbers took 18 GB."""
    rows = xs.range(10**14)
    assert rows.head(2).to_pydict() == {"id": [0, 1]}
    source = given_input(rows.node)
    side = Side(rows.schema, ByKeys((SortKey("id"),)))
    parts = source.cut(side, 1_000_000, Workload(0, 0))
    assert len(parts) <= MAX_PARTS
    assert sum(map(len, parts)) == 10**14


def test_range_keeps_nothing_in_the_store(engine: LocalEngine) -> None:
    dataset = xs.range(10**10)
    assert dataset.limit(3).to_arrow().to_pydict() == {"id": [0, 1, 2]}
    # Tasks that had begun when the limit was reached give their results back when they end.
    poll(lambda: engine.stats()["used_blocks_bytes"] == 0)


def test_range_is_sampled_alike_whatever_the_engine_has() -> None:
    made = [
        (each.sample(20, seed=3).to_arrow(), each.random_shuffle(seed=4).limit(20).to_arrow())
        for each in (xs.range(3_000_000), xs.range(3_000_000).filter("id >= 0"))
    ]
    xs.init(memory_limit=large_memory_limit(), num_cpus=1)
    assert xs.range(3_000_000).sample(20, seed=3).to_arrow() == made[0][0] == made[1][0]
    assert xs.range(3_000_000).random_shuffle(seed=4).limit(20).to_arrow() == made[0][1]
    xs.shutdown()


OPERATORS: dict[str, tuple[Callable[[xs.Dataset], xs.Dataset], str]] = {
    "sort": (
        lambda d: d.sort(["small", "id"]).select("id"),
        "SELECT id FROM source ORDER BY small NULLS LAST, id",
    ),
    "top": (
        lambda d: d.top_k(9, "id").select("id"),
        "SELECT id FROM source ORDER BY id DESC LIMIT 9",
    ),
    "groups": (
        lambda d: d.group_by("small").agg(n="count").sort("small"),
        "SELECT small, count(*) AS n FROM source GROUP BY small ORDER BY small NULLS LAST",
    ),
    "join": (
        lambda d: d.join(d.filter("id % 3 = 0").select("id"), on="id").sort("id").select("id"),
        "SELECT id FROM source WHERE id % 3 = 0 ORDER BY id",
    ),
    "union": (
        lambda d: d.select("id").union(xs.range(5)).sort("id"),
        "(SELECT id FROM source UNION ALL FROM range(5)) ORDER BY id",
    ),
    "function": (
        lambda d: d.select("id").map_batches(lambda t: t.slice(0, 1)).limit(1),
        "SELECT id FROM source LIMIT 1",
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_read_blocks_as_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB is the oracle; the rows are in many blocks."""
    monkeypatch.setattr(storing, "BLOCK_BYTES", 200_000)
    table = generated(20_000, 3)
    run, sql = OPERATORS[name]
    made = run(xs.from_arrow(table)).to_arrow()
    wanted = query(sql, source=table)
    assert made.to_pydict() == wanted.to_pydict()


def test_a_stream_larger_than_memory_is_spilled(engine: LocalEngine) -> None:
    schema = pa.schema([("i", pa.int64()), ("s", pa.string())])
    num_rows = 2 * engine.budget_bytes // 200

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, num_rows, 10_000):
            numbers = range(start, min(num_rows, start + 10_000))
            yield pa.record_batch([list(numbers), [f"{i:0200}" for i in numbers]], schema=schema)

    dataset = xs.from_arrow(pa.RecordBatchReader.from_batches(schema, batches()))
    assert engine.stats()["spilled_bytes"] > engine.budget_bytes // 2
    for _ in range(2):
        totals = dataset.group_by().agg(n="count", s=("i", "sum")).to_arrow().to_pylist()
        assert totals == [{"n": num_rows, "s": num_rows * (num_rows - 1) // 2}]
    assert dataset.filter(f"i = {num_rows - 1}").to_arrow()["s"].to_pylist() == [
        f"{num_rows - 1:0200}"
    ]


def test_views_and_dictionaries_are_stored_by_their_own_values() -> None:
    """A piece of either refers to the values of all rows."""
    words = [f"{i:040}" for i in range(100_000)]
    table = pa.table(
        {"view": pa.array(words, pa.string_view()), "word": pa.array(words).dictionary_encode()}
    )
    dataset = xs.from_arrow(table.slice(500, 300))
    assert dataset.explain().given_bytes < 60_000
    assert dataset.to_arrow().to_pydict() == table.slice(500, 300).to_pydict()


def test_batches_of_one_row_take_no_more_of_the_store_than_the_table() -> None:
    table = generated(3000, 2)
    ones = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=1))
    inputs = [xs.from_arrow(given).node for given in (table, ones)]
    whole, single = (given.num_bytes for given in inputs)
    assert single <= 1.1 * whole


def test_the_bill_counts_rows_in_the_store() -> None:
    table = pa.table({"i": list(range(50_000))})
    bill = xs.from_arrow(table).sort("i").explain()
    assert (bill.given_rows, bill.input_files) == (50_000, 0)
    assert 400_000 <= bill.given_bytes < 420_000
    assert "50,000 rows in the store, 4" in str(bill)
    assert 400_000 <= bill.output_bytes < 500_000
    assert "7 rows made as they are read" in str(xs.range(7).explain())


def test_blocks_go_with_the_last_dataset(engine: LocalEngine) -> None:
    dataset = xs.from_arrow(pa.table({"i": list(range(100_000))}))
    sorted_rows = dataset.sort("i")
    del dataset
    assert engine.stats()["used_blocks_bytes"] > 800_000
    del sorted_rows
    assert engine.stats()["used_blocks_bytes"] == 0


def test_a_stream_that_fails_leaves_nothing(engine: LocalEngine) -> None:
    schema = pa.schema([("i", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([list(range(2_000_000))], schema=schema)
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        xs.from_arrow(pa.RecordBatchReader.from_batches(schema, batches()))
    assert engine.stats()["used_blocks_bytes"] == 0


def test_columns_are_given_and_filled_in_linear_time() -> None:
    """Set one by one, they took more than ten seconds; now two."""
    words = pa.array(["a", None]).dictionary_encode()
    table = pa.table({f"c{i}": words if i == 7 else pa.array([i, None]) for i in range(6000)})
    began = time.process_time()
    filled = xs.from_arrow(table).fill_null(5).to_arrow()
    assert time.process_time() - began < 6
    assert filled["c5999"].to_pylist() == [5999, 5]
    assert filled["c7"].to_pylist() == ["a", None]


def test_few_rows_of_many_columns_are_grouped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of them was combined by queries of 3,000 sums, and the results once more: 7 s of CPU instead of 3."""

    def combined(_: GroupBy, table: pa.Table) -> pa.Table:
        raise AssertionError(f"{table.num_rows} rows are combined first")

    monkeypatch.setattr(GroupBy, "combined", combined)
    names = [f"c{i}" for i in range(50)]
    table = pa.table({"k": [i % 3 for i in range(2000)], **dict.fromkeys(names, range(2000))})
    sums = xs.from_arrow(table).group_by("k").agg(**{name: (name, "sum") for name in names})
    assert sums.to_arrow()["c49"].to_pylist() == [sum(range(k, 2000, 3)) for k in range(3)]


def test_rows_end_with_their_engine() -> None:
    dataset = xs.from_pydict({"x": [1]})
    numbers = xs.range(2)
    xs.shutdown()
    xs.init(memory_limit=large_memory_limit(), num_cpus=1)
    with pytest.raises(
        ClosedError, match="rows of from_pydict were kept by an engine that was clo"
    ):
        dataset.to_arrow()
    assert numbers.to_arrow().num_rows == 2
    xs.shutdown()


def test_written_as_parquet_by_default(tmp_path) -> None:
    dataset = xs.from_pydict({"x": [2, 1]})
    assert (dataset.format, dataset.output_format, dataset.files) == ("memory", "parquet", [])
    dataset.sort("x").write_parquet(tmp_path / "out")
    assert xs.read_parquet(tmp_path / "out").to_arrow().to_pydict() == {"x": [1, 2]}


def test_moments_with_and_without_a_zone_are_refused_together() -> None:
    zoned = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    plain = zoned.replace(tzinfo=None)
    for moments in ([plain, zoned], [zoned, None, plain]):
        with pytest.raises(
            SchemaError, match="some moments have a time zone, and others have none"
        ):
            xs.from_pydict({"t": moments})
        with pytest.raises(SchemaError, match="some moments have a time zone"):
            xs.from_items([{"t": moment} for moment in moments])
    assert xs.from_pydict({"t": [zoned, None]}).to_pydict() == {"t": [zoned, None]}
    assert xs.from_pydict({"t": [plain, None]}).to_pydict() == {"t": [plain, None]}


def test_arrays_of_several_axes_are_tensors() -> None:
    numpy = pytest.importorskip("numpy")
    for array in (numpy.ones((2, 3, 2)), numpy.ones((0, 3)), numpy.ones((4, 2))[::2]):
        made = xs.from_pydict({"t": array})
        assert made.schema.field("t").type == pa.fixed_shape_tensor(pa.float64(), array.shape[1:])
        assert made.count() == len(array)
