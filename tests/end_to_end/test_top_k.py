"""The first rows of a sort are those of DuckDB, whatever finds them: few rows per map, or a sort of all."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.jobs.top import TopJob
from exoshuffle.dataset.jobs.unshuffled import LimitJob
from exoshuffle.dataset.jobs.whole import WholeJob
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, SchemaError
from exoshuffle.operators.core.keys import parse_keys
from tests.support.generated import generated
from tests.support.oracle import ROW, assert_same, expected, with_row_numbers, write_files
from tests.support.shuffled import always_shuffle
from tests.support.tables import distributed

ROWS = 60_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return with_row_numbers(generated(ROWS, keys=500))


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("top") / "in", table, 3, rows_per_group=5000)


@pytest.mark.parametrize("n", [0, 1, 700, 45_000, ROWS, 2 * ROWS])
def test_any_number_of_rows(n: int, table: pa.Table, source: Path, engine: LocalEngine) -> None:
    del engine
    wanted = expected(table, parse_keys("k", True)).slice(0, n)
    assert_same(xs.read_parquet(source).top_k(n, "k").to_arrow(), wanted)


@pytest.mark.parametrize(
    ("by", "descending", "nulls"),
    [
        ("x", True, "last"),
        ("x", False, "first"),
        (["small", "text"], [True, False], ["first", "last"]),
        (["k", "k"], True, "last"),
        ("moment", False, "last"),
    ],
)
def test_order(
    by: object,
    descending: object,
    nulls: object,
    table: pa.Table,
    source: Path,
    engine: LocalEngine,
) -> None:
    """NaN, negative zero, nulls and ties."""
    del engine
    wanted = expected(table, parse_keys(by, descending, nulls)).slice(0, 999)
    assert_same(xs.read_parquet(source).top_k(999, by, descending, nulls).to_arrow(), wanted)


@pytest.mark.parametrize("name", ["all equal", "few distinct", "reversed", "all null", "zipf"])
def test_distributions(name: str, engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    rows = with_row_numbers(distributed(name, 5000))
    write_files(tmp_path / "in", rows, 3, rows_per_group=500)
    wanted = expected(rows, parse_keys("key", True)).slice(0, 37)
    assert_same(xs.read_parquet(tmp_path / "in").top_k(37, "key").to_arrow(), wanted)


def test_a_limit_of_a_sort_is_found_without_sorting(source: Path, engine: LocalEngine) -> None:
    dataset = xs.read_parquet(source)
    execution = Execution(engine)
    for found in (dataset.sort("k").limit(10), dataset.top_k(10, "k")):
        job = execution.job(found.node, "files")
        assert isinstance(job, WholeJob)
        assert job.shuffle.name == "top_k"
        with pytest.MonkeyPatch.context() as patch:
            always_shuffle(patch)
            assert isinstance(execution.job(found.node, "files"), TopJob)
    for asked in ({"num_partitions": 4}, {"strategy": "push"}):
        assert isinstance(
            execution.job(dataset.sort("k", **asked).limit(10).node, "files"), LimitJob
        )
    assert isinstance(execution.job(dataset.limit(10).node, "files"), LimitJob)
    bill = dataset.top_k(10, "k").explain()
    assert (bill.operator, bill.partitions) == ("top_k", 1)
    assert bill.rows == 10 * bill.splits
    run = engine.stats()["num_tasks"]
    dataset.top_k(10, "k").to_arrow()
    assert engine.stats()["num_tasks"] - run == bill.splits + 1


def test_more_rows_than_fit_are_sorted(engine: LocalEngine, tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = pa.table(
        {"key": [rng.getrandbits(40) for _ in range(120_000)], "pad": ["y" * 900] * 120_000}
    )
    write_files(tmp_path / "in", rows, 4, rows_per_group=10_000)
    dataset = xs.read_parquet(tmp_path / "in").top_k(110_000, "key", descending=False)
    assert isinstance(Execution(engine).job(dataset.node, "files"), LimitJob)
    assert dataset.explain().operator == "sort"
    found = dataset.select("key").to_arrow()["key"].to_pylist()
    assert found == sorted(rows["key"].to_pylist())[:110_000]


def test_between_other_operations(table: pa.Table, source: Path, engine: LocalEngine) -> None:
    del engine
    dataset = xs.read_parquet(source)
    best = dataset.filter("small > 1").group_by("k").agg(n="count").top_k(20, ["n", "k"])
    counts: dict[int, int] = {}
    for key, small in zip(*(table[name].to_pylist() for name in ("k", "small")), strict=True):
        if small is not None and small > 1:
            counts[key] = counts.get(key, 0) + 1
    ranked = sorted(((n, key) for key, n in counts.items()), reverse=True)[:20]
    assert [(row["n"], row["k"]) for row in best.to_arrow().to_pylist()] == ranked
    united = dataset.union(dataset).top_k(4, ROW)
    assert united.to_arrow()[ROW].to_pylist() == [ROWS - 1, ROWS - 1, ROWS - 2, ROWS - 2]
    assert united.sort(ROW).limit(1).to_arrow()[ROW].to_pylist() == [ROWS - 2]


def test_mistakes(source: Path) -> None:
    dataset = xs.read_parquet(source)
    with pytest.raises(OptionsError, match="n is -1; it must be a whole number from 0"):
        dataset.top_k(-1, "k")
    with pytest.raises(OptionsError, match="descending has 2 values for 1 column in by="):
        dataset.top_k(1, "k", [True, False])
    with pytest.raises(SchemaError, match="kye"):
        dataset.top_k(1, "kye")


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_keys_of_views_behind_others(
    view: pa.DataType, descending: bool, engine: LocalEngine
) -> None:
    """pyarrow picks no rows of views, and many rows are left out by the first key."""
    del engine
    numbers = [row * 7919 % 1000 for row in range(5000)]
    texts = pa.array([f"{row % 37}" for row in range(5000)], pa.string())
    plain = pa.table({"n": numbers, "s": texts, "row": range(5000)})
    views = plain.set_column(1, "s", texts.cast(view))
    order = [("n", "descending" if descending else "ascending"), ("s", "ascending")]
    wanted = plain.sort_by([*order, ("row", "ascending")]).slice(0, 10)
    made = xs.from_arrow(views).top_k(10, ["n", "s"], descending=[descending, False]).to_arrow()
    assert made.schema.field("s").type == view
    assert made["row"].to_pylist() == wanted["row"].to_pylist()
