"""The candidate that a strategy proposes to a plan: one way to run a shuffle, in numbers; and the basis of these.

A strategy says in how many tasks and rounds rows go, how much is held at once and how much is moved. ``planner`` and
``cost`` compute how much of that is spilled, and how long it takes, for all strategies alike: so they can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from exoshuffle.errors import OptionsError
from exoshuffle.plan.memory import SLICE_BYTES, Sizes
from exoshuffle.plan.workload import Resources, Workload

#: Riffle measured groups of 5 to 40 (§4.1).
MAX_MERGED = 40


@dataclass(frozen=True)
class Basis:
    """The sizes and resources that candidates are made from.

    Attributes:
        workload: The rows to shuffle, in numbers.
        resources: The memory, CPUs, nodes and disks to shuffle them with.
        sizes: The sizes of splits and partitions, which are the same for all strategies.
    """

    workload: Workload
    resources: Resources
    sizes: Sizes

    @property
    def total_bytes(self) -> int:
        """The size of all rows."""
        return max(self.workload.total_bytes, 1)

    @property
    def num_splits(self) -> int:
        """M, the number of map tasks."""
        items = self.workload.num_items
        return self.sizes.num_splits if items is None else max(1, items)

    @property
    def num_partitions(self) -> int:
        """R, the number of reduce tasks and of slices per block."""
        return self.sizes.num_partitions

    @property
    def block_bytes(self) -> int:
        """The size of all map outputs: rows and headers of slices."""
        return self.total_bytes + SLICE_BYTES * self.num_splits * self.num_partitions


@dataclass(frozen=True)
class Candidate:
    """One way to run a shuffle. The defaults are for maps and reduces with nothing between them.

    Attributes:
        num_slices: Slices, or ranges of slices, that are read, at least one: M x R where nothing is merged.
        round_size: Maps per round; default: all.
        merge_factor: Blocks per merge; 1 if nothing is merged.
        num_merges: Merge tasks.
        num_folds: Fold tasks, each of which makes a state.
        blocks_at_once: Blocks of a split that tasks hold while maps run; at least one per CPU is counted.
        num_copies: How often the store has all rows at once: twice where merges or states are kept beside their inputs.
        state_bytes: Size of all states after each round, where a state takes the place of the one before.
        merged_bytes: Bytes through merges and folds.
        tail_bytes: Bytes that are merged or folded after the last map has ended, when nothing else is left to do.
        moved_again_bytes: Bytes that change the task that holds them, beside the bytes that reduces take.
        local_bytes: Bytes that reduces take on the node where these lie already.
        reread_bytes: Bytes of finished blocks, any of which may be spilled, that merges read whole.
        merge_reads: Requests of merges for ranges of these, if they do not read blocks whole.
        merge_memory_bytes: Memory for merges that run at once on a node, if the plan is to name it.

    Raises:
        OptionsError: The candidate reads nothing, or has rounds without maps.
    """

    num_slices: int
    round_size: int | None = None
    merge_factor: int = 1
    num_merges: int = 0
    num_folds: int = 0
    blocks_at_once: int = 0
    num_copies: int = 1
    state_bytes: tuple[int, ...] = ()
    merged_bytes: int = 0
    tail_bytes: int = 0
    moved_again_bytes: int = 0
    local_bytes: int = 0
    reread_bytes: int = 0
    merge_reads: int = 0
    merge_memory_bytes: int = 0

    def __post_init__(self) -> None:
        for name, number in (("num_slices", self.num_slices), ("round_size", self.round_size)):
            if number is not None and number < 1:
                raise OptionsError(f"{name} of a candidate is {number}; it must be at least 1")


class Proposer(Protocol):
    """Proposes candidates: the part of a strategy that a plan knows."""

    @property
    def name(self) -> str:
        """The name in plans and bills; no two proposers that are compared have the same."""
        ...

    def adapted(self, workload: Workload) -> Workload:
        """Returns the workload to choose sizes for; it differs if tasks of this strategy take more than others'."""

    def candidates(self, basis: Basis) -> Sequence[Candidate]:
        """Returns the ways to run the shuffle within these sizes; none if memory is too small for it."""


def merge_factors(most: int, num_splits: int, num_pieces: int = 1, at_once: int = 1) -> list[int]:
    """Returns how many blocks could be merged at once: powers of two, and the most.

    Args:
        most: The blocks that memory has room for.
        num_splits: All blocks.
        num_pieces: Pieces of a block, each of which goes to another merge. So a merge may take as many more blocks as
            Riffle merged. With 40 of them, 1 PB on 400 nodes would take 13 million merges.
        at_once: Merges of as many blocks that should have room at once, if they take more than Riffle's.
    """
    most = min(most, max(MAX_MERGED, min(MAX_MERGED * num_pieces, most // at_once)))
    if most < 2:
        return []
    most = min(most, max(2, num_splits))
    return sorted({*(2**power for power in range(1, most.bit_length())), most})
