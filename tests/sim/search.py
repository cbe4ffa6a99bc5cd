"""Seeded fault search: a seed is an operator, a strategy with its mechanisms, a cluster, and what goes wrong on it.

The functions of the library run, on a few rows; only time is virtual. Whatever dies, is lost, late or twice, the rows
must be right. They are as many, in the right order where there is one, with the same values. Nothing else is expected,
not even an error, since no fault goes on for ever.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import exoshuffle as xs
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.engines.sim import Cluster, Disk, Machine, SeededFaults, SimEngine
from exoshuffle.futures import Ref
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies import (
    BestEffort,
    FixedBlockSize,
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    Simple,
    Speculation,
    Streaming,
)
from exoshuffle.strategies.mechanisms.pieces import READ_BYTES
from exoshuffle.strategies.strategy import Around, PlannedStrategy
from exoshuffle.strategies.task_set import TaskSet
from exoshuffle.testing import assert_every_row_arrives

Draw = random.Random
#: Bytes of a split, so that a hundred rows are several maps.
SPLIT_BYTES = 700
#: Those that a strategy is told.
PLANNED_BYTES = 4 * READ_BYTES
NUM_FILES, ROWS_PER_FILE = 7, 12
DISK = Disk(50e6, 50e6, request_seconds=1e-4)


class Small(Around):
    """Another strategy, with rounds and merges that a few maps fill."""

    def __init__(self, strategy: PlannedStrategy) -> None:
        self.strategy = strategy

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        small = dataclasses.replace(plan, round_size=3, merge_factor=2, split_bytes=PLANNED_BYTES)
        return self.strategy.shuffle(tasks, splits, small)


def strategy(draw: Draw, clock: Callable[[], float]) -> PlannedStrategy:
    """Draws a strategy with its mechanisms."""
    copies = Speculation(draw.uniform(1, 3), draw.choice([0.1, 0.5]), 0.001, clock)
    speculation = draw.choice([None, copies])
    effort = BestEffort(draw.choice([0, 50, 100]), draw.choice([None, 0.0, 0.01]))
    policy = draw.choice([FixedFiles(draw.randint(2, 4)), FixedBlockSize(draw.randint(200, 2000))])
    # So little memory that merges are cut into pieces; a draw more would make other cases of all seeds.
    memory = 5 * PLANNED_BYTES // 2 if copies.multiple < 2 else None
    options = MergeOptions(policy, effort.percent, effort.timeout_seconds, memory, clock)
    made: list[PlannedStrategy] = [
        Simple(speculation),
        Push(speculation=speculation),
        Push(merge_bytes=draw.randint(300, 3000), speculation=speculation),
        Push(keep_map_outputs=True, speculation=speculation, best_effort=effort),
        PreShuffleMerge(options, speculation),
        Streaming(round_size=draw.randint(1, 4), speculation=speculation),
    ]
    return Small(draw.choice(made))


# --- operators -----------------------------------------------------------------------------------------------------

Rows = list[dict[str, object]]


@functools.cache
def written() -> tuple[str, pa.Table]:
    """Writes the input once, and returns its folder and its rows."""
    folder = tempfile.TemporaryDirectory(prefix="exoshuffle-search-")
    _folders.append(folder)
    draw = Draw(7)
    tables = []
    for index in range(NUM_FILES):
        rows = [
            {
                "key": draw.choice([None, *range(8)]),
                "text": f"t{draw.randrange(30)}",
                "value": 1000 * index + each,
                "list": [each] * draw.randrange(3),
            }
            for each in range(ROWS_PER_FILE)
        ]
        tables.append(pa.Table.from_pylist(rows))
        pq.write_table(tables[-1], Path(folder.name, f"{index}.parquet"))
    return folder.name, pa.concat_tables(tables)


#: Their folders go when the program ends.
_folders: list[tempfile.TemporaryDirectory[str]] = []


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator: how it is asked for, and the rows that it has to make, in this order or in any."""

    name: str
    run: Callable[[xs.Dataset, dict[str, object]], xs.Dataset]
    expected: Callable[[Rows], Rows]
    is_ordered: bool = False


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["key"] is None, row["key"]))


def _grouped(rows: Rows) -> Rows:
    sums: dict[object, list[int]] = {}
    for row in rows:
        sums.setdefault(row["key"], []).append(int(str(row["value"])))
    return [{"key": key, "n": len(values), "s": sum(values)} for key, values in sums.items()]


def _distinct(rows: Rows) -> Rows:
    first: dict[object, dict[str, object]] = {}
    for row in rows:
        first.setdefault(row["key"], row)
    return list(first.values())


def _joined(rows: Rows) -> Rows:
    right = {1: "one", 3: "three"}
    return [{**row, "name": right[row["key"]]} for row in rows if row["key"] in right]


def _join(data: xs.Dataset, options: dict[str, object]) -> xs.Dataset:
    right = data.select("key").distinct("key").filter("key = 1 or key = 3")
    named = right.select(key="key", name="case when key = 1 then 'one' else 'three' end")
    return data.join(named, "key", **options)


def _first_of_group(table: pa.Table) -> pa.Table:
    return table.select(["key"]).slice(0, 1)


OPERATORS = [
    Operator("sort", lambda data, options: data.sort("key", **options), _sorted, is_ordered=True),
    Operator(
        "group_by",
        lambda data, options: data.group_by("key", **options).agg(
            n=("value", "count"), s=("value", "sum")
        ),
        _grouped,
    ),
    Operator("distinct", lambda data, options: data.distinct("key", **options), _distinct),
    Operator("join", _join, _joined),
    Operator(
        "random_shuffle", lambda data, options: data.random_shuffle(seed=3, **options), lambda r: r
    ),
    Operator(
        "repartition", lambda data, options: data.repartition(by="text", **options), lambda r: r
    ),
]


# --- a seed --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """The shuffle and the faults that a seed stands for."""

    seed: int
    operator: str
    strategy: str
    num_nodes: int
    faults: SeededFaults
    memory_bytes: int
    num_cpus: int
    num_partitions: int

    @classmethod
    def draw(cls, seed: int) -> Case:
        """Draws the case of a seed."""
        draw = Draw(f"{seed} case")
        names = ["rows", *(operator.name for operator in OPERATORS)]
        operator = draw.choice([*["rows"] * 6, *names])
        num_nodes = draw.randint(1, 4)
        mortal = [f"node-{index}" for index in range(1, num_nodes)]
        deaths = [(draw.uniform(0, 0.03), name) for name in mortal if draw.random() < 0.4]
        faults = SeededFaults(
            node_deaths=deaths,
            seed=seed,
            death_percent=draw.choice([0, 5, 20]),
            slow_percent=draw.choice([0, 10, 30]),
            loss_percent=draw.choice([0, 10, 40]),
            loss_seconds_most=draw.choice([0.002, 0.02]),
        )
        # Labels have a hundred bytes each; tables are planned with buffers.
        memory = draw.choice([5_000, 8_000, 100_000]) if operator == "rows" else 400_000_000
        drawn = strategy(Draw(f"{seed} strategy"), lambda: 0.0)
        return cls(
            seed,
            operator,
            drawn.name,
            num_nodes,
            faults,
            memory,
            draw.randint(1, 3),
            draw.randint(2, 5),
        )

    def engine(self) -> SimEngine:
        """Makes the engine."""
        machine = Machine(self.num_cpus, self.memory_bytes, DISK, 100e6)
        cluster = Cluster.of(machine, self.num_nodes)
        return SimEngine(cluster, seed=self.seed, faults=self.faults)

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.operator} by {self.strategy} on {self.num_nodes} nodes of {self.num_cpus} CPUs"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a seed: what is wrong, if anything; the hash of the trace; and what has happened, in numbers."""

    wrong: str
    trace_hash: str
    counts: dict[str, int]


def run(seed: int) -> Outcome:
    """Runs the case of a seed. Garbage is collected before, so that its trace does not depend on when Python does."""
    case = Case.draw(seed)
    gc.collect(0)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with xs.init(case.engine()) as engine:
            assert isinstance(engine, SimEngine)
            drawn = strategy(Draw(f"{seed} strategy"), engine.clock)
            wrong = _wrong(case, drawn)
            return Outcome(wrong, engine.trace_hash, engine.stats())
    finally:
        if was_enabled:
            gc.enable()


def _wrong(case: Case, drawn: PlannedStrategy) -> str:
    try:
        if case.operator == "rows":
            assert_every_row_arrives(drawn, 9, case.num_partitions)
            return ""
        (operator,) = [each for each in OPERATORS if each.name == case.operator]
        return _differs(operator, drawn, case.num_partitions)
    except Exception as error:  # noqa: BLE001  whatever it is, the search has found it
        return f"{type(error).__name__}: {error}"


def _differs(operator: Operator, drawn: PlannedStrategy, num_partitions: int) -> str:
    folder, table = written()
    options = {"strategy": drawn, "num_partitions": num_partitions}
    with mock.patch.object(ShuffleJob, "split_bytes", SPLIT_BYTES):
        found = operator.run(xs.read_parquet(folder), options).to_arrow().to_pylist()
    expected = operator.expected(table.to_pylist())
    if not operator.is_ordered:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    if found == expected:
        return ""
    return (
        f"{len(found)} rows instead of {len(expected)}"
        if len(found) != len(expected)
        else (
            f"rows differ: {next(pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1])}"
        )
    )
