"""The job of the first rows of a sort: maps send the first of their split only, and one reduce ends it.

Why beside ``ShuffleJob``: there what travels is measured from short stretches of the input; here it is known that a map
sends no more than so many rows, however large its split is.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property

from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.errors import MemoryLimitError
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Workload
from exoshuffle.strategies.library import plan_shuffle
from exoshuffle.strategies.simple import Simple


@dataclass
class TopJob(ShuffleJob):
    """A shuffle of which each map sends ``count`` rows at most.

    Attributes:
        count: So many.
    """

    count: int = field(kw_only=True)

    @property
    def fits(self) -> bool:
        """Whether what the maps send fits into the memory of one reduce."""
        try:
            return self.plan is not None
        except MemoryLimitError:
            return False

    @cached_property
    def workloads(self) -> list[Workload]:
        """Size of what the maps read, input by input."""
        return [source.measure(dataclasses.replace(side, steps=())) for source, side in self.inputs]

    @cached_property
    def workload(self) -> Workload:
        """Size of what they send."""
        read = self.total_workload()
        num_rows = min(read.num_rows, self.count * self._read_plan.num_splits)
        return dataclasses.replace(
            read,
            total_bytes=read.total_bytes * num_rows // max(read.num_rows, 1),
            num_rows=num_rows,
        )

    @cached_property
    def split_bytes(self) -> int:
        """Maps read as much as they would if they sent all of it."""
        return self._read_plan.split_bytes

    @cached_property
    def plan(self) -> ShufflePlan:
        """The plan of what they send, with maps as they would be if they sent all of it."""
        plan, read = super().plan, self._read_plan
        return dataclasses.replace(
            plan, split_bytes=read.split_bytes, map_memory_bytes=read.map_memory_bytes
        )

    @cached_property
    def _read_plan(self) -> ShufflePlan:
        return plan_shuffle(self.total_workload(), self.resources, Simple())
