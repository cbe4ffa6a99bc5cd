"""The plan of a shuffle: all of its numbers, decided before it starts. ``planner`` finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.arguments import is_whole
from exoshuffle.errors import OptionsError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.plan.memory import TASK_BYTES, USABLE_PERCENT, map_scratch_bytes
from exoshuffle.plan.workload import ceil_div

if TYPE_CHECKING:
    from exoshuffle.plan.cost import Cost


@dataclass(frozen=True)
class ShufflePlan:
    """The numbers of a shuffle, all of them decided before it starts.

    Attributes:
        strategy: The name of the strategy that runs it.
        why: One sentence that says why this strategy was chosen.
        num_splits: M, the number of map tasks, as planned (files and row groups may make it a little more).
        num_partitions: R, the number of reduce tasks and of slices per block.
        split_bytes: Size of a split.
        partition_bytes: Mean size of a partition.
        row_group_bytes: Rows that a writer collects before it writes them.
        round_size: Maps per round; all of them where there are no rounds.
        merge_factor: Blocks per merge, 1 if nothing is merged.
        map_memory_bytes: Working memory of a map.
        reduce_memory_bytes: Working memory of a reduce.
        peak_bytes: Projected peak of blocks and working memory.
        spilled_bytes: Bytes that will be written to spill files.
        num_merges: Merge tasks.
        num_folds: Fold tasks, each of which makes a state.
        num_slices: Slices that reduces read, M x R where nothing is merged; or that folds read, and all states.
        num_copies: How often the store has all rows at once: twice where merges or states are kept beside their inputs.
        merge_memory_bytes: Memory for merges that run at once on a node; 0 where the strategy needs no such number.
        costs: The predicted costs of the strategies that were compared, this one first.
        max_partition_bytes: Largest partition whose reduces can run at once; one that turns out larger is divided, if
            the task set can (``strategies.mechanisms.reduces``).
        max_whole_bytes: Largest partition whose reduce can run while little else does.
        reduce_percent: Working memory of a reduce as a share of its partition, beside buffers.
        large_partition_bytes: Size that ``reduce_memory_bytes`` is for; some partitions are larger than the mean.
        buffer_bytes: Memory of a reduce beside its partition, however small that is.
        alone_bytes: Memory, beside these buffers, of a reduce that reads slices a run at a time while little else runs.
        apart_bytes: Memory that a reduce with its slices sets apart at least, so that no more run than planned.
        idle_cpus: CPUs without a task, because memory has no room for one on each.
        limit_bytes: The memory limit that this was planned for.
        first_partition: The first partition that is made; those before it are left out. No planner sets it: a caller
            does that has their rows already.
    """

    strategy: str
    why: str
    num_splits: int
    num_partitions: int
    split_bytes: int
    partition_bytes: int
    row_group_bytes: int
    round_size: int
    merge_factor: int
    map_memory_bytes: int
    reduce_memory_bytes: int
    peak_bytes: int
    spilled_bytes: int
    num_merges: int = 0
    num_folds: int = 0
    num_slices: int = 0
    num_copies: int = 1
    merge_memory_bytes: int = 0
    costs: tuple[Cost, ...] = ()
    max_partition_bytes: int = 0
    max_whole_bytes: int = 0
    reduce_percent: int = 0
    large_partition_bytes: int = 0
    buffer_bytes: int = 0
    alone_bytes: int = 0
    apart_bytes: int = 0
    idle_cpus: int = 0
    limit_bytes: int = 0
    first_partition: int = 0

    def map_memory(self, split_bytes: int) -> int:
        """Returns the working memory of a map of a split of this size."""
        return max(self.map_memory_bytes, map_scratch_bytes(split_bytes))

    def reduce_memory(self, partition_bytes: int) -> int:
        """Returns the working memory of a reduce of a partition of this size."""
        more = max(0, partition_bytes - self.large_partition_bytes) * self.reduce_percent // 100
        # Where sizes are unknown, partitions are taken for as large as planned.
        apart = self.apart_bytes - max(partition_bytes, self.large_partition_bytes)
        return max(self.reduce_memory_bytes + more, apart)

    def limit_for(self, needed_bytes: int, room_bytes: int) -> int:
        """Returns a memory limit that would do, where a task needs more than the room that this limit leaves it."""
        more = (needed_bytes - room_bytes) * 100 // USABLE_PERCENT
        return enough_bytes(self.limit_bytes, more)

    @property
    def program_bytes(self) -> int:
        """The memory that the program takes for tasks and the references to their results."""
        kept = self.num_splits + self.num_merges + self.num_folds
        return kept * TASK_BYTES + self.num_partitions * TASK_BYTES // 10

    @property
    def num_rounds(self) -> int:
        """The number of rounds of maps."""
        return ceil_div(self.num_splits, self.round_size)


def enough_bytes(limit: int, more_bytes: int) -> int:
    """Returns a memory limit that leaves tasks so much more than ``limit``.

    The engine keeps a little more of a larger limit for itself; and the next run may take a little more.
    """
    return (limit * 100 + more_bytes * 103) * 102 // 10_000


def check_num_partitions(number: object) -> None:
    """Raises ``OptionsError`` unless so many partitions can be asked for; how many fit, memory decides."""
    if not is_whole(number):
        raise OptionsError(f"num_partitions is {number!r}; it must be a whole number")
    if int(number) < 1:
        raise OptionsError(f"{number} partitions; choose 1 or more")
