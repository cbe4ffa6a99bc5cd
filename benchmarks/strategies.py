"""The shapes of the strategies: time, bytes spilled and slices read, by strategy, memory and number of partitions.

What the papers say should show: ``simple`` wins while everything is in memory, since it copies least; out of memory,
the more partitions, the smaller its slices, and the strategies that merge win (Exoshuffle, §5.1; Riffle, §2.2). A
reduce of ``simple`` reads M slices; after merges of N blocks M / N (Riffle, §4.5). ``push`` writes less than with
``keep_map_outputs``, which spills map outputs as well as merges (Exoshuffle, §3.2.3).

Guarantee: the same records sorted and read as batches, in turn, by an engine of its own for each run.

    python -m benchmarks.strategies --gb 1 --partitions 64 --partitions 2048
"""

from __future__ import annotations

import functools
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

import exoshuffle as xs
from benchmarks.experiments.experiment import engine, in_turn, parser
from benchmarks.rounds import spread
from exoshuffle.cloudsort import gensort
from exoshuffle.futures import Ref
from exoshuffle.futures.options import Executor
from exoshuffle.strategies import (
    Around,
    FixedFiles,
    MergeOptions,
    PlannedStrategy,
    PreShuffleMerge,
    Push,
    ShufflePlan,
    Simple,
    TaskSet,
)
from exoshuffle.strategies.task_set import ManyResults

NUM_FILES = 8
RECORD_BYTES = 100
#: Budgets as shares of the data: all of it and the working memory of tasks fits, or far from it.
BUDGETS = {"in memory": 4, "spilled": 0.4}
#: What tasks need, however little data there is.
LEAST_BUDGET_BYTES = 250_000_000
STRATEGIES: dict[str, PlannedStrategy] = {
    "simple": Simple(),
    "push": Push(),
    "push, keep_map_outputs": Push(keep_map_outputs=True),
    "pre_shuffle_merge, 4 files": PreShuffleMerge(MergeOptions(FixedFiles(4), percent=100)),
}


@dataclass
class Counters:
    """What the tasks of a shuffle read.

    Attributes:
        num_slices: That reduces read.
        merged_bytes: That merges read.
    """

    num_slices: int = 0
    merged_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, num_slices: int, merged_bytes: int) -> None:
        """Counts one task."""
        with self._lock:
            self.num_slices += num_slices
            self.merged_bytes += merged_bytes


@dataclass(frozen=True)
class CountedTasks:
    """A task set that counts what it reads; on threads of this process."""

    tasks: TaskSet
    counters: Counters

    @property
    def executor(self) -> Executor:
        """See ``TaskSet``."""
        return self.tasks.executor

    @property
    def reduce_returns(self) -> int | Literal["streaming"]:
        """See ``ManyResults``."""
        return self.tasks.reduce_returns if isinstance(self.tasks, ManyResults) else 1

    def map(self, index: int, split: Any) -> Any:
        """See ``TaskSet``."""
        return self.tasks.map(index, split)

    def merge(self, *blocks: Any) -> Any:
        """See ``TaskSet``."""
        self.counters.add(0, sum(len(data) for block in blocks for data in block))
        return self.tasks.merge(*blocks)

    def reduce(self, partition: int, slices: list[Any]) -> Any:
        """See ``TaskSet``."""
        self.counters.add(len(slices), 0)
        return self.tasks.reduce(partition, slices)


@dataclass(frozen=True)
class Counted(Around):
    """A strategy whose tasks are counted."""

    strategy: PlannedStrategy
    counters: Counters

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        return self.strategy.shuffle(CountedTasks(tasks, self.counters), splits, plan)


@dataclass(frozen=True)
class Outcome:
    """One run.

    Attributes:
        seconds: From the first task to the last batch.
        spilled_bytes: Written to disk.
        num_slices, merged_bytes: See ``Counters``.
    """

    seconds: float
    spilled_bytes: int
    num_slices: int
    merged_bytes: int


@dataclass(frozen=True)
class Arena:
    """Where runs take place.

    Attributes:
        input: Folder of records.
        num_records: How many there are.
        root: Folder for spilled data.
    """

    input: Path
    num_records: int
    root: Path

    def run(self, strategy: str, num_partitions: int, share: float) -> Outcome:
        """Sorts with a budget of a share of the data, and reads all batches."""
        budget = max(LEAST_BUDGET_BYTES, int(share * self.num_records * RECORD_BYTES))
        counters = Counters()
        with engine(self.root, budget) as running:
            records = xs.read_records(self.input)
            counted = Counted(STRATEGIES[strategy], counters)
            begun = time.perf_counter()
            ordered = records.sort(strategy=counted, num_partitions=num_partitions)
            assert sum(batch.num_rows for batch in ordered.iter_batches()) == self.num_records
            seconds = time.perf_counter() - begun
            spilled = running.stats()["spilled_bytes"]
        return Outcome(seconds, spilled, counters.num_slices, counters.merged_bytes)


def main() -> None:
    """Runs all strategies in turn and prints a table for each budget and number of partitions."""
    settings = parser("The shapes of the strategies.", num_rounds=3)
    settings.add_argument("--gb", type=float, default=1, help="size of the records")
    settings.add_argument(
        "--partitions", type=int, action="append", help="R; may be repeated (64, 256 and 2048)"
    )
    options = settings.parse_args()
    folder = options.root / f"strategies-{options.gb:g}gb"
    num_records = round(options.gb * 1e9) // RECORD_BYTES
    if not folder.exists():
        gensort(folder, num_records, partitions=NUM_FILES)
    arena = Arena(folder, num_records, options.root)
    for kind, share in BUDGETS.items():
        for num_partitions in options.partitions or (64, 256, 2048):
            contenders = {
                name: functools.partial(arena.run, name, num_partitions, share)
                for name in STRATEGIES
            }
            outcomes = in_turn(options.rounds, contenders)
            _print(f"{options.gb:g} GB {kind}, {num_partitions} partitions", outcomes)


def _print(title: str, outcomes: dict[str, list[Outcome]]) -> None:
    table = Table(
        "", "seconds", "of simple's", "GB spilled", "slices read", "GB merged", title=title
    )
    baseline = statistics.median(run.seconds for run in outcomes["simple"])
    for name, runs in outcomes.items():
        seconds = [run.seconds for run in runs]
        table.add_row(
            name,
            spread(seconds, 2),
            f"{statistics.median(seconds) / baseline:.2f}",
            spread([run.spilled_bytes / 1e9 for run in runs], 2),
            str(runs[0].num_slices),
            f"{runs[0].merged_bytes / 1e9:.2f}",
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
