"""Every operator and every strategy, for tests that run each with each: what to call, and what DuckDB makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.jobs import small_sides
from exoshuffle.futures import Ref, Refs
from exoshuffle.plan import candidate, memory
from exoshuffle.strategies import (
    FixedBlockSize,
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    ShufflePlan,
    Streaming,
    TaskSet,
)
from exoshuffle.strategies.task_set import stage
from tests.support.generated import assert_same_rows, generated, query
from tests.support.oracle import assert_same, write_files
from tests.support.shuffled import always_shuffle

PARTITIONS = 7
KEYS = 150


class Backwards:
    """A strategy of the user's own: maps are submitted last to first, and neighbours merged in pairs."""

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], made: ShufflePlan) -> Iterator[Ref]:
        run_map = stage(tasks, "map", num_returns=made.num_partitions)
        run_merge = stage(tasks, "merge", num_returns=made.num_partitions)
        run_reduce = stage(tasks, "reduce")
        blocks = [run_map.remote(index, splits[index]) for index in reversed(range(len(splits)))]
        blocks.reverse()
        merged = Refs(
            run_merge.remote(*blocks[first : first + 2]) for first in range(0, len(blocks), 2)
        )
        for partition in range(made.num_partitions):
            yield run_reduce.remote(partition, merged.column(partition))


STRATEGIES: dict[str, Any] = {
    "simple": "simple",
    "push": "push",
    "push-keeping": Push(keep_map_outputs=True),
    "pre_shuffle_merge": PreShuffleMerge(MergeOptions(FixedFiles(3))),
    "pre_shuffle_merge-size": PreShuffleMerge(MergeOptions(FixedBlockSize(6_000), percent=100)),
    "streaming": "streaming",
    "streaming-rounds": Streaming(round_size=3),
    "own": Backwards(),
}


@dataclass(frozen=True)
class Operator:
    """One operator.

    Attributes:
        run: Makes a dataset of two others, with ``strategy`` and ``num_partitions`` as keywords.
        sql: The same, over the tables ``l`` and ``r``.
        is_ordered: Whether the query says the order of rows too.
    """

    run: Callable[..., xs.Dataset]
    sql: str
    is_ordered: bool = False


def first_row(group: pa.Table) -> pa.Table:
    """For ``map_groups``."""
    return group.select(["small", "id"]).slice(0, 1)


def same(batch: pa.Table) -> pa.Table:
    """For ``map_batches``: because of it, all tasks run in worker processes."""
    return batch


def _join(how: str) -> Operator:
    others = "" if how in ("semi", "anti") else ", other, r.text as text_right"
    return Operator(
        lambda left, right, **how_to_run: left.join(right, on="k", how=how, **how_to_run),
        f"select id, k, small, x, l.text, moment{others} from l {how} join r using (k)",  # noqa: S608  names of this test
    )


def _cross(left: xs.Dataset, right: xs.Dataset, **how_to_run: Any) -> xs.Dataset:
    few = right.filter("other < 5").select("other")
    return left.select("id").join(few, how="cross", **how_to_run)


def _broadcast(left: xs.Dataset, right: xs.Dataset, **how_to_run: Any) -> xs.Dataset:
    # Of one that was asked how to run there would be a shuffle.
    few = right.filter("other < 40").select("k", "other")
    return left.select("id", "k").random_shuffle(2, **how_to_run).join(few, on="k")


def _groups_then_order(left: xs.Dataset, right: xs.Dataset, **how_to_run: Any) -> xs.Dataset:
    totals = left.filter("small > 1").group_by("k", **how_to_run).agg(total=("id", "sum"))
    known = totals.join(right.select("k"), on="k", how="semi", **how_to_run)
    return known.with_columns(third="total // 3").sort("third", **how_to_run).limit(100)


def _order_then_shuffles(left: xs.Dataset, right: xs.Dataset, **how_to_run: Any) -> xs.Dataset:
    both = left.select("k", "id").union(right.select("k", id="other"))
    dealt = both.repartition(5, strategy=how_to_run["strategy"])
    random = dealt.random_shuffle(3, **how_to_run)
    return random.distinct(**how_to_run).sort(["id", "k"], descending=[True, False], **how_to_run)


OPERATORS: dict[str, Operator] = {
    "sort": Operator(
        lambda left, _, **how: left.sort("k", **how), "select * from l order by k, id", True
    ),
    "sort-several": Operator(
        lambda left, _, **how: left.sort(
            ["small", "text"], descending=[True, False], nulls="first", **how
        ),
        "select * from l order by small desc nulls first, text nulls first, id",
        True,
    ),
    "repartition-turn": Operator(
        lambda left, _, strategy, num_partitions: left.repartition(
            num_partitions, strategy=strategy
        ),
        "select * from l",
    ),
    "repartition-hash": Operator(
        lambda left, _, strategy, num_partitions: left.repartition(
            num_partitions, by=["k", "small"], strategy=strategy
        ),
        "select * from l",
    ),
    "repartition-range": Operator(
        lambda left, _, strategy, num_partitions: left.repartition(
            num_partitions, by="x", method="range", strategy=strategy
        ),
        "select * from l",
    ),
    "repartition-size": Operator(
        lambda left, _, strategy, **_number: left.repartition(
            target_size=50_000, strategy=strategy
        ),
        "select * from l",
    ),
    "random_shuffle": Operator(
        lambda left, _, **how: left.random_shuffle(5, **how), "select * from l"
    ),
    "group_by-combined": Operator(
        lambda left, _, **how: left.group_by("k", **how).agg(
            n="count", total=("id", "sum"), least=("x", "min"), most=("text", "max")
        ),
        "select k, count(*) as n, sum(id)::bigint as total, min(x) as least, max(text) as most "
        "from l group by k",
    ),
    "group_by-whole": Operator(
        lambda left, _, **how: left.group_by("small", "k", **how).agg(
            half=("id", "median"), ids=("id", "list"), texts=("text", "count_distinct")
        ),
        "select small, k, median(id) as half, list(id order by id) as ids, "
        "count(distinct text) as texts from l group by small, k",
    ),
    "map_groups": Operator(
        lambda left, _, **how: left.group_by("small", **how).map_groups(first_row),
        "select small, min(id) as id from l group by small",
    ),
    "window": Operator(
        lambda left, _, **how: left.window(
            partition_by=["small", "k"],
            order_by=["moment", "id"],
            n="row_number()",
            before="lag(text)",
            total="sum(id)",
            **how,
        ),
        "select *, row_number() over o as n, lag(text) over o as before, (sum(id) over o)::bigint as total "
        "from l window o as (partition by small, k order by moment, id)",
    ),
    "distinct": Operator(
        lambda left, _, **how: left.select("k", "small").distinct(**how),
        "select distinct k, small from l",
    ),
    "distinct-first": Operator(
        lambda left, _, **how: left.distinct(["k", "small"], **how),
        "select * from l qualify row_number() over (partition by k, small order by id) = 1",
    ),
    **{f"join-{how}": _join(how) for how in ("inner", "left", "right", "full", "semi", "anti")},
    "join-cross": Operator(_cross, "select l.id, other from l cross join r where other < 5"),
    "join-broadcast": Operator(
        _broadcast, "select l.id, k, other from l join r using (k) where other < 40"
    ),
    "pipeline-groups": Operator(
        _groups_then_order,
        "select k, sum(id)::bigint as total, sum(id)::bigint // 3 as third from l where small > 1 "
        "and k in (select k from r) group by k order by third limit 100",
        True,
    ),
    "pipeline-shuffles": Operator(
        _order_then_shuffles,
        "select distinct k, id from (select k, id from l union all select k, other from r) "
        "order by id desc, k",
        True,
    ),
}


@dataclass(frozen=True)
class Tables:
    """Two tables, and their Parquet files.

    Attributes:
        left: Table ``l`` of the queries.
        right: Table ``r``, in which some keys are missing and some others are.
        folder: Of the files.
    """

    left: pa.Table
    right: pa.Table
    folder: Path

    def result(self, name: str, strategy: str, in_processes: bool = False) -> pa.Table:
        """The result of the current engine."""
        left, right = (xs.read_parquet(self.folder / side) for side in ("left", "right"))
        if in_processes:
            left, right = left.map_batches(same), right.map_batches(same)
        made = OPERATORS[name].run(
            left, right, strategy=STRATEGIES[strategy], num_partitions=PARTITIONS
        )
        return made.to_arrow()

    def check(self, name: str, actual: pa.Table) -> None:
        """Whether a result is DuckDB's."""
        operator = OPERATORS[name]
        wanted = query(operator.sql, l=self.left, r=self.right)
        compare = assert_same if operator.is_ordered else assert_same_rows
        compare(actual, wanted)


def make_tables(folder: Path) -> Tables:
    """Tables of some hundred kilobytes, in row groups that are small enough to be cut between maps."""
    left = generated(4000, KEYS, seed=1).drop_columns(["nested"])
    rows = generated(400, KEYS, seed=2)
    right = query("select k + 30 as k, id as other, text from t", t=rows)
    write_files(folder / "left", left, 4, rows_per_group=250)
    write_files(folder / "right", right, 2, rows_per_group=50)
    return Tables(left, right, folder)


def cut_small(patch: pytest.MonkeyPatch, split_bytes: int = 1) -> None:
    """Plans get eight maps in rounds of two, however few rows there are, and what can be shuffled is.

    Args:
        patch: Undoes it.
        split_bytes: Size of a part that is not cut. Where filters leave few of many rows, a map would otherwise read
            next to nothing.
    """
    patch.setattr(memory, "MIN_SPLIT_BYTES", split_bytes)
    patch.setattr(candidate, "MAX_MERGED", 2)
    patch.setattr(small_sides, "MAX_BROADCAST_BYTES", 2_000)
    always_shuffle(patch)
