"""From a dataset to running tasks: measure, plan, sample, choose boundaries, hand over to a strategy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from exoshuffle import _native
from exoshuffle.errors import ExoshuffleError, OptionsError, TaskError
from exoshuffle.futures import Engine, Ref, cancel, get, raise_errors, remote, wait
from exoshuffle.operators.sort import Sink, SorterConfig, SortTasks, sample_keys
from exoshuffle.shuffle.plan import Resources, ShufflePlan, Workload, plan_shuffle
from exoshuffle.shuffle.strategy import Strategy, get_strategy

#: Sampled keys per partition: the size of a partition then varies by 1/sqrt(400) = 5 % around the mean.
SAMPLES_PER_PARTITION = 400
#: Splits that are looked into for the mean and the largest row.
MEASURED_SPLITS = 8
MEASURED_ROWS = 256
#: Size of these: a few pages of each column are decoded then (for 4 GB, 64 MB took 0.38 s in all and 4 MB 0.03 s).
MEASURED_SPLIT_BYTES = 4_000_000
#: They are chosen from so many splits at most, however large the input is.
MAX_CANDIDATES = 1024
#: Sampling reads this many splits at most, evenly spread.
SAMPLED_SPLITS = 64

#: Reduces that are submitted and not done, at most: a task that waits costs its engine something for every argument
#: (Ray 0.4 KB, so 200 MB for 2,000 that take 250 blocks each), and this many keep the CPUs busy.
MAX_PENDING = 64
MAX_PENDING_PER_CPU = 4


@dataclass(frozen=True)
class JobOptions:
    """How to run a job.

    Attributes:
        strategy: ``auto``, ``simple``, ``push`` or a strategy instance.
        num_partitions: Output partitions; default: as few as memory allows.
        seed: Of the key sample.
    """

    strategy: str | Strategy = "auto"
    num_partitions: int | None = None
    seed: int = 0


@dataclass
class SortJob:
    """One sort of one source on one engine.

    Attributes:
        source: ``_native.Source``.
        config: How to read and compare.
        engine: Where it runs.
        options: How to run it.
    """

    source: Any
    config: SorterConfig
    engine: Engine
    options: JobOptions = field(default_factory=JobOptions)

    @cached_property
    def workload(self) -> Workload:
        """Size of the rows as they will travel, measured on a few stretches of the input."""
        if self.source.bytes == 0:
            return Workload(0, 0)
        split_bytes = max(MEASURED_SPLIT_BYTES, self.source.memory_bytes // MAX_CANDIDATES)
        splits = _evenly(self.source.splits(split_bytes), MEASURED_SPLITS)
        sorter = self.config.build()
        rows, row_bytes, largest = sorter.measure(splits, MEASURED_ROWS, self.options.seed)
        mean = max(1.0, row_bytes / max(rows, 1))
        if self.source.rows is None:
            return Workload(self.source.memory_bytes, int(self.source.memory_bytes / mean), largest)
        return Workload(int(self.source.rows * mean), self.source.rows, largest)

    @cached_property
    def plan(self) -> ShufflePlan:
        """The plan; refuses what cannot fit."""
        strategy = self.options.strategy if isinstance(self.options.strategy, str) else "push"
        if isinstance(self.options.strategy, str) and strategy != "auto":
            get_strategy(strategy)
        engine = self.engine
        other = engine.memory_limit - engine.budget_bytes
        resources = Resources(engine.budget_bytes, engine.num_cpus, other)
        return plan_shuffle(self.workload, resources, strategy, self.options.num_partitions)

    @cached_property
    def splits(self) -> list[str]:
        """The inputs of the maps."""
        total = max(self.workload.total_bytes, 1)
        target = max(1, self.plan.split_bytes * self.source.memory_bytes // total)
        splits: list[str] = self.source.splits(target)
        return splits

    def run(self, sink: Sink) -> Iterator[Ref]:
        """Submits everything but the reduces, which are submitted as their references are taken."""
        plan = self.plan
        strategy = self.options.strategy
        if isinstance(strategy, str):
            strategy = get_strategy(plan.strategy)
        tasks = SortTasks(self.config, self._boundaries(plan.num_partitions), sink)
        return strategy.shuffle(tasks, self.splits, plan)

    def _boundaries(self, num_partitions: int) -> bytes:
        samples: list[bytes] = []
        if num_partitions > 1:
            chosen = _evenly(list(enumerate(self.splits)), SAMPLED_SPLITS)
            num_rows = max(16, SAMPLES_PER_PARTITION * num_partitions // max(len(chosen), 1))
            run = remote(sample_keys, name="sample", executor="thread")
            samples = get(
                [
                    run.remote(self.config, index, split, num_rows, self.options.seed)
                    for index, split in chosen
                ]
            )
        boundaries: bytes = self.config.build().choose_boundaries(samples, num_partitions)
        return boundaries


@dataclass
class ScanJob:
    """Reads a source in order and hands each split to a sink: a dataset without a sort."""

    source: Any
    config: SorterConfig
    engine: Engine

    def run(self, sink: Sink) -> Iterator[Ref]:
        """Submits one task per split, as the references are taken."""
        split_bytes = min(
            32_000_000, max(1_000_000, self.engine.budget_bytes // (8 * self.engine.num_cpus))
        )
        run_scan = remote(scan, memory=2 * split_bytes, name="scan", executor="thread")
        for index, split in enumerate(self.source.splits(split_bytes)):
            yield run_scan.remote(self.config.read_options, self.config.schema, index, split, sink)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Raises the cause of a failed task as it is, where it is an error of ours: it names the file and the remedy."""
    try:
        yield
    except TaskError as error:
        if isinstance(error.__cause__, ExoshuffleError):
            raise error.__cause__ from error
        raise


def finished(refs: Iterable[Ref], num_cpus: int) -> list[Any]:
    """The results of all. After a failure or Ctrl-C none of the tasks runs, or will run."""
    taken: list[Ref] = []
    pending: list[Ref] = []
    try:
        for ref in refs:
            taken.append(ref)
            pending.append(ref)
            if len(pending) >= max(MAX_PENDING, MAX_PENDING_PER_CPU * num_cpus):
                done, pending = wait(pending, num_ready=len(pending) // 2)
                raise_errors(done)
        return [get(ref) for ref in taken]
    except BaseException:
        for ref in reversed(taken):
            cancel(ref)
        wait(taken, num_ready=len(taken))
        raise


def scan(read_options: str, schema: bytes, index: int, split: str, sink: Sink) -> Any:
    """Task of ``ScanJob``."""
    return sink(index, _native.Rows.scan(read_options, schema, split))


def make_job(
    source: Any, config: SorterConfig, is_sorted: bool, engine: Engine, options: JobOptions
) -> SortJob | ScanJob:
    """The job that a dataset asks for."""
    if is_sorted:
        return SortJob(source, config, engine, options)
    if options != JobOptions():
        raise OptionsError("strategy and partitions are for a sorted dataset; call sort() first")
    return ScanJob(source, config, engine)


def _evenly(items: list[Any], count: int) -> list[Any]:
    """At most ``count`` of the items, evenly spread."""
    if len(items) <= count:
        return items
    return [items[i * len(items) // count] for i in range(count)]
