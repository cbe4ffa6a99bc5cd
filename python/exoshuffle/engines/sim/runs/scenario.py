"""A shuffle to simulate: its sizes, its strategy, what its functions take, and the cluster that it runs on.

Guarantee: a scenario that cannot work is refused when it is made: before any virtual time passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.engines.sim.cluster.description import Cluster
from exoshuffle.engines.sim.cluster.prices import PriceList
from exoshuffle.engines.sim.models import Call, Cost, CostModel, Step
from exoshuffle.errors import OptionsError, shown
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import ceil_div
from exoshuffle.strategies.library import get_strategy
from exoshuffle.strategies.strategy import PlannedStrategy, Strategy

#: Where rows come from, and where results go.
Where = Literal["storage", "disk", "nowhere"]
_GIGABYTE = 10**9
#: Requests of the disk take as many bytes, where maps and reduces read and write files.
FILE_PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class Bought:
    """The things that have a price.

    Attributes:
        prices: The price list.
        machines: How many of each kind.
        volume_gigabytes: Gigabytes of volumes, of all nodes together.
    """

    prices: PriceList
    machines: Mapping[str, int]
    volume_gigabytes: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """A shuffle on a cluster.

    Attributes:
        cluster: The nodes.
        strategy: The strategy, which runs as it is: a name, or an instance.
        total_bytes: Size of all rows.
        num_splits: Maps.
        num_partitions: Reduces.
        cpu: Seconds of a CPU for each gigabyte that a task takes: of ``map``, ``merge``, ``reduce`` or ``fold``.
        reads: Where maps read their rows; ``disk`` is that of their node.
        writes: Where reduces write theirs.
        read_request_bytes, write_request_bytes: Size of a request to the object storage.
        round_size, merge_factor: See ``ShufflePlan``.
        map_memory_bytes, reduce_memory_bytes: Working memory. Default: a split, a partition.
        bought: The things that have a price; None for no bill.
    """

    cluster: Cluster
    strategy: str | Strategy
    total_bytes: int
    num_splits: int
    num_partitions: int
    cpu: Mapping[str, float]
    reads: Where = "disk"
    writes: Where = "disk"
    read_request_bytes: int = 16 << 20
    write_request_bytes: int = 100_000_000
    round_size: int | None = None
    merge_factor: int = 1
    map_memory_bytes: int | None = None
    reduce_memory_bytes: int | None = None
    bought: Bought | None = None

    def __post_init__(self) -> None:
        for name in ("total_bytes", "num_splits", "num_partitions", "merge_factor"):
            _check_count(name, getattr(self, name))
        for name in ("read_request_bytes", "write_request_bytes"):
            _check_count(name, getattr(self, name))
        for step in self.planned_strategy.steps:
            if step not in self.cpu:
                raise OptionsError(
                    f"there is no cost model for {step}, which the strategy {self.planned_strategy.name} runs; add the "
                    f"seconds of a CPU that a gigabyte takes: [cpu] {step} = 1.5"
                )
        for step, seconds in self.cpu.items():
            if not (is_number(seconds) and 0 <= seconds < math.inf):
                raise OptionsError(
                    f"cpu of {step} is {shown(seconds)}; give seconds for a gigabyte, from 0 on"
                )
        for option, where in (("reads", self.reads), ("writes", self.writes)):
            self._check_place(option, where)

    def _check_place(self, option: str, where: str) -> None:
        if where not in {"storage", "disk", "nowhere"}:
            raise OptionsError(f"{option} is {shown(where)}; choose storage, disk or nowhere")
        if where == "storage" and self.cluster.storage is None:
            raise OptionsError(
                f"{option} is storage, and the cluster has none; describe it in [storage], or choose disk or nowhere"
            )
        if where == "disk" and any(machine.disk is None for machine in self.cluster.machines):
            raise OptionsError(
                f"{option} is disk, and a node has none; describe it in [disk], or choose storage or nowhere"
            )

    @property
    def planned_strategy(self) -> PlannedStrategy:
        """The strategy."""
        return get_strategy(self.strategy)

    @property
    def split_bytes(self) -> int:
        """The rows of a map."""
        return ceil_div(self.total_bytes, self.num_splits)

    @property
    def partition_bytes(self) -> int:
        """The rows of a reduce."""
        return ceil_div(self.total_bytes, self.num_partitions)

    def plan(self) -> ShufflePlan:
        """Returns the numbers for the strategy."""
        reduce_memory = self.partition_bytes
        if self.reduce_memory_bytes is not None:
            reduce_memory = self.reduce_memory_bytes
        map_memory = self.split_bytes if self.map_memory_bytes is None else self.map_memory_bytes
        return ShufflePlan(
            strategy=self.planned_strategy.name,
            why="asked for",
            num_splits=self.num_splits,
            num_partitions=self.num_partitions,
            split_bytes=self.split_bytes,
            partition_bytes=self.partition_bytes,
            row_group_bytes=0,
            round_size=self.round_size or self.num_splits,
            merge_factor=self.merge_factor,
            map_memory_bytes=map_memory,
            reduce_memory_bytes=reduce_memory,
            peak_bytes=0,
            spilled_bytes=0,
        )

    def models(self) -> dict[str, CostModel]:
        """Returns the cost models of the tasks."""
        return {"map": self._map, "merge": self._moved, "reduce": self._reduce, "fold": self._moved}

    def _seconds(self, name: str, num_bytes: int) -> float:
        return self.cpu[name] * num_bytes / _GIGABYTE

    def _map(self, call: Call) -> Cost:
        size = self.split_bytes
        read = self._read(size)
        compute = Step(cpu_seconds=self._seconds(call.name, size))
        return Cost((read, compute), size)

    def _moved(self, call: Call) -> Cost:
        return Cost(
            (Step(cpu_seconds=self._seconds(call.name, call.input_bytes)),), call.input_bytes
        )

    def _reduce(self, call: Call) -> Cost:
        # Rows are written as they are merged.
        size = call.input_bytes
        return Cost((replace(self._written(size), cpu_seconds=self._seconds(call.name, size)),))

    def _read(self, size: int) -> Step:
        if self.reads == "storage":
            return Step(read_bytes=size, read_requests=ceil_div(size, self.read_request_bytes))
        if self.reads == "disk":
            return Step(disk_read_bytes=size, disk_requests=ceil_div(size, FILE_PIECE_BYTES))
        return Step()

    def _written(self, size: int) -> Step:
        if self.writes == "storage":
            return Step(write_bytes=size, write_requests=ceil_div(size, self.write_request_bytes))
        if self.writes == "disk":
            return Step(disk_write_bytes=size, disk_requests=ceil_div(size, FILE_PIECE_BYTES))
        return Step()


def _check_count(name: str, value: object) -> None:
    if not (is_whole(value) and int(value) >= 1):
        raise OptionsError(f"{name} is {shown(value)}; it must be a whole number from 1 on")
