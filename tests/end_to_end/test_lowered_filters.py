"""Filters behind operators come before them where they can: the rows are DuckDB's, and fewer are moved."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs import narrowing
from exoshuffle.dataset.tree import needed
from exoshuffle.dataset.tree.lowering import lowered
from exoshuffle.dataset.tree.nodes import MapNode, Node
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import InputError
from exoshuffle.operators.steps.columns import Filter
from tests.support.generated import assert_same_rows, query
from tests.support.oracle import write_files

DAY = dt.date(2024, 1, 1)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Narrows files of any size."""
    monkeypatch.setattr(narrowing, "SMALL_BYTES", 0)
    monkeypatch.setattr(narrowing, "SMALL_FILE_BYTES", 0)
    with xs.init(memory_limit=limits.limit_for(250_000_000), num_cpus=2):
        yield


def table_of(rng: random.Random, rows: int) -> pa.Table:
    def some(value: Callable[[], Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else value() for _ in range(rows)]

    specials = [float("nan"), -0.0, 0.0, 1.5, -2.0, 7.0]
    return pa.table(
        {
            "k": pa.array(some(lambda: rng.randrange(8)), pa.int64()),
            "x": pa.array(some(lambda: rng.choice(specials)), pa.float64()),
            "s": pa.array(some(lambda: rng.choice(["a", "ab", "b", ""])), pa.string()),
            "d": pa.array(some(lambda: DAY + dt.timedelta(rng.randrange(30))), pa.date32()),
            "id": pa.array(range(rows), pa.int64()),
        }
    )


#: ``{c}`` stands for the column, and ``{C}`` for its name in capitals.
CONDITIONS = {
    "k": [
        *("{c} > 3", "{C} in (1, 2)", "{c} is null", "{c} = 5 or {c} is null", "not ({c} < 4)"),
        *("{c} + 1 > 3", "{c} not in (3, 4)"),
    ],
    "x": ["{c} > 0", "{c} = 0", "{c} <> 1.5", "{c} is not distinct from 'nan'", "{c} + 1 > 2"],
    "s": [
        *("{c} like 'a%'", "{c} >= 'ab'", "{c} is not null", "starts_with({c}, 'b') or {c} = ''"),
        "upper({c}) = 'A'",
    ],
    "d": [
        "{c} >= '2024-01-10'",
        "{c} between DATE '2024-01-05' and '2024-01-20'",
        "year({c}) = 2024",
    ],
    "id": ["{c} < 30", "{c} % 3 = 1"],
}


class Made:
    """A dataset, and the same rows in SQL; each column has the kind of one of the table."""

    def __init__(self, rows: xs.Dataset, sql: str, kinds: dict[str, str]) -> None:
        self.rows, self.sql, self.kinds = rows, sql, kinds

    def then(
        self,
        rows: xs.Dataset,
        listed: str = "*",
        rest: str = "",
        kinds: dict[str, str] | None = None,
    ) -> Made:
        sql = f"select {listed} from ({self.sql}) l {rest}"  # noqa: S608  names of this test
        return Made(rows, sql, kinds or self.kinds)

    def of_kind(self, wanted: str) -> str | None:
        return next((name for name, kind in self.kinds.items() if kind == wanted), None)


def with_filters(rng: random.Random, made: Made) -> Made:
    for _ in range(rng.randint(0, 2)):
        names = rng.sample(list(made.kinds), min(2, len(made.kinds)))
        parts = [
            rng.choice(CONDITIONS[made.kinds[name]]).format(c=name, C=name.upper())
            for name in names
        ]
        text = rng.choice([" and ", " or "]).join(parts) if rng.random() < 0.6 else parts[0]
        made = made.then(made.rows.filter(text), rest=f"where {text}")
    return made


def same_rows(rng: random.Random, made: Made) -> Made:
    rows, first = made.rows, next(iter(made.kinds))
    if rng.random() < 0.2:
        return made.then(rows.union(rows.sort(first)).distinct(), "distinct *")
    made_so = rng.choice(
        [
            lambda: rows.sort(rng.choice(list(made.kinds)), **_options(rng)),
            lambda: rows.repartition(3),
            lambda: rows.repartition(3, by=first),
            lambda: rows.random_shuffle(seed=rng.randrange(9)),
            lambda: rows.limit(10**6),
        ]
    )
    return made.then(made_so())


def columns(rng: random.Random, made: Made) -> Made:
    name = rng.choice(list(made.kinds))
    new = f"n{len(made.kinds)}{name}"
    kinds = {other: kind for other, kind in made.kinds.items() if other != name}
    listed = ", ".join([*kinds, f"{name} as {new}"])
    kinds[new] = made.kinds[name]
    if rng.random() < 0.5:
        return made.then(made.rows.rename({name: new}).select(*kinds), listed, kinds=kinds)
    return made.then(made.rows.with_columns(**{new: name}).drop(name), listed, kinds=kinds)


def groups(rng: random.Random, made: Made) -> Made:
    names = [name for name in made.kinds if name != "n"]
    keys = rng.sample(names, min(len(names), rng.randint(1, 2)))
    if not keys:
        return made
    kinds = {key: made.kinds[key] for key in keys} | {"n": "id"}
    listed = ", ".join(keys)
    rows = made.rows.group_by(*keys, **_options(rng)).agg(n="count")
    return made.then(rows, f"{listed}, count(*) as n", f"group by {listed}", kinds)


def window(rng: random.Random, made: Made) -> Made:
    # To DuckDB's windows 0.0 and -0.0 are two keys.
    keys = [name for name, kind in made.kinds.items() if kind != "x"]
    if "w" in made.kinds or not keys:
        return made
    key = rng.choice(keys)
    rows = made.rows.window(partition_by=key, w="count(*)", **_options(rng))
    listed = f"*, count(*) over (partition by {key}) as w"
    return made.then(rows, listed, kinds=made.kinds | {"w": "id"})


def join(rng: random.Random, made: Made, other: Made) -> Made:
    key = made.of_kind("k")
    other = made if rng.random() < 0.3 else other  # the same node twice
    if key is None or len(made.kinds) > 9:
        return made
    new = {name: f"r{len(made.kinds)}{name}" for name in other.kinds}
    listed = ", ".join(f"{name} as {other_name}" for name, other_name in new.items())
    kinds = {new[name]: kind for name, kind in other.kinds.items()}
    right = with_filters(rng, other.then(other.rows.rename(new), listed, kinds=kinds))
    right_key = right.of_kind("k")
    how = rng.choice(["inner", "left", "right", "full", "semi", "anti", "cross"])
    both = made.kinds | right.kinds
    if how == "cross":
        right = right.then(right.rows.filter(f"{right_key} = 2"), rest=f"where {right_key} = 2")
        rows = made.rows.join(right.rows, how="cross")
        return made.then(rows, rest=f"cross join ({right.sql}) r", kinds=both)
    rest = f"{how} join ({right.sql}) r on l.{key} = r.{right_key}"
    if how in ("semi", "anti") or rng.random() < 0.5:
        on = {"left_on": key, "right_on": right_key}
        rows = made.rows.join(right.rows, how=how, **on, **_options(rng))
        return made.then(rows, rest=rest, kinds=made.kinds if how in ("semi", "anti") else both)
    rows = right.rows.rename({right_key: key})
    rows = made.rows.join(rows, on=key, how=how, **_options(rng))
    theirs = [name for name in right.kinds if name != right_key]
    shared = f"coalesce(l.{key}, r.{right_key}) as {key}"
    mine = [shared if name == key else name for name in made.kinds]
    kinds = {name: both[name] for name in (*made.kinds, *theirs)}
    return made.then(rows, ", ".join([*mine, *theirs]), rest, kinds)


def _options(rng: random.Random) -> dict[str, Any]:
    return rng.choice([{}, {"num_partitions": 3}])


@pytest.mark.parametrize("seed", range(12))
def test_random_trees(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters on top of operators; also in the order that they have without this rule, where there is one."""
    rng = random.Random(seed)
    tables = {name: table_of(rng, rng.choice([0, 40, 60])) for name in ("a", "b")}
    made, other = (
        Made(
            xs.read_parquet(write_files(tmp_path / name, table, rng.randint(1, 2), 16)),
            f"table {name}",
            {column: column for column in table.column_names},
        )
        for name, table in tables.items()
    )
    for _ in range(rng.randint(1, 3)):
        operator = rng.choice([same_rows, columns, groups, window, None, None])
        made = join(rng, made, other) if operator is None else operator(rng, made)
        made = with_filters(rng, made)
    actual = made.rows.to_arrow()
    assert_same_rows(actual, query(made.sql, **tables))
    monkeypatch.setattr(needed, "lowered", lambda node: node)
    assert_same_rows(actual, made.rows.to_arrow())


def filters(node: Node) -> list[str]:
    """The operators of a tree from its end, with filters as their conditions."""
    if isinstance(node, MapNode):
        here = node.step.condition if isinstance(node.step, Filter) else ""
        return [*([here] if here else []), *filters(node.child)]
    below = [found for child in node.children for found in filters(child)]
    return [node.label.partition(" ")[0], *below] if node.children else ["files"]


def _counted(d: xs.Dataset) -> xs.Dataset:
    return d.map_batches(lambda table: table)


TREES: dict[str, tuple[Callable[[xs.Dataset], xs.Dataset], list[str]]] = {
    "sort": (lambda d: d.sort("x").filter("K > 3"), ["sort", "(k > 3)", "files"]),
    "some parts": (
        lambda d: d.sort("x").filter("k > 3 and k + 1 > 3"),
        ["((k + 1) > 3)", "sort", "(k > 3)", "files"],
    ),
    "a cast": (lambda d: d.sort("x").filter("s::int > 3"), ["s::int > 3", "sort", "files"]),
    "a wide literal": (
        lambda d: d.sort("x").filter("k > 0.12345678901234567890"),
        ["k > 0.12345678901234567890", "sort", "files"],
    ),
    "top": (lambda d: d.sort("x").limit(3).filter("k > 3"), ["k > 3", "limit", "sort", "files"]),
    "first": (
        lambda d: d.sort("x").filter("k > 3").limit(3),
        ["limit", "sort", "k > 3", "files"],
    ),
    "distinct": (lambda d: d.distinct("k").filter("k > 3"), ["distinct", "k > 3", "files"]),
    "no key": (lambda d: d.distinct("k").filter("x > 3"), ["x > 3", "distinct", "files"]),
    "groups": (
        lambda d: d.group_by("k").agg(n="count").filter("k > 3 and n > 1"),
        ["(n > 1)", "group", "(k > 3)", "files"],
    ),
    "one group": (
        lambda d: d.group_by().agg(n="count").filter("1 = 0"),
        ["1 = 0", "group", "files"],
    ),
    "a function": (lambda d: _counted(d).filter("k > 3"), ["k > 3", "files"]),
    "random": (
        lambda d: d.random_shuffle(1).filter("id < 30"),
        ["random_shuffle", "id < 30", "files"],
    ),
    "random, of most rows": (
        lambda d: d.random_shuffle(1).filter("id >= 0 and k > 3"),
        ["((id >= 0)) AND ((k > 3))", "random_shuffle", "files"],
    ),
    "a sample": (
        lambda d: d.sample(fraction=0.5, seed=1).filter("k > 3"),
        ["k > 3", "files"],
    ),
    "new names": (
        lambda d: d.rename({"k": "x", "x": "k"}).sort("k").filter("x > 3"),
        ["sort", "(k > 3)", "files"],
    ),
    "computed": (
        lambda d: d.with_columns(k="k + 1", y="k * 2").sort("x").filter("k > 3 and x > 1"),
        ["sort", "(k > 3)", "(x > 1)", "files"],
    ),
    "inner": (
        lambda d: d.join(d, on="k").filter("k > 3 and x > 1 and x_right > 2 and x > x_right"),
        [
            "(x > x_right)",
            "join",
            "((k > 3)) AND ((x > 1))",
            "files",
            "((k > 3)) AND ((x > 2))",
            "files",
        ],
    ),
    "left": (
        lambda d: d.join(d, on="k", how="left").filter("x > 3 and x_right is null"),
        ["(x_right IS NULL)", "join", "(x > 3)", "files", "files"],
    ),
    "left without nulls": (
        lambda d: d.join(d, on="k", how="left").filter("x_right > 3"),
        ["join", "files", "(x > 3)", "files"],
    ),
    "full": (
        lambda d: d.join(d, on="k", how="full").filter("k > 3 and (x > 1 or x is null)"),
        ["((x > 1) OR (x IS NULL))", "join", "(k > 3)", "files", "(k > 3)", "files"],
    ),
    "anti": (
        lambda d: d.join(d, on="k", how="anti").filter("k > 3"),
        ["join", "k > 3", "files", "k > 3", "files"],
    ),
    "other types": (
        lambda d: d.join(d.select(k="k::int"), on="k").filter("k > 3"),
        ["join", "k > 3", "files", "files"],
    ),
    "union": (
        lambda d: d.union(d.sort("k")).filter("k > 3"),
        ["union", "k > 3", "files", "sort", "k > 3", "files"],
    ),
    "window": (
        lambda d: d.window(partition_by="k", n="count(*)").filter("k > 3 and n > 1"),
        ["(n > 1)", "window", "(k > 3)", "files"],
    ),
    "asof": (
        lambda d: d.join_asof(d, on="id").filter("k > 3 and k_right > 3"),
        ["(k_right > 3)", "join_asof", "(k > 3)", "files", "files"],
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_filters_come_as_early_as_they_may(name: str, tmp_path: Path) -> None:
    rows = xs.read_parquet(write_files(tmp_path / "in", table_of(random.Random(0), 60), 2, 16))
    make, wanted = TREES[name]
    made = make(rows)
    node = lowered(made.node)
    assert filters(node) == wanted
    assert node.schema.equals(made.schema)
    assert lowered(node) is node or filters(lowered(node)) == wanted


def test_a_node_of_several_gets_no_filter_of_one(tmp_path: Path) -> None:
    rows = xs.read_parquet(write_files(tmp_path / "in", table_of(random.Random(0), 60), 2, 16))
    shared = rows.sort("x").filter("id > 3")
    joined = shared.filter("k > 3").join(shared, on="id")
    (left, right) = lowered(joined.node).children
    assert filters(left) == ["k > 3", "sort", "id > 3", "files"]
    assert isinstance(left, MapNode)
    assert left.child is right


def test_row_groups_and_files_are_skipped_below_operators(tmp_path: Path) -> None:
    table = pa.table(
        {"part": [0, 1, 2, 3] * 25, "id": range(100), "v": [i % 7 for i in range(100)]}
    )
    table = table.sort_by("id")
    xs.from_arrow(table).write_parquet(tmp_path / "hive", partition_by="part")
    parts = xs.read_parquet(tmp_path / "hive")
    sorted_ids = xs.read_parquet(write_files(tmp_path / "in", table, 1, 10))
    joined = sorted_ids.join(parts, on="id").filter("id >= 90 and part_right = 1")
    bill = joined.explain()
    assert bill.pruned_files == 3
    assert bill.skipped_rows >= 90
    assert "(id >= 90) before join by id" in bill.moved_filters
    assert "moved filter" in str(bill)
    assert sorted(joined.to_pydict()["id"]) == [93, 97]


def test_errors_of_dropped_rows_do_not_come() -> None:
    """A filter that may fail stays behind the join that drops the row for which it would."""
    numbers = xs.from_pydict({"k": [1, 2], "s": ["5", "none"]})
    joined = numbers.join(xs.from_pydict({"k": [1]}), on="k")
    assert joined.filter("s::int > 3").to_pydict() == {"k": [1], "s": ["5"]}
    with pytest.raises(InputError):
        numbers.sort("k").filter("s::int > 3").to_arrow()


def test_random_orders_stay(tmp_path: Path) -> None:
    """The rows that stay have the order that they have without the filter."""
    rows = xs.read_parquet(write_files(tmp_path / "in", table_of(random.Random(0), 300), 2, 16))
    shuffled = rows.random_shuffle(seed=7)
    pairs = list(zip(*(shuffled.to_pydict()[name] for name in ("id", "k")), strict=True))
    # Footers leave out most rows for the first condition, and none for the second.
    for condition, keeps in (
        ("id < 50", lambda n, _: n < 50),
        ("k > 3", lambda _, k: (k or 0) > 3),
    ):
        kept = [number for number, k in pairs if keeps(number, k)]
        filtered = shuffled.filter(condition)
        assert bool(filtered.explain(results="batches").moved_filters) == (condition == "id < 50")
        assert filtered.to_pydict()["id"] == kept
        assert filtered.select("id").to_pydict()["id"] == kept
