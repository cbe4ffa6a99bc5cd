"""Partitions that are larger than planned: every operator gives what DuckDB gives, or an error that names the group.

Plans say here that a partition of some kilobytes is large, so that little data is divided several times over.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.dataset import execute
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.jobs import shuffle as shuffle_job
from exoshuffle.dataset.jobs import small_sides
from exoshuffle.dataset.tree.nodes import ShuffleNode
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import LargeGroupError, ShuffleCheckError
from exoshuffle.futures import Ref, Refs
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies import TaskSet, plan_shuffle
from exoshuffle.strategies.mechanisms.reduces import run_reduces
from exoshuffle.strategies.task_set import stage
from exoshuffle.testing import failing
from tests.support.generated import assert_same_rows, query
from tests.support.oracle import assert_same, write_files
from tests.support.shuffled import always_shuffle

ROWS = 6_000
#: Bytes of a partition that can be reduced beside others, and alone; and of a split.
LARGE, WHOLE, SPLIT = 24_000, 60_000, 12_000
HOT = 7
#: Of groups that fit into partitions, but for one with half of the rows.
NUM_GROUPED = 24
STRATEGIES = ["simple", "push", "pre_shuffle_merge"]
#: Each kind of skew once, each with another strategy.
KINDS = [("half", "simple"), ("zipf", "push"), ("equal", "pre_shuffle_merge")]


def in_turn(*values: str) -> list[tuple[str, str]]:
    """Each value with a strategy, in turn."""
    return [(value, STRATEGIES[index % 3]) for index, value in enumerate(values)]


@pytest.fixture
def whole_bytes() -> int:
    """The largest group that fits; tests may say otherwise."""
    return WHOLE


@pytest.fixture
def tiny(
    roomy_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch, whole_bytes: int
) -> Iterator[collections.Counter[str]]:
    """Plans for little memory; counts the tasks that have run, by name."""

    def planned(*args: Any, **options: Any) -> ShufflePlan:
        return dataclasses.replace(
            plan_shuffle(*args, **options),
            split_bytes=SPLIT,
            merge_factor=4,
            max_partition_bytes=LARGE,
            max_whole_bytes=whole_bytes,
            alone_bytes=whole_bytes,
            buffer_bytes=0,
        )

    always_shuffle(monkeypatch)
    monkeypatch.setattr(shuffle_job, "plan_shuffle", planned)
    monkeypatch.setattr(small_sides, "MAX_BROADCAST_BYTES", 0)
    counts: collections.Counter[str] = collections.Counter()

    def count(event: Any) -> None:
        counts[event.name] += 1

    roomy_engine.add_observer(count)
    yield counts
    roomy_engine.remove_observer(count)


def keys_of(kind: str, count: int, seed: int) -> list[int]:
    """Keys of a distribution: half of all equal, Zipf's, all equal, or even."""
    draw = random.Random(seed)
    if kind == "half":
        return [HOT if draw.random() < 0.5 else draw.randrange(3_000) for _ in range(count)]
    if kind == "zipf":
        return [int(3_000 ** draw.random()) for _ in range(count)]
    return [HOT if kind == "equal" else draw.randrange(3_000) for _ in range(count)]


def rows_of(kind: str, count: int = ROWS, seed: int = 1) -> pa.Table:
    """A key, the number of the row, and a text of 20 bytes."""
    return pa.table(
        {
            "key": pa.array(keys_of(kind, count, seed), pa.int64()),
            "n": pa.array(range(count), pa.int64()),
            "text": pa.array([f"{n * 7919 % count:020}" for n in range(count)]),
        }
    )


def written(folder: Path, table: pa.Table) -> xs.Dataset:
    """A dataset of several files."""
    return xs.read_parquet(write_files(folder, table, 4, rows_per_group=300))


class Dropping:
    """The simple strategy, which loses the output of the second map."""

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        run_map = stage(tasks, "map", num_returns=plan.num_partitions)
        blocks = [run_map.remote(index, split) for index, split in enumerate(splits)]
        yield from run_reduces(tasks, Refs([blocks[0], *blocks[2:]]), plan)


def test_what_a_streamed_partition_lacks_is_missed(
    tiny: collections.Counter[str], tmp_path: Path
) -> None:
    parted = written(tmp_path / "in", rows_of("even")).repartition(3, by="key", strategy=Dropping())
    with pytest.raises(ShuffleCheckError, match="did not get the output of map 1"):
        parted.write_parquet(tmp_path / "out")
    assert tiny["reduce"] == 0, "all partitions are large"


@pytest.mark.parametrize(("kind", "strategy"), KINDS)
def test_sort_is_divided_and_stable(
    kind: str, strategy: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    table = rows_of(kind)
    source = written(tmp_path / "in", table)
    result = source.sort("key", strategy=strategy, num_partitions=3).write_parquet(tmp_path / "out")
    assert_same(
        pq.read_table(tmp_path / "out").cast(table.schema),
        query("select * from t order by key, n", t=table).cast(table.schema),
    )
    # Parts of a partition are files of its number and theirs, in order.
    assert len(result.files) > 3
    assert [file["name"] for file in result.files] == sorted(file["name"] for file in result.files)
    assert tiny["sample"] > 0
    whole = xs.read_parquet(tmp_path / "in").sort("key", strategy=strategy, num_partitions=3)
    assert whole.to_arrow().column("n").equals(pq.read_table(tmp_path / "out").column("n"))


@pytest.mark.usefixtures("tiny")
def test_one_partition_of_records_is_divided_in_order(tmp_path: Path) -> None:
    gensort(tmp_path / "in", 5_000, skew=True)
    records = xs.read_records(tmp_path / "in")
    result = records.sort(num_partitions=1).write_records(tmp_path / "out", target_file_size=5_000)
    assert len(result.files) > 10
    after = valsort(tmp_path / "out")
    assert after.is_sorted
    assert after.checksum == valsort(tmp_path / "in").checksum


@pytest.mark.parametrize("num_partitions", [1, 4])
def test_random_shuffle_stays_the_same_permutation(
    num_partitions: int, roomy_engine: LocalEngine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    del roomy_engine
    table = rows_of("even")
    source = written(tmp_path / "in", table)
    wanted = source.random_shuffle(seed=3, num_partitions=num_partitions).to_arrow()
    counts = request.getfixturevalue("tiny")
    counts.clear()
    divided = source.random_shuffle(seed=3, num_partitions=num_partitions).to_arrow()
    assert counts["reduce"] > num_partitions
    assert_same(divided, wanted)


@pytest.mark.parametrize("sink", ["files", "arrow"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_repartition_keeps_partitions_and_order(
    sink: str, strategy: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    table = rows_of("half")
    parted = written(tmp_path / "in", table).repartition(3, by="key", strategy=strategy)
    if sink == "arrow":
        assert_same_rows(parted.to_arrow(), table)
        # Slices are not cut, and this strategy has merged all into one.
        assert tiny["reduce"] > 3 or strategy == "pre_shuffle_merge"
        return
    result = parted.write_parquet(tmp_path / "out")
    assert tiny["stream"] > 0
    assert len(result.files) == 3
    parts = [pq.read_table(tmp_path / "out" / file["name"]) for file in result.files]
    keys = [set(part.column("key").to_pylist()) for part in parts]
    assert not keys[0] & keys[1] | keys[0] & keys[2] | keys[1] & keys[2]
    assert all(
        part.column("n").to_pylist() == sorted(part.column("n").to_pylist()) for part in parts
    )
    assert_same_rows(pa.concat_tables(parts), table)


@pytest.mark.parametrize(("kind", "strategy"), KINDS)
def test_groups_that_are_combined(
    kind: str, strategy: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    del tiny
    table = rows_of(kind)
    grouped = written(tmp_path / "in", table).group_by("key", strategy=strategy, num_partitions=1)
    assert_same_rows(
        grouped.agg(n="count", total=("n", "sum"), last=("text", "max")).to_arrow(),
        query(
            "select key, count(*) n, sum(n)::bigint total, max(text) as last from t group by key",
            t=table,
        ),
    )


#: Aggregates that maps could combine, of which the parts are larger than the columns; and the same as SQL.
COMBINABLE: dict[str, Any] = {
    "a": ("n", "first"),
    "b": ("n", "last"),
    "c": ("value", "min"),
    "d": ("text", "max"),
    "e": ("n", "mean"),
    "f": "count",
    "g": ("value", "sum"),
}
COMBINABLE_SQL = """
select key, min(n) a, max(n) b, min(value) c, max(text) d, avg(n) e, count(*) f, sum(value)::bigint g
from t group by key order by a
"""


def mostly_unique(count: int = ROWS) -> pa.Table:
    """Rows of which half have one key, and all others a key each; the key's first row is not the first of all."""
    table = rows_of("equal", count)
    keys = [HOT if row % 2 and row % 5 else -row for row in range(count)]
    values = [None if row % 11 == 0 else row * 7919 % 1_000 for row in range(count)]
    return table.set_column(0, "key", pa.array(keys, pa.int64())).append_column(
        "value", pa.array(values, pa.int64())
    )


def travel_uncombined(result: xs.Dataset, engine: LocalEngine) -> bool:
    """Whether the maps of a grouping send rows as they are."""
    assert isinstance(result.node, ShuffleNode)
    [(_, side)] = Execution(engine).shuffle_job(result.node, "files").inputs
    return set(side.schema.names) <= {"key", "n", "text", "value"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_hot_key_among_rows_that_travel_uncombined(
    strategy: str,
    tiny: collections.Counter[str],
    roomy_engine: LocalEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = mostly_unique()
    source = written(tmp_path / "in", table)
    result = source.group_by("key", strategy=strategy, num_partitions=NUM_GROUPED).agg(**COMBINABLE)
    assert travel_uncombined(result, roomy_engine)
    tiny.clear()
    made = result.to_arrow()
    assert tiny["reduce"] == NUM_GROUPED, "the hot partition stays one, and in order"
    wanted = query(COMBINABLE_SQL, t=table)
    assert_same(made.sort_by("a"), wanted.cast(made.schema))
    monkeypatch.setattr(execute, "lighter", lambda job: job)
    tiny.clear()
    assert not travel_uncombined(result, roomy_engine)
    assert_same(made, result.to_arrow())
    assert tiny["reduce"] == NUM_GROUPED


def test_what_is_large_though_it_was_combined_is_divided(
    tiny: collections.Counter[str], roomy_engine: LocalEngine, tmp_path: Path
) -> None:
    table = mostly_unique()
    result = written(tmp_path / "in", table).group_by("key", num_partitions=1).agg(**COMBINABLE)
    assert travel_uncombined(result, roomy_engine)
    tiny.clear()
    made = result.to_arrow()
    assert tiny["reduce"] > 1
    assert_same(made.sort_by("a"), query(COMBINABLE_SQL, t=table).cast(made.schema))


def test_values_of_a_hot_key_are_counted_part_by_part(
    tiny: collections.Counter[str], roomy_engine: LocalEngine, tmp_path: Path
) -> None:
    table = mostly_unique()
    source = written(tmp_path / "in", table)
    result = source.group_by("key", num_partitions=NUM_GROUPED).agg(
        a=("text", "count_distinct"), b=("n", "first"), c=("n", "last")
    )
    assert travel_uncombined(result, roomy_engine)
    wanted = "select key, count(distinct text) a, min(n) b, max(n) c from t group by key"
    assert_same_rows(result.to_arrow(), query(wanted, t=table))
    assert tiny["rejoin"] == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_values_of_few_keys_are_counted_by_value_at_once(
    strategy: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    """No partition is larger than planned, as all are where rows go by five keys."""
    values = [None if row % 11 == 0 else row * 7919 % 5_003 for row in range(ROWS)]
    table = rows_of("equal").append_column("value", pa.array(values, pa.int64()))
    keys = [None if row % 5 == 0 else row % 5 for row in range(ROWS)]
    table = table.set_column(0, "key", pa.array(keys, pa.int64()))
    grouped = written(tmp_path / "in", table).group_by("key", strategy=strategy)
    made = grouped.agg(
        a=("value", "count_distinct"),
        b=("text", "count_distinct"),
        c=("n", "first"),
        d=("text", "max"),
        e="count",
        f=("value", "sum"),
    )
    tiny.clear()
    found = made.to_arrow()
    assert tiny["rejoin"] == 0
    wanted = """
    select key, count(distinct value) a, count(distinct text) b, min(n) c, max(text) d, count(*) e, sum(value)::bigint f
    from t group by key
    """
    assert_same_rows(found, query(wanted, t=table))
    assert grouped.agg(a=("value", "count_distinct")).explain().operator == "group_by"


#: Values to be counted beside everything else that maps send, some of several rows per key; and the same as SQL.
COUNTED: dict[str, Any] = {
    "a": ("text", "count_distinct"),
    "b": ("value", "count_distinct"),
    "c": ("n", "first"),
    "d": ("value", "top_k", 3),
    "e": ("n", "std"),
    "f": "count",
    "g": ("text", "max"),
    "h": ("value", "sum"),
    "i": ("nothing", "count_distinct"),
}
COUNTED_SQL = """
select key, count(distinct text) a, count(distinct value) b, min(n) c, max(value, 3) d, stddev_samp(n) e, count(*) f,
    max(text) g, sum(value)::bigint h, count(distinct nothing) i
from t group by key
"""


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["half", "equal"])
def test_values_are_counted_beside_other_aggregates(
    kind: str, strategy: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    count = ROWS // 2
    table = rows_of(kind, count)
    values = [None if row % 11 == 0 else row * 7919 % (count // 2) for row in range(count)]
    table = table.append_column("value", pa.array(values, pa.int64()))
    table = table.append_column("nothing", pa.nulls(count, pa.float64()))
    grouped = written(tmp_path / "in", table).group_by("key", strategy=strategy, num_partitions=3)
    made, wanted = grouped.agg(**COUNTED).to_arrow(), query(COUNTED_SQL, t=table)
    deviations = (found.sort_by("key")["e"].to_pylist() for found in (made, wanted))
    assert next(deviations) == pytest.approx(next(deviations), nan_ok=True)
    assert_same_rows(made.drop_columns("e"), wanted.drop_columns("e"))
    assert tiny["rejoin"] >= 1


@pytest.mark.parametrize(
    ("function", "strategy"), in_turn("median", "list", "map_groups", "distinct")
)
def test_groups_that_fit_are_divided(
    function: str, strategy: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    table = rows_of("even")
    source = written(tmp_path / "in", table)
    options: dict[str, Any] = {"strategy": strategy, "num_partitions": 2}
    if function == "distinct":
        made = source.distinct(["key"], **options)
        wanted = "select key, min(n) n, arg_min(text, n) as text from t group by key"
    elif function == "map_groups":
        made = source.group_by("key", **options).map_groups(first_of_group)
        wanted = "select key, min(n) n from t group by key"
    else:
        made = source.group_by("key", **options).agg(a=("n", function))
        sql = {"median": "median(n)", "list": "list(n order by n)"}[function]
        wanted = f"select key, {sql} a from t group by key"  # noqa: S608
    assert_same_rows(made.to_arrow(), query(wanted, t=table))
    assert tiny["reduce"] > 2


def first_of_group(group: pa.Table) -> pa.Table:
    return group.slice(0, 1).select(["key", "n"])


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("function", "strategy"), in_turn("median", "list", "map_groups"))
def test_a_group_that_does_not_fit_is_named(function: str, strategy: str, tmp_path: Path) -> None:
    grouped = written(tmp_path / "in", rows_of("half")).group_by("key", strategy=strategy)
    made = (
        grouped.map_groups(first_of_group)
        if function == "map_groups"
        else grouped.agg(a=("text", "list"))
        if function == "list"
        else grouped.agg(a=("n", function), b=("text", "list"))
    )
    words = (
        rf"key key={HOT} take about ([\d.]+) kB .* leaves [\d.]+ kB for one group.*"
        r"raise memory_limit to [\d.]+ [MG]B"
    )
    with pytest.raises(LargeGroupError, match=words) as caught:
        made.write_parquet(tmp_path / "out")
    told = re.search(words, str(caught.value))
    assert told is not None
    # Null bits, the key, the number where it is asked for, and a text of 20 bytes with its length.
    row_bytes = 33 if function == "list" else 41
    hot_bytes = row_bytes * rows_of("half")["key"].to_pylist().count(HOT)
    assert float(told[1]) * 1000 == pytest.approx(hot_bytes, rel=0.03)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("tiny")
def test_a_group_by_nanoseconds_that_does_not_fit_is_named(tmp_path: Path) -> None:
    table = rows_of("half")
    keys = table["key"].cast(pa.int64()).cast(pa.timestamp("ns"))
    source = written(tmp_path / "in", table.set_column(0, "key", keys))
    made = source.group_by("key").agg(a=("text", "list"))
    with pytest.raises(LargeGroupError, match=rf"key key='1970-01-01 00:00:00\.0+{HOT}' take"):
        made.write_parquet(tmp_path / "out")


@pytest.mark.parametrize("operator", ["sort", "repartition", "group_by"])
def test_streaming_names_a_partition_that_does_not_fit(
    operator: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    """It keeps partitions in one piece: what would exceed the limit is found before it is put together."""
    rows = written(tmp_path / "in", rows_of("half"))
    options: dict[str, Any] = {"strategy": "streaming", "num_partitions": 3}
    made = {
        "sort": lambda: rows.sort("key", **options),
        "repartition": lambda: rows.repartition(3, by="key", strategy="streaming"),
        "group_by": lambda: rows.group_by("key", **options).agg(a=("text", "list")),
    }[operator]()
    words = r"partition \d has grown to 6\d.\d kB.* leaves 60.0 kB .*Choose another strategy"
    with pytest.raises(LargeGroupError, match=words):
        made.write_parquet(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert tiny["fold"] > 0, "the rounds before"
    assert tiny["reduce"] == 0


@pytest.mark.parametrize("whole_bytes", [10**9])
def test_streaming_reduces_large_partitions_that_fit_alone(
    tiny: collections.Counter[str], tmp_path: Path
) -> None:
    table = rows_of("half")
    made = written(tmp_path / "in", table).sort("key", strategy="streaming", num_partitions=2)
    assert_same(made.to_arrow(), query("select * from t order by key, n", t=table))
    assert tiny["reduce"] == 2


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("whole_bytes", [10**9])
def test_a_group_that_fits_alone_is_reduced_alone(tmp_path: Path) -> None:
    table = rows_of("half")
    made = written(tmp_path / "in", table).group_by("key").agg(a=("text", "list"))
    assert_same_rows(
        made.to_arrow(), query("select key, list(text order by n) a from t group by key", t=table)
    )


def joined(folder: Path, left: pa.Table, right: pa.Table, how: str, strategy: str) -> pa.Table:
    renamed = right.rename_columns(["key", "m", "other"])
    sides = written(folder / "left", left), written(folder / "right", renamed)
    made = sides[0].join(sides[1], on="key", how=how, strategy=strategy, num_partitions=3)
    wanted = query(f"select * from l {how} join r using (key)", l=left, r=renamed)  # noqa: S608
    actual = made.to_arrow()
    assert_same_rows(actual, wanted)
    return actual


@pytest.mark.parametrize(
    ("how", "strategy"), in_turn("inner", "left", "right", "full", "semi", "anti")
)
def test_joins_of_many_keys_are_divided(
    how: str, strategy: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    joined(tmp_path, rows_of("even", 2_500), rows_of("even", 1_500, seed=2), how, strategy)
    assert tiny["reduce"] > 3


@pytest.mark.parametrize(("how", "strategy"), in_turn("left", "semi", "right", "anti", "inner"))
def test_the_hot_side_of_a_join_is_cut(
    how: str, strategy: str, tiny: collections.Counter[str], tmp_path: Path
) -> None:
    hot, small = rows_of("half", 4_000), rows_of("even", 500, seed=2)
    left, right = (small, hot) if how == "right" else (hot, small)
    joined(tmp_path, left, right, how, strategy)
    assert tiny["reduce"] > 3


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("others", ["half", "even", "without", "null"])
def test_a_key_may_be_hot_whatever_the_join(how: str, others: str, tmp_path: Path) -> None:
    """On both sides, or on the left one, where the right one has few rows of the key, or none, or it is null."""
    hot = rows_of("half", 4_000)
    if others == "half":
        small = rows_of("half", 300, seed=2)
    else:
        small = rows_of("even", 500, seed=2)
    if others == "without":
        small = small.filter(pc.not_equal(small["key"], HOT))
    if others == "null":
        keys = pc.if_else(pc.equal(hot["key"], HOT), pa.scalar(None, pa.int64()), hot["key"])
        hot = hot.set_column(0, "key", keys)
    joined(tmp_path, hot, small, how, "simple")


@pytest.mark.usefixtures("tiny")
def test_both_sides_of_an_inner_join_are_hot(tmp_path: Path) -> None:
    tables = [rows_of("equal", 2_000), rows_of("half", 300, seed=2)]
    joined(tmp_path, *tables, "inner", "simple")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["map", "sample", "reduce"])
@pytest.mark.parametrize("outcome", ["raise", "die"])
def test_tasks_of_a_division_fail_and_run_again(name: str, outcome: Any, tmp_path: Path) -> None:
    table = rows_of("half")
    source = written(tmp_path / "in", table)
    # Far behind the maps and reduces of the shuffle itself: those of partitions that are divided.
    number = {"map": 25, "sample": 3, "reduce": 4}[name]
    with failing({(name, number, 1): outcome}) as engine:
        result = source.sort("key", num_partitions=2).to_arrow()
        assert engine.attempts() == {(name, number): 2}
    assert_same(result, query("select * from t order by key, n", t=table).cast(table.schema))


def test_even_partitions_are_left_alone(engine: LocalEngine, tmp_path: Path) -> None:
    counts: collections.Counter[str] = collections.Counter()
    engine.add_observer(lambda event: counts.update([event.name]))
    written(tmp_path / "in", rows_of("even")).sort("key", num_partitions=5).to_arrow()
    assert counts["reduce"] == 5
