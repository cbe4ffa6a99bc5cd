"""The job of a shuffle.

The job measures, plans and assigns the shuffle, and then hands it to a strategy. Guarantee: a shuffle that memory or
the spill directories have no room for is refused before any of its rows has moved.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from exoshuffle.dataset.inputs.decoding import naming
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.inputs.key_samples import sampled_keys
from exoshuffle.dataset.jobs import in_workers
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.jobs.spilling import check_disk
from exoshuffle.dataset.tree.nodes import ShuffleOptions
from exoshuffle.errors import MemoryLimitError, TaskError
from exoshuffle.futures import Engine, Ref, RefStream
from exoshuffle.futures.options import Executor
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.observe.disks import disk_kind
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.core.inputs import MapInput
from exoshuffle.operators.core.shuffle import Shuffle, Side
from exoshuffle.operators.core.sink import Sink
from exoshuffle.operators.core.tasks import TableTasks
from exoshuffle.operators.sql.databases import LOADED_BYTES
from exoshuffle.operators.sql.databases import load as load_database
from exoshuffle.operators.steps.step import Step, executor_of, functions_bytes
from exoshuffle.plan.memory import budget_alone
from exoshuffle.plan.plan import ShufflePlan, enough_bytes
from exoshuffle.plan.workload import Resources, ResultPlace, Workload
from exoshuffle.strategies.library import limit_to_plan, plan_shuffle, to_run
from exoshuffle.units import format_bytes

#: Copies of a large row where one side of a join proves so small that the other one is scanned and written.
_SCANNED_COPIES = 6


@dataclass
class ShuffleJob:
    """One shuffle on one engine: its numbers, and its tasks.

    Attributes:
        inputs: The inputs, each with the side of the shuffle that reads it.
        shuffle: The operator.
        options: How to run it.
        engine: The engine that runs it.
        results: Where the results go, for the plan.
        progress: Told of the plan.
        behind: Steps that are applied to the results on their way, for the plan: functions among them run in worker
            processes, which take memory.
    """

    inputs: Sequence[tuple[Input, Side]]
    shuffle: Shuffle
    options: ShuffleOptions
    engine: Engine
    results: ResultPlace = "files"
    progress: Progress | None = None
    behind: tuple[Step, ...] = ()

    @cached_property
    def workloads(self) -> list[Workload]:
        """The size of each input's rows as they will travel.

        Raises:
            MemoryLimitError: Workers have no room for DuckDB, which measuring takes, too.
        """
        if self.shuffle.finish.uses_database and self.resources.workers_bytes:
            in_workers.check_room(self.resources)
        try:
            with PlainErrors():
                return [source.measure(side) for source, side in self.inputs]
        except MemoryLimitError as error:
            if not error.row_bytes:
                raise
            raise self._refused(error) from None

    def _refused(self, error: MemoryLimitError) -> MemoryLimitError:
        """Returns the error with a limit that does if a part is mostly one row: nobody knows yet how long rows are."""
        if self._will_load_database:
            load_database()
        row, num_sides = error.row_bytes, len(self.shuffle.sides)
        longest = Workload(
            row * num_sides,
            num_sides,
            row,
            reduce_percent=self.shuffle.reduce_percent,
            reduce_row_bytes=self.shuffle.reduce_row_bytes,
            results=self.results,
            decoding_bytes=error.part_bytes,
            other_row_bytes=row if num_sides > 1 else 0,
            lone_row_bytes=self._lone_row_bytes(row),
        )
        strategy, num_partitions = self.options.strategy, self.shuffle.num_partitions
        limit = limit_to_plan(longest, self.resources, strategy, num_partitions)
        if num_sides > 1:
            missing = max(0, _SCANNED_COPIES * row - self.engine.budget_bytes)
            limit = max(limit, enough_bytes(self.engine.memory_limit, missing))
        return naming(error, max(limit, self._limit_alone(row)))

    def _lone_row_bytes(self, row_bytes: int) -> int:
        """Returns the memory for a group of one row, less what its function declares: tasks add that themselves."""
        finish = self.shuffle.finish
        return max(0, finish.alone_bytes(row_bytes, 1) - functions_bytes(finish.steps))

    def _limit_alone(self, row_bytes: int) -> int:
        """Returns a limit that leaves room for a group of one row of this size, where groups are needed whole."""
        needed = self.shuffle.finish.alone_bytes(row_bytes, 1)
        if not needed:
            return 0
        # Beside the group there is the slice that it comes from, and the buffers of its task.
        budget = budget_alone(needed + row_bytes)
        return enough_bytes(self.engine.memory_limit, max(0, budget - self.resources.budget_bytes))

    @cached_property
    def workload(self) -> Workload:
        """The size of all rows."""
        return self.total_workload()

    def total_workload(self) -> Workload:
        """Returns the sum of the workloads of all inputs."""
        largest = self._largest_rows()
        return Workload(
            sum(work.total_bytes for work in self.workloads),
            sum(work.num_rows for work in self.workloads),
            max(largest),
            max((work.max_item_bytes for work in self.workloads), default=0),
            read_bytes=sum(max(work.total_bytes, work.read_bytes) for work in self.workloads),
            reduce_percent=self.shuffle.reduce_percent,
            reduce_row_bytes=self.shuffle.reduce_row_bytes,
            held_bytes=sum(
                work.total_bytes
                for (source, _), work in zip(self.inputs, self.workloads, strict=True)
                if source.is_held
            ),
            result_bytes=self._result_bytes(),
            results=self.results,
            is_even=self.shuffle.is_even,
            streams_in_place=self.shuffle.finish.streams_in_place and not self.behind,
            is_passed_on=self.shuffle.is_passed_on,
            decoding_bytes=max((work.decoding_bytes for work in self.workloads), default=0),
            num_columns=self.shuffle.num_columns,
            other_row_bytes=min(largest) if len(largest) > 1 else 0,
            lone_row_bytes=self._lone_row_bytes(max(largest)),
            reading_limit_bytes=max(map(self._row_limit, self.workloads), default=0),
            decoded_bytes=max((work.decoded_bytes for work in self.workloads), default=0),
        )

    def _row_limit(self, work: Workload) -> int:
        """Returns a limit for the largest row of an input, and for a part that may be one row and so one group."""
        told = work.told_row_bytes
        return max(work.reading_limit_bytes, self._limit_alone(told) if told else 0)

    def _largest_rows(self) -> list[int]:
        """Returns the size of the largest row of each side."""
        largest = [0] * len(self.shuffle.sides)
        for (_, side), work in zip(self.inputs, self.workloads, strict=True):
            largest[side.tag] = max(largest[side.tag], work.max_row_bytes)
        return largest

    def _result_bytes(self) -> int | None:
        return self.shuffle.finish.result_bytes(*self._side_sizes())

    @property
    def result_rows(self) -> int:
        """About the number of rows of the result."""
        return self.shuffle.finish.result_rows(self._side_sizes()[0])

    def _side_sizes(self) -> tuple[list[int], list[int]]:
        """Returns the numbers of rows of the sides, and their bytes."""
        num_rows, num_bytes = [0] * len(self.shuffle.sides), [0] * len(self.shuffle.sides)
        for (_, side), work in zip(self.inputs, self.workloads, strict=True):
            num_rows[side.tag] += work.num_rows
            num_bytes[side.tag] += work.total_bytes
        return num_rows, num_bytes

    @cached_property
    def plan(self) -> ShufflePlan:
        """The plan; refuses a shuffle that cannot fit into memory."""
        # The items are cut by then. Fewer maps than CPUs leave room for smaller splits, which there are none of.
        cut_bytes = min(self.split_bytes, self.workload.total_bytes)
        largest = max(self.workload.max_item_bytes, cut_bytes)
        work = replace(self.workload, num_items=self.num_maps, max_item_bytes=largest)
        return self._planned(work)

    def check_fits(self) -> None:
        """Raises ``MemoryLimitError`` if the shuffle cannot fit into memory."""
        _ = self.plan

    @cached_property
    def split_bytes(self) -> int:
        """The size of a split, as its rows will travel."""
        return self._planned(self.workload).split_bytes

    def _planned(self, workload: Workload) -> ShufflePlan:
        if self._will_load_database and not self._leaves_room(workload):
            load_database()
        plan = self._plan_within(workload)
        self._check_group(plan)
        return plan

    @property
    def _will_load_database(self) -> bool:
        """Whether tasks will load DuckDB into this process: the budget is smaller from then on."""
        return (
            self.executor == "thread"
            and self.shuffle.finish.uses_database
            and "duckdb" not in sys.modules
        )

    def _leaves_room(self, workload: Workload) -> bool:
        """Whether each CPU has a task, and the database leaves a reduce room; else tasks need all that there will be.

        The rows of a join within 200 MB moved for 13 s before its first reduce was refused. Now it takes 1 s.
        """
        try:
            plan = self._plan_within(workload)
        except MemoryLimitError:
            return False
        left = self.resources.budget_bytes - LOADED_BYTES
        return not plan.idle_cpus and plan.reduce_memory_bytes <= left

    def _plan_within(self, workload: Workload) -> ShufflePlan:
        num_partitions = self._num_partitions()
        return plan_shuffle(workload, self.resources, self.options.strategy, num_partitions)

    def _check_group(self, plan: ShufflePlan) -> None:
        """Raises ``MemoryLimitError`` if all rows are one group, which surely does not fit."""
        work = self.workload
        needed = self.shuffle.alone_bytes(work.total_bytes, work.num_rows)
        if needed > plan.alone_bytes:
            raise MemoryLimitError(
                f"all rows are one group, which needs {format_bytes(needed)} of memory; the memory limit of "
                f"{format_bytes(plan.limit_bytes)} leaves {format_bytes(plan.alone_bytes)} for it. Use approx_quantile "
                "for median and quantile, or raise memory_limit to "
                f"{format_bytes(plan.limit_for(needed, plan.alone_bytes))}"
            )

    @property
    def executor(self) -> Executor:
        """The executor of its tasks, unless the sink asks for another."""
        steps = [step for source, _ in self.inputs for step in source.steps]
        return executor_of(self.shuffle.executor, steps)

    @property
    def functions_bytes(self) -> int:
        """The memory that users' functions declare, for all tasks that run at once, within the budget."""
        in_maps = max((functions_bytes(source.steps) for source, _ in self.inputs), default=0)
        in_reduces = functions_bytes((*self.shuffle.finish.steps, *self.behind))
        room = max(0, self.engine.budget_bytes - self.plan.peak_bytes)
        return min(self.engine.num_cpus * max(in_maps, in_reduces), room)

    @property
    def resources(self) -> Resources:
        """The resources of the engine."""
        engine = self.engine
        executor = executor_of(self.executor, self.behind)
        workers_bytes = engine.workers_bytes(executor)
        if workers_bytes and self.shuffle.finish.uses_database:
            workers_bytes += in_workers.database_bytes()
        budget_bytes = engine.budget_bytes - workers_bytes
        return Resources(
            budget_bytes,
            engine.num_cpus,
            engine.memory_limit - budget_bytes,
            sum(node.resources.get("CPU", 0) > 0 for node in engine.nodes()) or 1,
            disk_kind(engine.spill_dirs),
            engine.spill_codec,
            workers_bytes,
        )

    def _num_partitions(self) -> int | None:
        if self.shuffle.num_partitions is not None:
            return self.shuffle.num_partitions
        if self.options.target_bytes is not None:
            return max(1, -(-self.workload.total_bytes // self.options.target_bytes))
        return self.options.num_partitions

    @cached_property
    def items(self) -> list[list[object]]:
        """The items of the maps, input by input."""
        return [
            source.cut(side, self.split_bytes, work)
            for (source, side), work in zip(self.inputs, self.workloads, strict=True)
        ]

    @property
    def num_maps(self) -> int:
        """The number of maps."""
        return sum(map(len, self.items))

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """Submits everything but the reduces; taking their references submits these.

        Raises:
            DiskFullError: The spill directories have less room than will be spilled.
        """
        check_disk(self.engine, self.shuffle.name, self.plan.spilled_bytes)
        strategy = to_run(self.options.strategy)
        if self.progress is not None:
            self.progress.start(self.workload.total_bytes, self.num_maps, self.plan.num_partitions)
        map_inputs = tuple(source.map_input(side) for source, side in self.inputs)
        starts = list(itertools.accumulate(map(len, self.items), initial=0))
        tasks = TableTasks(
            self.shuffle.name,
            map_inputs,
            tuple(starts[:-1]),
            starts[-1],
            self._assignment(map_inputs, starts),
            self.shuffle.finish,
            sink,
            executor_of(self.executor, sink.all_steps),
        )
        items = list(itertools.chain.from_iterable(self.items))
        return self._naming_limits(strategy.shuffle(tasks, items, self.plan))

    def _naming_limits(self, results: Iterator[Ref | RefStream]) -> Iterator[Ref | RefStream]:
        """Hands on results; a row that a map has no room for is refused with a limit that does for the shuffle."""
        try:
            yield from results
        except TaskError as error:
            cause = error.__cause__
            if not isinstance(cause, MemoryLimitError) or not cause.row_bytes:
                raise
            raise self._refused(cause) from None

    def _assignment(self, map_inputs: Sequence[MapInput], starts: Sequence[int]) -> bytes:
        num_partitions = self.plan.num_partitions
        samples: list[bytes] = []
        if self.shuffle.is_sampled and num_partitions > 1:
            items = [
                list(enumerate(items, start))
                for items, start in zip(self.items, starts[:-1], strict=True)
            ]
            samples = sampled_keys(
                self.inputs, self.workloads, items, num_partitions, self.engine.budget_bytes
            )
        return self.shuffle.assign(map_inputs[0].config.build(), samples, num_partitions)
