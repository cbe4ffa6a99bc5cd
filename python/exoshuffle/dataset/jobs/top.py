"""The job of the first rows of a sort: each map sends only the first rows of its split, to one reduce.

Why beside ``ShuffleJob``: that one measures the travelling rows from short stretches of the input. Here a map is known
to send at most ``count`` rows, however large its split is.
"""

from __future__ import annotations

import dataclasses
from dataclasses import field
from functools import cached_property

from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.errors import MemoryLimitError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Workload
from exoshuffle.strategies.library import plan_shuffle


@dataclass
class TopJob(ShuffleJob):
    """A shuffle in which each map sends ``count`` rows at most.

    Attributes:
        count: The most rows that a map sends.
    """

    count: int = field(kw_only=True)

    @property
    def fits(self) -> bool:
        """Whether the rows that the maps send fit into the memory of one reduce."""
        try:
            return self.plan is not None
        except MemoryLimitError:
            return False

    @cached_property
    def workloads(self) -> list[Workload]:
        """The size of the rows that the maps read, input by input."""
        return [source.measure(dataclasses.replace(side, steps=())) for source, side in self.inputs]

    @cached_property
    def workload(self) -> Workload:
        """The size of the rows that the maps send."""
        read = self.total_workload()
        num_rows = min(read.num_rows, self.count * self._read_plan.num_splits)
        return dataclasses.replace(
            read,
            total_bytes=read.total_bytes * num_rows // max(read.num_rows, 1),
            num_rows=num_rows,
        )

    @cached_property
    def split_bytes(self) -> int:
        """The size of a split, as if maps sent all their rows."""
        return self._read_plan.split_bytes

    @cached_property
    def plan(self) -> ShufflePlan:
        """The plan for the rows that are sent, with maps as if they sent all their rows."""
        plan, read = super().plan, self._read_plan
        return dataclasses.replace(
            plan, split_bytes=read.split_bytes, map_memory_bytes=read.map_memory_bytes
        )

    @cached_property
    def _read_plan(self) -> ShufflePlan:
        return plan_shuffle(self.total_workload(), self.resources, "simple")
