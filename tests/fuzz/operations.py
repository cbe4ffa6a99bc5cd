"""The operation of a case on its rows, and the wanted result, by DuckDB or by the rule that the docs state.

An operation is drawn from the seed and knows both: ``run`` on a dataset, and ``wanted`` of the table that was read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import exoshuffle as xs
from tests.fuzz import oracle, peers, tables

STRATEGIES = ("auto", "auto", "simple", "push", "pre_shuffle_merge", "streaming")
LATER_STRATEGIES = (*STRATEGIES, "whole")


@dataclass(frozen=True)
class Draw:
    """The things that operations are drawn from.

    Attributes:
        rng: Random numbers of the seed.
        columns: Names of columns with the names of their types.
        num_rows: Rows of the input.
        is_read: Whether the rows come from files as they are.
        strategies: Strategies of operators that can run in one piece.
    """

    rng: random.Random
    columns: dict[str, str]
    num_rows: int
    is_read: bool = True
    strategies: Sequence[str] = STRATEGIES

    @property
    def keys(self) -> list[str]:
        """Returns columns that can be keys; ``id`` and ``few`` in any case."""
        kinds = tables.kinds()
        return ["id", "few", *(name for name, kind in self.columns.items() if kinds[kind].is_key)]

    def some_keys(self, most: int) -> list[str]:
        """Returns some of these."""
        return self.rng.sample(self.keys, min(len(self.keys), self.rng.choice([1, 1, 2, most])))


@dataclass(frozen=True)
class Operation:
    """An operation on one input, or on two of the same schema.

    Attributes:
        name: Its name in reports.
        run: Makes the dataset.
        wanted: Makes the rows that should come out.
        is_ordered: Whether the result has the order of ``wanted``, and not any order.
        is_part: Set where the result is any part of ``wanted``, with so many rows, or fewer if there are no more; -1
            for any number.
        close: Columns of floats that are nearly those of ``wanted``.
        is_flat: Whether CSV and JSON lines can hold the result where they can hold the input.
        command: The command line that does the same, without inputs and output.
        peer: The ``id`` of the resulting rows, as Polars has them.
        is_kept: Whether the result is rows of the input in a known order, so that other operations can follow.
    """

    name: str
    run: Callable[[xs.Dataset, xs.Dataset], xs.Dataset]
    wanted: Callable[[pa.Table, pa.Table], pa.Table]
    is_ordered: bool = False
    is_part: int | None = None
    close: tuple[str, ...] = ()
    is_flat: bool = True
    command: tuple[str, ...] = ()
    peer: Callable[[pa.Table], list[int]] | None = field(default=None, kw_only=True)
    is_kept: bool = field(default=False, kw_only=True)

    def then(self, other: Operation) -> Operation:
        """Returns both operations, one after the other."""
        return replace(
            other,
            name=f"{self.name}, then {other.name}",
            run=lambda left, right: _twice(other.run, self.run(left, right)),
            wanted=lambda left, right: _twice(other.wanted, self.wanted(left, right)),
            command=(),
            peer=None,
        )


def _twice(run: Callable[[Any, Any], Any], rows: Any) -> Any:
    return run(rows, rows)


def same(table: pa.Table, _: pa.Table) -> pa.Table:
    """Returns the rows as they are."""
    return table


def draw_keys(draw: Draw) -> tuple[dict[str, Any], str]:
    """Draws keys as arguments of ``sort``, and as SQL."""
    by = draw.some_keys(3)
    down = [draw.rng.random() < 0.5 for _ in by]
    nulls = [draw.rng.choice(["first", "last"]) for _ in by]
    sql = [
        f'"{key}" {"desc" if each else "asc"} nulls {place}'
        for key, each, place in zip(by, down, nulls, strict=True)
    ]
    return {"by": by, "descending": down, "nulls": nulls}, ", ".join(sql)


def sort(draw: Draw) -> Operation:
    """Sorts by any columns, in any strategy."""
    by, order = draw_keys(draw)
    strategy, parts = draw.rng.choice(draw.strategies), draw.rng.choice([None, None, 1, 2, 13])
    parts = None if strategy == "whole" else parts
    told = () if parts is None else ("--partitions", str(parts))
    return Operation(
        f"sort {order} {strategy} {parts}",
        lambda rows, _: rows.sort(**by, strategy=strategy, num_partitions=parts),
        lambda rows, _: oracle.in_order(rows, order),
        is_ordered=True,
        command=("sort", "--by", order.replace('"', ""), "--strategy", strategy, *told),
        peer=lambda rows: peers.order(rows, **by),
        is_kept=True,
    )


def top(draw: Draw) -> Operation:
    """Takes the first rows of a sort."""
    by, order = draw_keys(draw)
    count, is_top = draw.rng.choice([0, 1, 10, draw.num_rows + 5]), draw.rng.random() < 0.5
    return Operation(
        f"{'top_k' if is_top else 'limit'} {count} of sort {order}",
        lambda rows, _: rows.top_k(count, **by) if is_top else rows.sort(**by).limit(count),
        lambda rows, _: oracle.in_order(rows, order).slice(0, count),
        is_ordered=True,
        command=("sort", "--by", order.replace('"', ""), "--limit", str(count)),
        peer=lambda rows: peers.order(rows, **by)[:count],
        is_kept=True,
    )


def limit(draw: Draw) -> Operation:
    """Takes the first rows as they are."""
    count = draw.rng.choice([0, 1, 7, draw.num_rows, draw.num_rows + 1])
    return Operation(
        f"limit {count}",
        lambda rows, _: rows.limit(count),
        lambda rows, _: rows.slice(0, count),
        is_ordered=True,
        is_kept=True,
    )


def scan(draw: Draw) -> Operation:
    """Does nothing at all: rows go from one format to another."""
    del draw
    return Operation("scan", lambda rows, _: rows, same, is_ordered=True)


def moved(draw: Draw) -> Operation:
    """Puts all rows into another order, which is not compared."""
    rng = draw.rng
    parts, seed, key = rng.choice([1, 3, 17]), rng.choice([None, 0, 9]), rng.choice(draw.keys)
    strategy = rng.choice(STRATEGIES)
    cut = f"{parts} by {key} {strategy}"
    runs: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
        f"repartition {parts} {strategy}": lambda rows: rows.repartition(parts, strategy=strategy),
        f"repartition {cut}": lambda rows: rows.repartition(parts, by=key, strategy=strategy),
        f"repartition {cut} range": lambda rows: rows.repartition(parts, by=key, method="range"),
        "repartition of 20 kB": lambda rows: rows.repartition(target_size="20kB"),
        f"random_shuffle {strategy}": lambda rows: rows.random_shuffle(seed, strategy=strategy),
        f"random_shuffle {parts}": lambda rows: rows.random_shuffle(seed, num_partitions=parts),
        "two shuffles": lambda rows: rows.random_shuffle(seed).repartition(parts),
    }
    if draw.is_read:
        runs |= {
            "random_shuffle within 5": lambda rows: rows.random_shuffle(seed, window=5),
            "random_shuffle within 100 kB": lambda rows: rows.random_shuffle(seed, window="100kB"),
        }
    name = rng.choice(list(runs))
    commands = {
        f"repartition {cut}": ("repartition", "--partitions", str(parts), "--by", key, "--strategy", strategy),
        f"random_shuffle {strategy}": ("shuffle", "--strategy", strategy),
        "random_shuffle within 5": ("shuffle", "--window", "5"),
    }  # fmt: skip
    command = commands.get(name, ())
    return Operation(name, lambda rows, _: runs[name](rows), same, command=command)


def sample(draw: Draw) -> Operation:
    """Samples so many rows, or each with some probability."""
    count, fraction = (
        draw.rng.choice([0, 1, 10, draw.num_rows + 5]),
        draw.rng.choice([0.001, 0.3, 1]),
    )
    seed = draw.rng.choice([None, 3])
    if draw.rng.random() < 0.5:
        return Operation(
            f"sample {fraction:.1%}",
            lambda rows, _: rows.sample(fraction=fraction, seed=seed),
            same,
            is_part=10**9 if fraction == 1 else -1,
            command=("sample", "--fraction", str(fraction)),
        )
    return Operation(
        f"sample {count}",
        lambda rows, _: rows.sample(count, seed=seed),
        same,
        is_part=count,
        command=("sample", "--rows", str(count)),
    )


def union(draw: Draw) -> Operation:
    """Repeats the rows twice or three times, sorted or not."""
    by, order = draw_keys(draw)
    times, is_sorted = draw.rng.choice([1, 2]), draw.rng.random() < 0.6

    def run(left: xs.Dataset, right: xs.Dataset) -> xs.Dataset:
        united = left.union(*[right] * times)
        return united.sort(**by) if is_sorted else united

    def wanted(left: pa.Table, right: pa.Table) -> pa.Table:
        united = pa.concat_tables([left, *[right] * times])
        return oracle.in_order(united, order) if is_sorted else united

    name = f"union of {times + 1}, sort {order if is_sorted else 'not'}"
    return Operation(name, run, wanted, is_ordered=True, is_kept=True)
