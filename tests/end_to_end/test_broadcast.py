"""Joins with a small side, on either side, and cross joins of any size: no shuffle, and the rows are DuckDB's."""

from __future__ import annotations

import collections
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.jobs import small_sides, unshuffled
from exoshuffle.dataset.jobs.small_sides import SmallSide
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError
from exoshuffle.futures import current_engine
from exoshuffle.operators.join.join import HOWS
from exoshuffle.plan.workload import Workload
from tests.support.generated import assert_same_rows, generated, query
from tests.support.oracle import write_files
from tests.support.shuffled import always_shuffle

FEW, MANY = 40, 3_000
LIMIT_BYTES = 4_000
#: Joins that need no shuffle where this side is small.
UNSHUFFLED = {"left": ("inner", "right"), "right": ("inner", "left", "semi", "anti")}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """Few and many rows; keys repeat in both, and some of each are missing in the other."""
    few = query("select k, id as few, text from t", t=generated(FEW, keys=60, seed=1))
    many = query("select k + 20 as k, id as many, x from t", t=generated(MANY, keys=60, seed=2))
    return {"few": few, "many": many}


@pytest.fixture(scope="module")
def folder(tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("broadcast")
    for name, table in tables.items():
        write_files(made / name, table, 3, rows_per_group=100)
    return made


@pytest.fixture
def tasks(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[collections.Counter[str]]:
    """Tasks that have run, by name; the few rows count as small, and scans read little at a time."""
    always_shuffle(monkeypatch)
    monkeypatch.setattr(small_sides, "MAX_BROADCAST_BYTES", LIMIT_BYTES)
    monkeypatch.setattr(unshuffled, "MAX_SCAN_BYTES", 5_000)
    monkeypatch.setattr(unshuffled, "MIN_SCAN_BYTES", 1)
    counts: collections.Counter[str] = collections.Counter()

    def count(event: object) -> None:
        counts[event.name] += 1  # type: ignore[attr-defined]

    engine.add_observer(count)
    yield counts
    engine.remove_observer(count)


def dataset(folder: Path, name: str) -> xs.Dataset:
    return xs.read_parquet(folder / name)


@pytest.mark.parametrize("small", ["left", "right"])
@pytest.mark.parametrize("how", [how for how in HOWS if how != "cross"])
@pytest.mark.parametrize("shuffled", [False, True], ids=["read", "shuffled before"])
def test_a_small_side_is_given_to_every_task(
    how: str,
    small: str,
    shuffled: bool,
    folder: Path,
    tables: dict[str, pa.Table],
    tasks: collections.Counter[str],
) -> None:
    names = ("few", "many") if small == "left" else ("many", "few")
    sides = [dataset(folder, name) for name in names]
    if shuffled:
        sides = [side.repartition(3) for side in sides]
    joined = sides[0].join(sides[1], on="k", how=how).to_arrow()
    xs.shutdown()  # the last events come after the last result
    left, right = (tables[name] for name in names)
    others = "" if how in ("semi", "anti") else ", r.* exclude (k)"
    sql = f"select k, l.* exclude (k){others} from l {how} join r using (k)"  # noqa: S608  ours
    assert_same_rows(joined, query(sql, l=left, r=right))
    joins = tasks["reduce"] - 6 * shuffled
    assert joins == 0 if how in UNSHUFFLED[small] else joins > 0


@pytest.mark.parametrize("how", ["left", "semi"])
@pytest.mark.parametrize("few_tasks", [False, True], ids=["many tasks", "few tasks"])
def test_a_side_of_more_rows_than_tasks_read_is_looked_up_alone(
    how: str,
    few_tasks: bool,
    folder: Path,
    tables: dict[str, pa.Table],
    tasks: collections.Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of many tasks would make groups of 1,500 rows, and read a hundred of the other side."""
    monkeypatch.setattr(small_sides, "MAX_BROADCAST_BYTES", 10**9)
    if few_tasks:
        monkeypatch.setattr(unshuffled, "MAX_SCAN_BYTES", 10**6)
        monkeypatch.setattr(unshuffled, "MIN_SCAN_BYTES", 10**6)
    many = dataset(folder, "many")
    half = many.filter("many < 1500").select("many", k="many % 50")
    joined = many.select("k", "x").join(half, on="k", how=how)
    found = joined.to_arrow()
    xs.shutdown()
    others = "" if how == "semi" else ", r.many"
    sql = f"select k, l.x{others} from l {how} join r using (k)"  # noqa: S608  ours
    right = query("select many, many % 50 as k from t where many < 1500", t=tables["many"])
    assert_same_rows(found, query(sql, l=tables["many"], r=right))
    assert (tasks["reduce"] > 0) == (how == "left" and not few_tasks)


@pytest.mark.parametrize("how", ["inner", "right"])
def test_rows_of_a_part_come_in_the_order_of_the_left_side(
    how: str, folder: Path, tasks: collections.Counter[str]
) -> None:
    joined = dataset(folder, "few").join(dataset(folder, "many"), on="k", how=how)
    parts = [batch.select(["few", "many"]).to_pylist() for batch in joined.iter_batches()]
    assert len(parts) > 3
    for part in parts:
        pairs = [(row["few"] is None, row["few"], row["many"]) for row in part]
        assert pairs == sorted(pairs, key=lambda pair: (pair[0], pair[1] or 0, pair[2]))
    assert not tasks["map"]


@pytest.mark.parametrize("small", ["left", "right"])
def test_what_was_asked_for_is_done(small: str, folder: Path, engine: LocalEngine) -> None:
    del engine
    names = ("few", "many") if small == "left" else ("many", "few")
    left, right = (dataset(folder, name) for name in names)
    result = left.join(right, on="k", num_partitions=4).write_parquet(folder / f"four-{small}")
    assert result.plan is not None
    assert (result.plan.num_partitions, len(result.files)) == (4, 4)
    result = left.join(right, on="k", strategy="push").write_parquet(folder / f"push-{small}")
    assert result.plan is not None
    assert result.plan.strategy == "push"
    assert left.join(right, on="k").write_parquet(folder / f"none-{small}").plan is None


def test_what_was_asked_for_is_done_by_the_command(folder: Path, command, tmp_path: Path) -> None:
    arguments = ["join", folder / "many", folder / "few", tmp_path / "out", "--on", "k", "--json"]
    done = command(*arguments, "--memory-limit", "2GB", "--partitions", 5)
    assert json.loads(done.out)["plan"]["num_partitions"] == 5
    done = command(*arguments, "--memory-limit", "2GB", "--strategy", "push", "--overwrite")
    assert json.loads(done.out)["plan"]["strategy"] == "push"


@pytest.mark.parametrize("names", [*itertools.product(["few", "many"], repeat=2)], ids="-".join)
@pytest.mark.parametrize("limit_bytes", [LIMIT_BYTES, 0])
@pytest.mark.usefixtures("tasks")
def test_cross_joins_of_any_size(
    names: tuple[str, str],
    limit_bytes: int,
    folder: Path,
    tables: dict[str, pa.Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(small_sides, "MAX_BROADCAST_BYTES", limit_bytes)
    sides = [dataset(folder, name).filter(f"{name} < 500").select("k", row=name) for name in names]
    joined = sides[0].join(sides[1], how="cross")
    result = joined.to_arrow()
    sql = "select l.k, l.row, r.k as k_right, r.row as row_right from l cross join r"
    l, r = (  # noqa: E741  DuckDB finds them by these names
        query(f"select k, {name} as row from t where {name} < 500", t=tables[name])  # noqa: S608  ours
        for name in names
    )
    assert_same_rows(result, query(sql, l=l, r=r))
    # A batch is of one part.
    pairs = [
        list(zip(*(batch[name].to_pylist() for name in ("row", "row_right")), strict=True))
        for batch in joined.iter_batches()
    ]
    assert all(part == sorted(part) for part in pairs)


def test_a_cross_join_goes_by_pieces(
    folder: Path, tasks: collections.Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_sides, "MAX_BROADCAST_BYTES", 0)
    many = dataset(folder, "many").select("many").filter("many % 10 = 0")
    joined = many.join(many.sample(fraction=0.5, seed=1), how="cross")
    num_rows = sum(batch.num_rows for batch in joined.iter_batches())
    xs.shutdown()
    # Reading made a block of each piece, of either side alike.
    assert tasks["cross"] == (tasks["scan"] // 2) ** 2 > 10
    assert num_rows % 300 == 0


def test_a_cross_join_of_what_was_shuffled(
    folder: Path, tables: dict[str, pa.Table], tasks: collections.Counter[str]
) -> None:
    many = dataset(folder, "many").group_by("k").agg(n="count", texts=("many", "list"))
    joined = many.select("k", "texts").join(many.select("n"), how="cross").select("k", "n")
    sql = "with g as (select k, count(*) as n from t group by k) select a.k, b.n from g a, g b"
    assert_same_rows(joined.to_arrow(), query(sql, t=tables["many"]))
    assert tasks


@pytest.mark.parametrize("small", ["left", "right"])
@pytest.mark.usefixtures("tasks")
def test_a_cross_join_has_the_partitions_that_were_asked_for(small: str, folder: Path) -> None:
    names = ("few", "many") if small == "left" else ("many", "few")
    left, right = (dataset(folder, name) for name in names)
    joined = left.join(right, how="cross", num_partitions=5, strategy="push")
    result = joined.write_parquet(folder / f"cross-{small}")
    assert (len(result.files), result.rows) == (5, FEW * MANY)
    assert result.plan is not None
    assert result.plan.strategy == "push"
    several = left.union(left, left) if small == "right" else right.union(right, right)
    with pytest.raises(OptionsError, match=r"more than 4\.00 kB .* repartition\(\) its result"):
        several.join(several, how="cross", num_partitions=5).to_arrow()


#: Between the blocks that are looked at: the rows that nobody measured.
LONG_TEXTS = 200


def hiding(num_short: int = 4_000) -> pa.Table:
    """Rows of few bytes, and some long ones among them."""
    texts = ["" if i % (num_short // LONG_TEXTS) else "x" * 900 for i in range(num_short)]
    return pa.table({"k": range(num_short), "text_of": texts})


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti", "cross"])
def test_a_side_that_proves_large_is_not_given_to_every_task(
    how: str,
    folder: Path,
    tables: dict[str, pa.Table],
    tasks: collections.Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = query("select k, few from t", t=tables["few"])
    keys = {} if how == "cross" else {"on": "k"}
    joined = (
        dataset(folder, "few").select("k", "few").join(xs.from_arrow(hiding()), how=how, **keys)
    )
    wrong = Workload(1_000, 10)
    monkeypatch.setattr(small_sides, "rows_size", lambda *_: wrong)
    monkeypatch.setattr(SmallSide, "most", None)
    monkeypatch.setattr(small_sides, "BROADCAST_SHARE", current_engine().budget_bytes // 10_000)
    bill = joined.explain(results="batches")
    assert "given to every task" in bill.operator
    instead = "goes piece by piece" if how == "cross" else "is shuffled"
    assert f"is an estimate: if it proves too large, the join {instead}" in bill.why
    found = joined.to_arrow()
    xs.shutdown()
    assert tasks["cross" if how == "cross" else "reduce"] > 0
    others = "" if how in ("semi", "anti") else ", r.* exclude (k)"
    sql = f"select k, l.* exclude (k){others} from l {how} join r using (k)"  # noqa: S608  ours
    if how == "cross":
        sql = "select l.*, r.k as k_right, r.text_of from l cross join r"
    assert_same_rows(found, query(sql, l=few, r=hiding()))


def test_a_side_that_proves_to_have_too_many_rows_is_shuffled(
    folder: Path, tasks: collections.Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = dataset(folder, "few").join(xs.from_arrow(hiding(200)), on="k", how="left")
    monkeypatch.setattr(SmallSide, "most", Workload(100, 10))
    share = current_engine().budget_bytes // (99 * current_engine().num_cpus)
    monkeypatch.setattr(small_sides, "BROADCAST_ROW_SHARE", share)
    assert "estimate" not in joined.explain(results="batches").why
    assert joined.to_arrow().num_rows == FEW
    xs.shutdown()
    assert tasks["reduce"] > 0
