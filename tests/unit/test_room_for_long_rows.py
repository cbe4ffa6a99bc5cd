"""Plans count the copies of a long row: of a group that a function gets whole, and of rows that an as-of join pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from exoshuffle.dataset.jobs.merge_joins import MergeJoinJob, SortedSide
from exoshuffle.errors import MemoryLimitError
from exoshuffle.operators.gather.finish import Alone
from exoshuffle.plan.workload import Workload

ROW = 100_000_000


def test_copies_of_a_row_count_where_it_is_large() -> None:
    alone = Alone(percent=100, row_bytes=0, row_copies=2)
    assert alone.memory(ROW, 1) == 4 * ROW
    assert alone.memory(ROW, 1_000_000) == 2 * ROW + 200
    # One of many rows may have most of the bytes, but no more than there are.
    assert alone.memory(ROW, 1_000_000, ROW // 2) == 3 * ROW
    assert alone.memory(ROW, 1_000_000, 5 * ROW) == 4 * ROW


@dataclass
class Room:
    """The facts about an engine that a plan of a merge join asks for."""

    budget_bytes: int
    num_cpus: int = 2

    @property
    def memory_limit(self) -> int:
        return self.budget_bytes + 100_000_000


@dataclass
class Paired:
    """The facts about a merge join that its plan asks for."""

    name: str = "join_asof"
    row_bytes: int = 16


def job(budget_bytes: int) -> MergeJoinJob:
    side = SortedSide(Workload(3 * ROW, 3, ROW), None, cast("Any", None))
    return MergeJoinJob(cast("Any", Paired()), (side, side), cast("Any", Room(budget_bytes)))


def test_a_join_has_room_for_a_batch_that_the_program_keeps() -> None:
    """A task takes a row of each side and four copies, while the program keeps a batch with a row of each side."""
    needed = 8 * ROW + 32_000_000
    job(needed).check_fits()
    with pytest.raises(MemoryLimitError, match="rows of 100 MB have no room in a join_asof"):
        job(needed - 1).check_fits()
