"""Group-bys and sorts that one query computes with all that they read, against the same shuffled; and others.

Random trees are in ``test_in_one_piece``, and TPC-H's queries in ``test_tpch``.
"""

from __future__ import annotations

import collections
import decimal
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.jobs import looking, one_query, query_writing
from exoshuffle.errors import CorruptFileError, InputError
from exoshuffle.futures import Ref, RefStream, current_engine
from exoshuffle.operators.core.sink import Sink
from exoshuffle.operators.group_by.direct import MOST_TOP
from exoshuffle.operators.one_query import columns, relation
from exoshuffle.operators.sql import databases
from tests.support.one_query import as_shuffled, counted_queries, part_of
from tests.support.oracle import assert_same, write_files

pytestmark = pytest.mark.shares_engine

NUM_ROWS = 3_000


@pytest.fixture(scope="module", autouse=True)
def _engine() -> Iterator[None]:
    xs.init(num_cpus=2, memory_limit="2GB")
    yield
    xs.shutdown()


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    return counted_queries(monkeypatch)


@pytest.fixture
def sales(tmp_path: Path) -> Dataset:
    rows = range(NUM_ROWS)
    table = pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "shop": pa.array([i % 7 if i % 11 else None for i in rows], pa.int32()),
            "name": pa.array([f"n{i % 5}" for i in rows], pa.string_view()),
            "Name": pa.array([f"N{i % 3}" for i in rows], pa.string()),
            'a "b"': pa.array([i % 4 for i in rows], pa.uint64()),
            "price": pa.array([decimal.Decimal(i % 90) / 4 for i in rows], pa.decimal128(9, 2)),
            "weight": pa.array([i / 8 for i in rows], pa.float64()),
        }
    )
    return xs.read_parquet(write_files(tmp_path / "sales", table, 3, 200))


@pytest.fixture
def shops(tmp_path: Path) -> Dataset:
    table = pa.table(
        {
            "shop": pa.array([0, 1, 2, 2, 5, None], pa.int64()),
            "town": pa.array(["A", "B", "C", "C2", None, "D"], pa.string()),
            "size": pa.array([decimal.Decimal(i) for i in range(6)], pa.decimal128(20, 3)),
        }
    )
    return xs.read_parquet(write_files(tmp_path / "shops", table, 1, 100))


def assert_alike(rows: Dataset, *keys: str) -> None:
    found, wanted = rows.to_arrow(), as_shuffled(rows).to_arrow()
    assert found.schema.equals(wanted.schema, check_metadata=True)
    order = [(key, "ascending") for key in keys]
    if not keys:
        assert_same(found, wanted)
        return
    plain = pa.schema(
        [f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in wanted.schema]
    )
    assert_same(found.cast(plain).sort_by(order), wanted.cast(plain).sort_by(order))


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("smaller", ["right", "left"])
def test_joins_of_any_kind(
    how: str, smaller: str, sales: Dataset, shops: Dataset, counts: collections.Counter[str]
) -> None:
    left, right = (sales, shops) if smaller == "right" else (shops, sales)
    rows = left.filter("shop is null or shop <> 1").join(right, on="shop", how=how)
    groups = rows.group_by("shop").agg(n="count")
    assert_alike(groups, "shop")
    assert counts == {"query": 1}


def test_functions_and_columns_of_any_name(
    sales: Dataset, shops: Dataset, counts: collections.Counter[str]
) -> None:
    rows = sales.with_columns(twice="price * 2", up="upper(\"Name\") || '!'")
    rows = rows.rename({"Name": "exoshuffle 1"}).drop("id").join(shops, on="shop", how="left")
    groups = rows.group_by("name", 'a "b"').agg(
        n="count",
        known=("town", "count"),
        towns=("town", "count_distinct"),
        total=("twice", "sum"),
        shops=("shop", "sum"),
        mean=("size", "mean"),
        least=("exoshuffle 1", "min"),
        most=("up", "max"),
        largest=("price", "max"),
        others=('a "b"', "sum"),
    )
    assert_alike(groups, "name", 'a "b"')
    assert counts == {"query": 1}


def test_largest_values(sales: Dataset, counts: collections.Counter[str]) -> None:
    rows = sales.with_columns(day="DATE '2024-01-01' + id::int % 50", less="-weight - 1")
    groups = rows.group_by("name").agg(
        n="count",
        none=("less", "top_k", 1),
        shops=("shop", "top_k", 3),
        days=("day", "top_k", 2),
        prices=("price", "top_k", MOST_TOP),
    )
    assert_alike(groups, "name")
    nothing = rows.filter("shop is null").group_by("name").agg(x=("shop", "top_k", 3))
    assert nothing.to_arrow()["x"].to_pylist() == [None] * 5
    assert counts == {"query": 2}
    # The query ends with these groups.
    best = groups.with_columns(best="shops[1]").group_by("best").agg(n="count")
    assert_alike(best, "best")


@pytest.mark.parametrize(("column", "count"), [("id", MOST_TOP + 1), ("Name", 2), ("name", 2)])
def test_largest_values_that_take_much_memory_are_shuffled(
    column: str, count: int, sales: Dataset, counts: collections.Counter[str]
) -> None:
    groups = sales.group_by("shop").agg(largest=(column, "top_k", count))
    assert groups.explain(results="batches").strategy != "query"
    assert not counts


def test_groups_come_in_the_order_of_their_keys(sales: Dataset) -> None:
    found = sales.group_by("shop").agg(n="count").to_arrow()["shop"].to_pylist()
    assert found == [0, 1, 2, 3, 4, 5, 6, None]


@pytest.mark.parametrize("condition", ["id < 0", "true"])
def test_all_rows_are_one_group_even_without_rows(
    condition: str, sales: Dataset, counts: collections.Counter[str]
) -> None:
    rows = sales.filter(condition)
    assert_alike(rows.group_by().agg(n="count", total=("price", "sum"), top=("name", "max")))
    assert_alike(rows.group_by().agg(n="count"))
    assert rows.group_by("name").agg(n="count").to_arrow().num_rows == (
        5 if "<" not in condition else 0
    )
    assert counts["failed"] == 0
    assert counts["query"]


def test_unions_rows_in_memory_and_results_of_other_operators(
    sales: Dataset, shops: Dataset, counts: collections.Counter[str]
) -> None:
    given = xs.from_arrow(shops.to_arrow())
    most = sales.group_by("shop").agg(dearest=("price", "max"), ids=("id", "count_distinct"))
    rows = given.union(shops).filter("town is not null").join(most, on="shop")
    found = rows.group_by("dearest").agg(towns=("town", "max"), most=("ids", "max"))
    assert_alike(found, "dearest")
    assert counts == {"query": 2}


def test_a_query_computes_groups_of_groups_and_keeps_what_it_reads_twice(
    sales: Dataset, shops: Dataset, counts: collections.Counter[str]
) -> None:
    rows = sales.join(shops, on="shop", how="semi")
    means = rows.group_by("shop").agg(mean=("price", "mean"), total=("price", "sum"), n="count")
    cheap = rows.join(means, on="shop").filter("price < mean and total > n")
    groups = cheap.group_by("name").agg(n="count", totals=("total", "sum"), of=("n", "max"))
    assert_alike(groups, "name")
    assert counts == {"query": 1}
    # A result that somebody else reads, too, is made for both.
    others = groups.join(rows.group_by("name").agg(least=("id", "min")), on="name")
    assert_alike(others, "name")
    assert counts == {"query": 3}


def test_rows_without_duplicates_are_a_part_of_a_query(
    sales: Dataset, shops: Dataset, counts: collections.Counter[str]
) -> None:
    pairs = sales.filter("id % 3 = 0").distinct(["shop", "name"])
    chosen = sales.join(pairs, on=["name", "shop"], how="semi").join(shops, on="shop")
    groups = chosen.group_by("town").agg(n="count", most=("id", "max"))
    assert_alike(groups, "town")
    names = pairs.select("name", "shop").distinct().group_by("name").agg(n="count")
    assert_alike(names, "name")
    assert counts == {"query": 2}
    assert groups.explain(results="batches").before == ()


def test_the_first_of_equal_rows_stays_where_that_counts(
    sales: Dataset, shops: Dataset, counts: collections.Counter[str]
) -> None:
    firsts = sales.distinct("shop")
    assert_alike(firsts.join(shops, on="shop").group_by("town").agg(id=("id", "min")), "town")
    zeros = sales.select("shop", weight="weight - weight").distinct()
    assert_alike(zeros.group_by("weight").agg(n="count"), "weight")
    assert counts == {"query": 1}
    # A sort keeps the order of the rows that stay.
    names = sales.select("Name", "name").distinct()
    assert_same(names.sort("Name").to_arrow(), as_shuffled(names.sort("Name")).to_arrow())
    assert_same(names.to_arrow(), as_shuffled(names).to_arrow())
    assert counts == {"query": 1}


def test_many_rows_without_duplicates_come_in_the_order_of_their_keys(
    sales: Dataset, counts: collections.Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = sales.filter("id % 3 = 0").select("name", "shop").distinct()
    in_order = as_shuffled(pairs.sort(["name", "shop"])).to_arrow()
    monkeypatch.setattr(one_query, "MIN_UNORDERED_ROWS", 100)
    assert_same(pairs.to_arrow(), in_order)
    assert counts == {"query": 1}
    assert pairs.explain(results="batches").strategy == "query"
    # The first of equal rows stays where they differ in other columns.
    firsts = sales.distinct("shop")
    assert_same(firsts.to_arrow(), as_shuffled(firsts).to_arrow())
    assert counts == {"query": 1}


@pytest.fixture
def leaves_and_kept(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The numbers of inputs and of kept rows of each query."""
    numbers: list[tuple[int, int]] = []

    def counting(job: one_query.OneQueryJob, sink: Sink) -> Ref | RefStream | None:
        numbers.append((len(job.leaves), len(job.kept)))
        return part_of(job, sink)

    monkeypatch.setattr(one_query.OneQueryJob, "_part", counting)
    return numbers


def test_steps_behind_a_join_that_several_parts_read_are_computed_once(
    sales: Dataset, shops: Dataset, leaves_and_kept: list[tuple[int, int]]
) -> None:
    """So does Q11 of TPC-H."""
    rows = sales.join(shops, on="shop").select("town", "id", value="price + 1")
    rows = rows.filter("value > 3")
    total = rows.group_by().agg(total=("value", "sum"))
    most = rows.with_columns(twice="value * 2").group_by("town").agg(most=("twice", "max"))
    towns = rows.filter("id % 2 = 0").group_by("town").agg(value=("value", "sum"))
    found = towns.join(most, on="town").join(total, how="cross").filter("value * 2 < total")
    assert_alike(found.group_by("town").agg(n="count", most=("most", "max")), "town")
    assert leaves_and_kept == [(2, 1)]


def test_a_shared_step_behind_another_shared_step(
    sales: Dataset, shops: Dataset, leaves_and_kept: list[tuple[int, int]]
) -> None:
    rows = sales.join(shops, on="shop", how="left").select("town", "id", "price")
    some = rows.filter("id % 3 > 0 or town is null").with_columns(less="price - 1")
    sums = some.group_by("town").agg(total=("price", "sum"))
    least = some.filter("price > 1").group_by("town").agg(least=("less", "min"))
    every = rows.group_by("town").agg(n="count")
    found = every.join(sums, on="town", how="left").join(least, on="town", how="left")
    assert_alike(found.group_by("town").agg(n=("n", "sum"), total=("total", "max")), "town")
    assert leaves_and_kept == [(2, 2)]


@pytest.fixture
def sieves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of sieves of each query that is written."""
    numbers: list[int] = []

    def counting(job: one_query.OneQueryJob, sink: Sink) -> Ref | RefStream | None:
        numbers.append(sum(text.startswith("sieve_") for text in job.kept))
        return part_of(job, sink)

    monkeypatch.setattr(one_query.OneQueryJob, "_part", counting)
    return numbers


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("groups_are", ["right", "left"])
def test_groups_are_sieved_by_the_other_side_of_a_join(
    how: str, groups_are: str, sales: Dataset, shops: Dataset, sieves: list[int]
) -> None:
    groups = sales.rename({"shop": "at", "name": "of"}).group_by("at", "of")
    groups = groups.agg(total=("price", "sum"), n="count").filter("n > 3")
    few = shops.filter("size <> 3")
    left, right, on = (few, groups, ["shop", "at"])
    if groups_are == "left":
        left, right, on = (groups, few, ["at", "shop"])
    rows = left.join(right, left_on=on[0], right_on=on[1], how=how)
    kept = [name for name in ("shop", "at", "of") if name in rows.columns]
    assert_alike(rows.group_by(*kept).agg(n="count", towns="count"), *kept)
    # A join that keeps all rows of the groups' side needs all groups.
    assert sieves == [int(groups_are == "right" or how in ("inner", "semi"))]


def test_sieves_pass_through_joins_steps_and_groups(
    sales: Dataset, shops: Dataset, sieves: list[int]
) -> None:
    cheap = sales.filter("price < 9").select("id", "name", "shop")
    totals = sales.group_by("shop", "name").agg(total=("price", "sum"), most=("id", "max"))
    rows = cheap.join(totals.filter("total > 0"), on=["shop", "name"], how="inner")
    counts = sales.select("shop", "Name").group_by("shop").agg(n="count")
    rows = rows.join(counts, on="shop").with_columns(twice="n * 2").rename({"shop": "at"})
    places = shops.filter("town is not null").select(place="shop")
    found = rows.join(places, left_on="at", right_on="place").group_by("at", "name")
    assert_alike(found.agg(n="count", most=("most", "max"), twice=("twice", "sum")), "at", "name")
    assert sieves == [3]


def test_groups_that_others_read_or_that_are_as_few_are_not_sieved(
    sales: Dataset, shops: Dataset, sieves: list[int]
) -> None:
    groups = sales.group_by("shop").agg(total=("price", "sum"))
    best = groups.group_by().agg(best=("total", "max"))
    few = shops.filter("size <> 3")
    rows = few.join(groups, on="shop").join(best, how="cross").filter("total < best")
    assert_alike(rows.group_by("town").agg(n="count"), "town")
    # Rows that were not chosen have the keys of all groups mostly.
    assert_alike(shops.join(groups, on="shop").group_by("town").agg(n="count"), "town")
    sizes = shops.group_by("shop").agg(size=("size", "max"))
    chosen = sales.filter("price < 9").join(sizes, on="shop")
    assert_alike(chosen.group_by("name").agg(n="count"), "name")
    assert sieves == [0, 0, 0]


def test_a_row_of_totals_is_put_beside_all_rows(
    sales: Dataset, shops: Dataset, counts: collections.Counter[str]
) -> None:
    totals = sales.group_by().agg(total=("price", "sum"), rows="count")
    for rows in (sales.join(totals, how="cross"), totals.join(sales, how="cross")):
        groups = rows.filter("price * rows > total").group_by("name").agg(n="count")
        assert_alike(groups, "name")
    assert counts == {"query": 2}
    assert_alike(sales.join(shops, how="cross").group_by("town").agg(n="count"), "town")
    assert counts == {"query": 2}


def test_the_bill_says_so(sales: Dataset, shops: Dataset) -> None:
    rows = sales.join(shops, on="shop")
    bill = rows.group_by("town").agg(n="count").explain(results="batches")
    assert (bill.operator, bill.strategy, bill.partitions) == ("group_by", "query", 1)
    assert bill.why.startswith("one query of DuckDB for all (2 inputs, 1 join), since")
    assert bill.rows == NUM_ROWS + 6
    assert bill.memory_bytes < 2_000_000_000
    assert not bill.before
    groups = rows.group_by("town").agg(n="count")
    below = groups.repartition(2).explain(results="batches").before
    assert [one.strategy for one in below] == ["query"]
    for ordered, operator in ((groups.sort("n"), "sort"), (groups.sort("n").limit(3), "top_k")):
        bill = ordered.explain(results="batches")
        assert (bill.operator, bill.strategy, bill.before) == (operator, "query", ())


@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("count", [None, 0, 1, 40, 10**6])
def test_sorts_of_joins_and_of_groups(
    count: int | None,
    descending: bool,
    nulls: str,
    sales: Dataset,
    shops: Dataset,
    counts: collections.Counter[str],
) -> None:
    joined = sales.join(shops, on="shop", how="left").with_columns(half="weight / 2 - 100")
    groups = sales.group_by("shop", "name").agg(n="count", most=("price", "max"))
    down = [descending, not descending]
    for rows, keys in ((joined, ["town", "half"]), (groups, ["most", "n"])):
        every = [*keys, *(name for name in rows.columns if name not in keys)]
        ordered = rows.sort(every, descending=[*down, *(False for _ in every[2:])], nulls=nulls)
        ordered = ordered if count is None else ordered.limit(count)
        assert_same(ordered.to_arrow(), as_shuffled(ordered).to_arrow())
        assert ordered.to_arrow().schema.equals(
            as_shuffled(ordered).to_arrow().schema, check_metadata=True
        )
    assert counts == {"query": 4}


def test_rows_of_equal_keys_come_in_one_order(sales: Dataset, shops: Dataset) -> None:
    """Those of groups in the order of the groups' keys, those of joins in that of all columns."""
    groups = sales.group_by("shop").agg(n="count", most=("id", "max")).with_columns(one="1")
    assert groups.sort("one").to_arrow()["shop"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, None]
    # Values that are not those of the keys tell no two groups apart.
    other = groups.with_columns(shop="0").sort("shop").select("n", "most").to_arrow()
    assert other.equals(other.sort_by([("n", "ascending"), ("most", "ascending")]))
    joined = sales.select("id", "shop").join(shops.select("shop", "town"), on="shop")
    first = joined.sort("town").limit(50).to_arrow()
    assert first["id"].to_pylist() == sorted(first["id"].to_pylist())
    assert first.equals(joined.sort("town").limit(50).to_arrow())


def test_rows_of_files_that_are_equal_keep_their_order(
    sales: Dataset, counts: collections.Counter[str]
) -> None:
    ordered = sales.filter("id % 2 = 0").sort("name", descending=True)
    assert_same(ordered.to_arrow(), as_shuffled(ordered).to_arrow())
    assert_same(ordered.limit(9).to_arrow(), as_shuffled(ordered.limit(9)).to_arrow())
    assert not counts


def test_sorted_rows_that_have_no_room_are_shuffled(
    sales: Dataset,
    shops: Dataset,
    counts: collections.Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ordered = sales.join(shops, on="shop").sort("id", "town")
    with monkeypatch.context() as patch:
        patch.setattr(one_query, "SORTED_COPIES", 10**6)
        assert_same(ordered.to_arrow(), as_shuffled(ordered).to_arrow())
        assert not counts
    # There is no telling how many rows a join makes.
    monkeypatch.setattr(one_query, "SORTED_COPIES", 0)
    monkeypatch.setattr(one_query.OneQueryJob, "_result_bytes", 1_000)
    assert_same(ordered.to_arrow(), as_shuffled(ordered).to_arrow())
    assert counts == {"failed": 1}


@pytest.mark.parametrize(
    "aggregate",
    [("weight", "std"), ("id", "first"), ("id", "list"), ("id", "std")],
)
def test_what_depends_on_the_order_of_rows_is_not_queried(
    aggregate: tuple[str, str], sales: Dataset, counts: collections.Counter[str]
) -> None:
    groups = sales.group_by("name").agg(x=aggregate)
    assert groups.explain(results="batches").strategy != "query"
    groups.to_arrow()
    sales.group_by("weight").agg(n="count").to_arrow()
    assert not counts


def test_a_strategy_that_was_asked_for_is_used(
    sales: Dataset, counts: collections.Counter[str]
) -> None:
    sales.group_by("name", strategy="whole").agg(n="count").to_arrow()
    sales.group_by("name", num_partitions=2).agg(n="count").to_arrow()
    assert not counts


def test_a_query_without_memory_is_shuffled(
    sales: Dataset, counts: collections.Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_query.OneQueryJob, "duckdb_bytes", 1_000_000)
    monkeypatch.setattr(one_query, "MIN_DUCKDB_BYTES", 0)
    monkeypatch.setattr(relation, "GROUP_VALUE_BYTES", 0)
    # Expressions, in whose database it runs, have no more either.
    monkeypatch.setattr(databases, "EXPRESSION_SHARE", 1 << 40)
    monkeypatch.setattr(databases, "MIN_EXPRESSION_BYTES", 500_000)
    assert_alike(sales.group_by("id").agg(n="count", most=("name", "max")), "id")
    assert counts == {"failed": 1}


def test_keys_that_hardly_repeat_are_shuffled(
    sales: Dataset, counts: collections.Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation, "GROUP_VALUE_BYTES", 400_000)
    assert_alike(sales.group_by("id").agg(n="count"), "id")
    assert not counts
    assert_alike(sales.group_by("shop").agg(n="count"), "shop")
    assert counts == {"query": 1}


def test_keys_that_all_pieces_have_are_few(
    sales: Dataset, counts: collections.Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 12 pieces or more has the 140 keys. As many in each would be too many: 1,131 have room."""
    monkeypatch.setattr(looking, "SEEN_BYTES", 20_000)
    monkeypatch.setattr(relation, "GROUP_VALUE_BYTES", 1_000_000)
    some = sales.with_columns(key="id % 140")
    assert_alike(some.group_by("key").agg(n="count"), "key")
    assert counts == {"query": 1}
    assert_alike(sales.group_by("id").agg(n="count"), "id")
    assert counts == {"query": 1}


@pytest.mark.parametrize(
    ("num_groups", "num_rows"), [(100, 26_000), (10_000, 26_000), (100_000, 26_000), (500, 50)]
)
def test_random_groups_are_counted_by_three_pieces(num_groups: int, num_rows: int) -> None:
    chance = random.Random(1)
    pieces = [{chance.randrange(num_groups) for _ in range(num_rows)} for _ in range(3)]
    found = looking.all_groups(len(pieces[0]), len(set.union(*pieces)))
    assert found == pytest.approx(num_groups, rel=0.3)


def test_groups_that_pieces_do_not_share_are_endless() -> None:
    assert looking.all_groups(10, 30) == math.inf
    assert looking.all_groups(10, 40) == math.inf
    assert looking.all_groups(10, 10) == 10


@pytest.mark.parametrize(("key", "num_queries"), [("shop", 1), ("id", 2)])
def test_groups_inside_a_query_that_may_be_many_are_looked_at(
    key: str,
    num_queries: int,
    sales: Dataset,
    counts: collections.Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget = current_engine().budget_bytes
    monkeypatch.setattr(query_writing, "DOUBT_SHARE", budget // 100_000)
    sizes = sales.group_by(key).agg(n="count").group_by("n").agg(groups="count")
    assert_alike(sizes, "n")
    assert counts == {"query": num_queries}


@pytest.mark.parametrize(
    ("condition", "num_queries"), [("id % 1000 = 1", 1), ("id % 1000 >= 0", 0)]
)
def test_conditions_are_tried_before_a_query_is_refused(
    condition: str,
    num_queries: int,
    sales: Dataset,
    counts: collections.Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A quarter of the rows is a guess, and has no room.
    monkeypatch.setattr(columns, "ROW_BYTES", current_engine().budget_bytes // 500)
    few = sales.filter(condition).select("id", "Name")
    assert_alike(sales.join(few, on="id").group_by("Name").agg(n="count"), "Name")
    assert counts["query"] == num_queries
    assert counts["failed"] == 0


def test_groups_of_few_rows_are_not_made_before_by_a_guess(
    sales: Dataset,
    shops: Dataset,
    counts: collections.Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget = current_engine().budget_bytes
    monkeypatch.setattr(query_writing, "DOUBT_SHARE", budget // 10_000)
    few = sales.filter("id % 1000 = 1").join(shops, on="shop")
    sizes = few.group_by("id").agg(n="count").group_by("n").agg(groups="count")
    assert_alike(sizes, "n")
    assert counts == {"query": 1}


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_duckdb_hashes_the_smaller_side_of_open_files(
    how: str,
    shops: Dataset,
    tmp_path: Path,
    counts: collections.Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has room for shops alone, in whatever order a join names them."""
    monkeypatch.setattr(columns, "ROW_BYTES", current_engine().budget_bytes // 1_000)
    visits = pa.table({"shop": pa.array([i % 4 for i in range(NUM_ROWS)], pa.int64())})
    many = xs.read_parquet(write_files(tmp_path / "visits", visits, 1))
    assert_alike(shops.join(many, on="shop", how=how).group_by("town").agg(n="count"), "town")
    assert counts == {"query": 1}


@pytest.mark.parametrize(("how", "orders_joins"), [("inner", False), ("semi", True)])
def test_joins_run_as_they_are_written_after_a_look_where_they_have_room(
    how: str,
    orders_joins: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DuckDB would guess what conditions leave; but a semi join as written hashes its right side, whatever its size."""
    asked: list[bool] = []

    def noting(job: one_query.OneQueryJob, sink: Sink) -> Ref | RefStream | None:
        asked.append(job.orders_joins)
        return part_of(job, sink)

    monkeypatch.setattr(one_query.OneQueryJob, "_part", noting)
    monkeypatch.setattr(columns, "ROW_BYTES", current_engine().budget_bytes // 100)
    visits = pa.table({"at": pa.array([i % 4 for i in range(NUM_ROWS)], pa.int64())})
    many = xs.read_parquet(write_files(tmp_path / "visits", visits, 1))
    big = pa.table({"shop": pa.array(range(NUM_ROWS), pa.int64())})
    few = xs.read_parquet(write_files(tmp_path / "big", big, 1)).filter("shop % 1000 = 1")
    rows = few.join(many, left_on="shop", right_on="at", how=how)
    assert_alike(rows.group_by().agg(n="count"))
    assert asked == [orders_joins]


def test_an_error_of_the_rows_has_the_words_of_tasks(
    sales: Dataset, counts: collections.Counter[str]
) -> None:
    rows = sales.with_columns(number="name::int")
    with pytest.raises(InputError, match="cannot compute 'name::int' where name is"):
        rows.group_by("number").agg(n="count").to_arrow()
    total = sales.with_columns(d="(9e36)::decimal(38, 0)").group_by().agg(total=("d", "sum"))
    with pytest.raises(InputError, match="cast the column to double first"):
        total.to_arrow()
    assert counts == {"failed": 2}


def test_a_corrupt_file_has_the_words_of_tasks(
    sales: Dataset, tmp_path: Path, counts: collections.Counter[str]
) -> None:
    del sales
    for path in (tmp_path / "sales").iterdir():
        data = bytearray(path.read_bytes())
        data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
        path.write_bytes(data)
    groups = xs.read_parquet(tmp_path / "sales").group_by("name").agg(n="count")
    with pytest.raises(CorruptFileError, match="sales"):
        groups.to_arrow()
    assert counts == {"failed": 1}


def test_rows_of_joins_and_groups_are_counted_by_a_query(
    sales: Dataset, shops: Dataset, counts: collections.Counter[str]
) -> None:
    joined = sales.join(shops, on="shop", how="left")
    trees = [
        joined,
        joined.filter("town > 'A'").select("id"),
        sales.join(shops, on="shop", how="anti"),
        sales.group_by("shop", "name").agg(total=("id", "sum")),
        sales.select("name", "shop").distinct(),
        sales.distinct(["name"]),
    ]
    found = [tree.count() for tree in trees]
    assert counts == {"query": len(trees)}
    assert found == [as_shuffled(tree).to_arrow().num_rows for tree in trees]


def test_rows_that_no_query_makes_are_counted_too(sales: Dataset, shops: Dataset) -> None:
    joined = sales.join(shops, on="shop")
    batches = joined.map_batches(lambda batch: batch.slice(1), batch_size=7)
    nothing = sales.filter("id < 0").distinct()
    for tree in (batches, as_shuffled(joined), joined.top_k(5, "id"), nothing):
        assert tree.count() == tree.to_arrow().num_rows
