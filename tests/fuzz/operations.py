"""What a case does to its rows, and what must come out of it, by DuckDB or by the rule that the docs state.

An operation is drawn from the seed and knows both: ``run`` on a dataset, and ``wanted`` of the table that was read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

import exoshuffle as xs

ROW = "fuzz_row"


@dataclass(frozen=True)
class Operation:
    """An operation on one input, or on two of the same schema.

    Attributes:
        name: What it is called in reports.
        run: The dataset that it makes.
        wanted: The rows that come out.
        is_ordered: Whether their order is one of two: that of ``wanted``, or any.
        is_part: Whether what comes out is any part of ``wanted``, with so many rows.
    """

    name: str
    run: Callable[[xs.Dataset, xs.Dataset], xs.Dataset]
    wanted: Callable[[pa.Table, pa.Table], pa.Table]
    is_ordered: bool = False
    is_part: int | None = None


def draw_operation(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    """One operation, by columns that can be keys."""
    return rng.choice(_OPERATIONS)(rng, keys, num_rows)


def query(sql: str, **named: pa.Table) -> pa.Table:
    """What DuckDB says, in UTC."""
    with duckdb.connect(config={"disabled_optimizers": "join_filter_pushdown"}) as connection:
        connection.execute("set timezone = 'UTC'")
        for name, table in named.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column(ROW, pa.array(range(table.num_rows), pa.int64()))


def _in_order(table: pa.Table, order: str) -> pa.Table:
    """The rows as they are, in an order that DuckDB finds."""
    keys = list(dict.fromkeys(name for name in table.column_names if f'"{name}"' in order))
    found = query(f"select {ROW} from t order by {order}, {ROW}", t=_numbered(table.select(keys)))  # noqa: S608
    return _taken(table, found.column(0).to_pylist())


def _taken(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """Some rows, also of views, which pyarrow picks none of: one slice each."""
    if not rows:
        return table.slice(0, 0)
    return pa.concat_tables([table.slice(row, 1) for row in rows])


def _draw_keys(rng: random.Random, keys: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Keys as arguments of ``sort``, and as SQL."""
    by = rng.sample(list(keys), min(len(keys), rng.choice([1, 1, 2, 3])))
    down = [rng.random() < 0.5 for _ in by]
    nulls = [rng.choice(["first", "last"]) for _ in by]
    sql = [
        f'"{key}" {"desc" if each else "asc"} nulls {place}'
        for key, each, place in zip(by, down, nulls, strict=True)
    ]
    return {"by": by, "descending": down, "nulls": nulls}, ", ".join(sql)


def _sort(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    by, order = _draw_keys(rng, keys)
    strategy = rng.choice(["auto", "simple", "push", "pre_shuffle_merge"])
    parts = rng.choice([None, None, 1, 2, 13])
    del num_rows
    return Operation(
        f"sort by {by} {strategy} {parts}",
        lambda rows, _: rows.sort(**by, strategy=strategy, num_partitions=parts),
        lambda rows, _: _in_order(rows, order),
        is_ordered=True,
    )


def _top(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    by, order = _draw_keys(rng, keys)
    count = rng.choice([0, 1, 10, num_rows + 5])
    return Operation(
        f"sort by {by}, the first {count}",
        lambda rows, _: rows.sort(**by).limit(count),
        lambda rows, _: _in_order(rows, order).slice(0, count),
        is_ordered=True,
    )


def _moved(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    parts, seed, key = rng.choice([1, 3, 17]), rng.randint(0, 9), rng.choice(list(keys))
    del num_rows
    runs: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
        "repartition": lambda rows: rows.repartition(parts),
        "repartition by": lambda rows: rows.repartition(parts, by=key),
        "random_shuffle": lambda rows: rows.random_shuffle(seed),
        "random_shuffle of parts": lambda rows: rows.random_shuffle(seed, num_partitions=parts),
        "random_shuffle within 5": lambda rows: rows.random_shuffle(seed, window=5),
        "random_shuffle within 1 MB": lambda rows: rows.random_shuffle(seed, window="1MB"),
        "two shuffles": lambda rows: rows.random_shuffle(seed).repartition(parts),
        "function": lambda rows: rows.repartition(parts).map_batches(lambda batch: batch),
    }
    name = rng.choice(list(runs))
    return Operation(
        f"{name} {parts} {key}", lambda rows, _: runs[name](rows), lambda rows, _: rows
    )


def _scan(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    count = rng.choice([0, 1, 7, num_rows, num_rows + 1])
    del keys
    return Operation(
        f"limit {count}",
        lambda rows, _: rows.limit(count),
        lambda rows, _: rows.slice(0, count),
        is_ordered=True,
    )


def _sample(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    count = rng.choice([0, 1, 10, num_rows + 5])
    del keys
    return Operation(
        f"sample {count}",
        lambda rows, _: rows.sample(count, seed=3),
        lambda rows, _: rows,
        is_part=min(count, num_rows),
    )


def _filtered(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    condition = rng.choice(["id % 3 = 1", "few is null", "few > 1 or id < 5", "false", "id >= 0"])
    del num_rows
    by, order = _draw_keys(rng, ["id", "few"])
    chosen = ["id", "few", *[key for key in keys if key not in ("id", "few")][:2]]

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        kept = query(
            f"select {ROW} from t where {condition} order by {ROW}",  # noqa: S608
            t=_numbered(rows.select(["id", "few"])),
        )
        found = _taken(rows, kept.column(0).to_pylist()).select(chosen)
        doubled = pa.array(
            [None if few is None else few * 2 for few in found["few"].to_pylist()], pa.int64()
        )
        return _in_order(found.append_column("doubled", doubled), order)

    return Operation(
        f"filter {condition}, sort by {by}",
        lambda rows, _: (
            rows.filter(condition).select(*chosen).with_columns(doubled="few * 2").sort(**by)
        ),
        wanted,
        is_ordered=True,
    )


def _union(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    by, order = _draw_keys(rng, keys)
    del num_rows
    return Operation(
        f"union, sort by {by}",
        lambda left, right: left.union(right).sort(**by),
        lambda left, right: _in_order(pa.concat_tables([left, right]), order),
        is_ordered=True,
    )


def _grouped(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    by = rng.sample(list(keys), min(len(keys), rng.choice([1, 1, 2])))
    names = ", ".join(f'"{key}"' for key in by)
    other = rng.choice([key for key in keys if key not in by] or ["id"])
    del num_rows
    sql = (
        f"select {names}, count(*)::bigint n, sum(id)::bigint s, min(id) low, max(id) high, "  # noqa: S608
        f'count("{other}")::bigint c, count(distinct "{other}")::bigint d from t group by {names}'
    )
    return Operation(
        f"group by {by} of {other}",
        lambda rows, _: rows.group_by(*by).agg(
            n="count",
            s=("id", "sum"),
            low=("id", "min"),
            high=("id", "max"),
            c=(other, "count"),
            d=(other, "count_distinct"),
        ),
        lambda rows, _: query(sql, t=rows.select(list(dict.fromkeys(["id", *by, other])))),
    )


def _distinct(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    by = rng.sample(list(keys), min(len(keys), rng.choice([1, 1, 2])))
    names = ", ".join(f'"{key}"' for key in by)
    del num_rows

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        first = query(
            f"select min({ROW}) r from t group by {names} order by r",  # noqa: S608
            t=_numbered(rows.select(by)),
        )
        return _taken(rows, first.column(0).to_pylist())

    return Operation(f"distinct {by}", lambda rows, _: rows.distinct(by), wanted)


def _join(rng: random.Random, keys: Sequence[str], num_rows: int) -> Operation:
    how = rng.choice(["inner", "left", "right", "full", "semi", "anti"])
    key = rng.choice([*keys, "id", "id"]) if num_rows <= 300 else "id"
    strategy = rng.choice(["auto", "simple", "push"])
    words = {"semi": "semi", "anti": "anti", "full": "full outer"}
    chosen = (
        f'l."{key}" k'
        if how in ("inner", "left", "semi", "anti")
        else f'coalesce(l."{key}", r."{key}") k'
    )
    columns = [chosen] + ([] if how == "right" and key == "id" else ["l.id a"])
    columns += [] if how in ("semi", "anti") else ["r.id b"]
    sql = (
        f'select {", ".join(columns)} from l {words.get(how, how)} join r on l."{key}" = r."{key}"'  # noqa: S608
    )

    def run(left: xs.Dataset, right: xs.Dataset) -> xs.Dataset:
        mine = (
            left.select(*dict.fromkeys([key, "id"]))
            .with_columns(k=f'"{key}"', a="id")
            .select("k", "a")
        )
        other = (
            right.select(*dict.fromkeys([key, "id"]))
            .with_columns(k=f'"{key}"', b="id")
            .select("k", "b")
        )
        joined = mine.join(other, on="k", how=how, strategy=strategy)
        return joined.select("k", "b") if how == "right" and key == "id" else joined

    def wanted(left: pa.Table, right: pa.Table) -> pa.Table:
        needed = list(dict.fromkeys([key, "id"]))
        return query(sql, l=left.select(needed), r=right.select(needed))

    return Operation(f"{how} join on {key} {strategy}", run, wanted)


_OPERATIONS = [
    _sort,
    _sort,
    _top,
    _moved,
    _moved,
    _scan,
    _sample,
    _filtered,
    _union,
    _grouped,
    _distinct,
    _join,
]
