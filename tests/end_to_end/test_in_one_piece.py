"""Trees in one piece against the same trees shuffled: the same rows, types and order of ties, whatever the tree is.

Also against the same trees with all columns, which ``tree.needed`` leaves out where nothing needs them.

A seeded generator makes the trees. Rows have nulls, NaN, −0.0, empty text, keys that repeat, dictionaries, views,
decimals, zones and lists.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset import execute, taken
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.jobs import first_rows, fitting, one_query, whole
from exoshuffle.dataset.jobs.whole import finish_whole
from exoshuffle.dataset.tree.strategies import with_strategy
from exoshuffle.errors import InputError, MemoryLimitError
from exoshuffle.futures import current_engine
from exoshuffle.operators.core.readers import FileReader
from exoshuffle.operators.group_by.aggregate import GroupBy
from tests.support.generated import assert_same_rows, generated
from tests.support.matrix import cut_small
from tests.support.oracle import assert_same, write_files

pytestmark = pytest.mark.shares_engine

NUM_TREES = 60
HOWS = ["inner", "left", "right", "full", "semi", "anti"]
AGGREGATES: list[tuple[Any, ...]] = [
    ("count", ""),
    ("k", "count"),
    ("k", "sum"),
    ("f", "sum"),
    ("d", "sum"),
    ("f", "min"),
    ("f", "max"),
    ("s", "max"),
    ("t", "min"),
    ("c", "min"),
    ("s", "count_distinct"),
    ("k", "mean"),
    ("k", "median"),
    ("b", "any"),
    ("v", "max"),
    ("d", "top_k", 2),
]
FILTERS = ["k > 3", "f > 0", "s <> ''", "d is not null", "k % 2 = 0 or b", "k < 0", "c = 'red'"]
KEYS = ["k", "s", "f", "d", "t", "b", "c", "v"]


@pytest.fixture(scope="module", autouse=True)
def _engine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        xs.init(num_cpus=2, memory_limit="2GB")
        yield
        xs.shutdown()


def table_of(rng: random.Random, num_rows: int, first: int) -> pa.Table:
    def some(make: Callable[[], object]) -> list[object]:
        return [None if rng.random() < 0.15 else make() for _ in range(num_rows)]

    moments = [
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(hours=i) for i in range(5)
    ]
    texts = ["", "a", "ä", "B", "b", "long text of more than twelve bytes"]
    floats = [float("nan"), -0.0, 0.0, 1.0, -2.0, float("inf")]
    return pa.table(
        {
            "id": pa.array(range(first, first + num_rows), pa.int64()),
            "k": pa.array(some(lambda: rng.randrange(-2, 9)), pa.int32()),
            "s": pa.array(some(lambda: rng.choice(texts)), pa.string()),
            "f": pa.array(some(lambda: rng.choice(floats)), pa.float64()),
            "d": pa.array(some(lambda: decimal.Decimal(rng.randrange(9)) / 4), pa.decimal128(9, 2)),
            "t": pa.array(some(lambda: rng.choice(moments)), pa.timestamp("us", "Europe/Berlin")),
            "b": pa.array(some(lambda: rng.random() < 0.5), pa.bool_()),
            "c": pa.array(
                some(lambda: rng.choice(["red", "green", ""])), pa.string()
            ).dictionary_encode(),
            "v": pa.array(some(lambda: rng.choice(texts)), pa.string_view()),
            "n": pa.array(some(lambda: [rng.randrange(3)]), pa.list_(pa.int64())),
        }
    )


def tree_of(rng: random.Random, rows: Dataset, others: Dataset) -> tuple[Dataset, bool]:
    """A tree, and whether its result has an order."""
    is_ordered = False
    for _ in range(rng.randrange(1, 5)):
        names = rows.schema.names
        keys = [name for name in KEYS if name in names]
        made = rng.choice(
            ["filter", "select", "group", "join", "beside", "distinct", "few", "sort", "top"]
        )
        has_all = set(KEYS) <= set(names)
        if made == "filter" and has_all:
            rows, is_ordered = rows.filter(rng.choice(FILTERS)), False
        elif made == "select" and has_all:
            rows = rows.with_columns(e="k * 2", g="f + 1")
        elif made == "group" and has_all:
            by = rng.sample(keys, rng.randrange(3))
            chosen = [it for it in rng.sample(AGGREGATES, 4) if it[0] not in by]
            named = {f"r{i}": it if it[1] else "count" for i, it in enumerate(chosen)}
            rows, is_ordered = rows.group_by(*by).agg(n="count", **named), False
        elif made == "join" and has_all and "id_right" not in names:
            on = rng.sample(keys, rng.randrange(1, 3))
            rows, is_ordered = rows.join(others, on=on, how=rng.choice(HOWS)), False
        elif made == "beside" and has_all and "m" not in names:
            # Both sides read the same rows, and need other columns of them.
            groups = rows.group_by("s").agg(m="count", most=("id", "max"))
            rows, is_ordered = rows.join(groups, on="s").filter("id <= most").drop("most"), False
        elif made == "distinct" and keys:
            rows, is_ordered = rows.select(*keys).distinct(), False
        elif made == "few" and keys:
            some = rng.sample(keys, rng.randrange(1, len(keys) + 1))
            rows, is_ordered = rows.select(*some).distinct().group_by(some[0]).agg(n="count"), False
        elif made in ("sort", "top") and keys:
            # All columns that can be: rows that are equal then are the same.
            rng.shuffle(keys)
            every = [*keys, *(name for name in names if name.startswith(("id", "r", "s_", "e")))]
            every = [
                n for n in dict.fromkeys(every) if not pa.types.is_nested(rows.schema.field(n).type)
            ]
            down = [rng.random() < 0.5 for _ in every]
            rows = rows.sort(every, descending=down, nulls=rng.choice(["first", "last"]))
            is_ordered = set(every) >= set(names) - {"n", "g"}
            if made == "top" and is_ordered:
                rows = rows.limit(rng.choice([0, 1, 7, 1000]))
    return rows, is_ordered


def in_any_order(table: pa.Table) -> list[str]:
    # −0.0 equals 0.0, and either may stand for a group.
    return sorted(repr(row).replace("-0.0", "0.0") for row in table.to_pylist())


@pytest.mark.parametrize("seed", range(NUM_TREES))
def test_rows_are_those_of_a_shuffle(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    sides = []
    for name in ("left", "right"):
        table = table_of(rng, rng.choice([0, 1, 50, 200]), rng.choice([0, 1000]))
        given = write_files(tmp_path / name, table, rng.choice([1, 3]), 40)
        sides.append(xs.read_parquet(given) if seed % 3 else xs.from_arrow(table))
    tree, is_ordered = tree_of(rng, *sides)
    whole = Dataset(with_strategy(tree.node, "whole")).to_arrow()
    shuffled = Dataset(with_strategy(tree.node, "simple")).to_arrow()
    monkeypatch.setattr(one_query, "MIN_BYTES", 0)
    with_queries = tree.to_arrow()
    monkeypatch.setattr(taken, "pruned", lambda node: node)
    of_all_columns = Dataset(with_strategy(tree.node, "simple")).to_arrow()
    for found in (whole, with_queries, of_all_columns):
        if is_ordered:
            assert_same(found, shuffled)
        assert found.schema.equals(shuffled.schema, check_metadata=True)
        assert in_any_order(found) == in_any_order(shuffled)


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    """Few rows run in one piece, as they do where nobody says otherwise; counts the tasks that have run, by name."""
    monkeypatch.setattr(fitting, "MAX_READ_BYTES", 10**9)
    counts: collections.Counter[str] = collections.Counter()
    monkeypatch.setattr(
        whole, "finish_whole", lambda *args: counts.update(["whole"]) or finish_whole(*args)
    )
    return counts


def operators(rows: Dataset) -> dict[str, Dataset]:
    return {
        "group_by": rows.group_by("k").agg(n="count", total=("id", "sum")),
        "distinct": rows.distinct(["k", "small"]),
        "join": rows.join(rows.select("id", other="k"), on="id", how="left"),
        "top_k": rows.sort(["small", "text"], descending=[True, False]).limit(300),
    }


OPERATORS = ["group_by", "distinct", "join", "top_k"]


@pytest.mark.parametrize("name", OPERATORS)
def test_few_rows_run_in_one_piece(
    name: str, roomy: collections.Counter[str], tmp_path: Path
) -> None:
    rows = xs.read_parquet(write_files(tmp_path / "in", generated(3_000), 2, 500))
    made = operators(rows)[name]
    bill = made.explain(results="batches")
    assert (bill.operator, bill.strategy, bill.partitions) == (name, "whole", 1)
    assert bill.why == "in one piece, since all rows fit into one task"
    found = made.to_arrow()
    assert roomy["whole"] == 1
    plain = made.explain(results="batches", strategy="simple")
    assert (plain.operator, plain.strategy) == (name if name != "top_k" else "sort", "simple")
    assert "not in one piece" not in plain.why
    assert_same_rows(found, Dataset(with_strategy(made.node, "simple")).to_arrow())


def test_few_rows_are_not_combined_first(
    roomy: collections.Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = xs.read_parquet(write_files(tmp_path / "in", generated(3_000), 2, 500))
    combined: list[int] = []
    pays = GroupBy.combining_pays
    monkeypatch.setattr(
        GroupBy, "combining_pays", lambda self, rows: combined.append(1) or pays(self, rows)
    )
    made = operators(rows)["group_by"]
    at_once = made.to_arrow()
    assert (roomy["whole"], combined) == (1, [])
    monkeypatch.setattr(fitting, "FEW_ROWS", 0)
    monkeypatch.setattr(fitting, "FEW_BYTES", 0)
    assert made.to_arrow().equals(at_once)
    assert roomy["whole"] == 2
    assert combined


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("reason", ["size", "memory"])
def test_what_does_not_fit_is_shuffled_from_the_store(
    name: str,
    reason: str,
    roomy: collections.Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    rows = xs.read_parquet(write_files(tmp_path / "in", generated(3_000), 2, 500))
    made = operators(rows)[name]
    wanted = Dataset(with_strategy(made.node, "simple")).to_arrow()
    opened: list[object] = []
    monkeypatch.setattr(
        FileReader, "open", lambda self, item: opened.append(item) or open_file(self, item)
    )
    if reason == "size":
        monkeypatch.setattr(fitting, "MAX_BYTES", 0)
    else:
        monkeypatch.setattr(whole, "finish_whole", without_memory)
    assert_same_rows(made.to_arrow(), wanted)
    assert roomy["whole"] == 0
    assert len(opened) == len(set(map(str, opened)))


open_file = FileReader.open


def test_rows_are_read_again_where_a_shuffle_does_not_fit_beside_them(
    roomy: collections.Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = xs.read_parquet(write_files(tmp_path / "in", generated(3_000), 2, 500))
    monkeypatch.setattr(fitting, "MAX_BYTES", 0)
    for choosing in (execute, first_rows):
        monkeypatch.setattr(choosing, "fitting_job", lambda _: None)
    for made in operators(rows).values():
        wanted = Dataset(with_strategy(made.node, "simple")).to_arrow()
        assert_same_rows(made.to_arrow(), wanted)
    assert roomy["whole"] == 0


def test_a_side_that_is_no_scan_is_not_made_beside_a_small_one(
    roomy: collections.Counter[str], tmp_path: Path
) -> None:
    rows = xs.read_parquet(write_files(tmp_path / "in", generated(3_000), 2, 500))
    few = rows.filter("id < 9").select("id", other="k")
    execution = execute.Execution(current_engine())
    job = execution.job(rows.random_shuffle(3).join(few, on="id").node, "batches")
    assert job.plan is not None  # that of the random shuffle, which streams into the join
    assert roomy["whole"] == 0


def without_memory(*args: object) -> object:
    del args
    raise MemoryLimitError("DuckDB found no memory")


def test_an_error_of_the_rows_is_no_reason_to_shuffle_them(
    roomy: collections.Counter[str], tmp_path: Path
) -> None:
    # Each input has one row, so the sum is out of range in the last task alone.
    large = pa.table({"d": pa.array([decimal.Decimal(9 * 10**37)], pa.decimal128(38, 0))})
    rows = xs.read_parquet(write_files(tmp_path / "in", large, 1, 1))
    with pytest.raises(InputError, match="cast the column to double first"):
        rows.union(rows).group_by().agg(total=("d", "sum")).to_arrow()
    assert roomy["whole"] == 1


def test_files_are_written_from_one_piece(roomy: collections.Counter[str], tmp_path: Path) -> None:
    rows = xs.read_parquet(write_files(tmp_path / "in", generated(3_000), 2, 500))
    for name, made in operators(rows).items():
        wanted = made.to_arrow()
        made.write_parquet(tmp_path / name)
        assert_same(xs.read_parquet(tmp_path / name).to_arrow(), wanted)
        made.write_csv(tmp_path / f"{name}.csv") if "nested" not in made.columns else None
    assert roomy["whole"] >= 2 * len(OPERATORS)
