"""Rules for the size of groups of a pre-shuffle merge. Source: Riffle §4.1.1; also Exoshuffle §3.2.2.

A larger group makes fewer and larger reads for the reduces, up to the size that the disk reads at its full rate. It
also makes a longer merge, of which more is left to do when the last map ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from exoshuffle.arguments import is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures import Ref, slice_bytes
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.units import option_bytes


@runtime_checkable
class MergePolicy(Protocol):
    """When a group of adjacent map outputs is merged."""

    def size(self, block: Ref, plan: ShufflePlan) -> int:
        """Returns the bytes of a map output that is done."""

    def is_large(self, num_bytes: int, plan: ShufflePlan) -> bool:
        """Whether an output of that size is left alone."""

    def is_full(self, sizes: Sequence[int], plan: ShufflePlan) -> bool:
        """Whether a group of outputs of these sizes takes no more; a large output alone must be full."""

    def group_bytes(self, plan: ShufflePlan) -> int:
        """Returns the bytes that a full group will have."""

    def stripe_length(self, num_maps: int, num_nodes: int) -> int:
        """Returns how many adjacent maps run on one node; groups do not reach over the end of a stripe."""


@dataclass(frozen=True)
class FixedFiles:
    """Merges every ``num_files`` adjacent outputs, so that a reduce reads M / ``num_files`` slices.

    It takes sizes from the plan. Groups do not depend on each other: a late map holds up its own merge alone.

    Attributes:
        num_files: At least 2; Riffle measured 5 to 40.

    Raises:
        OptionsError: It is less than 2, or no whole number.
    """

    num_files: int = 20

    def __post_init__(self) -> None:
        if not is_whole(self.num_files) or self.num_files < 2:
            raise OptionsError(
                f"num_files is {shown(self.num_files)}; a merge takes a whole number of them, at least 2"
            )

    def size(self, block: Ref, plan: ShufflePlan) -> int:
        """See ``MergePolicy``."""
        del block
        return plan.split_bytes

    def is_large(self, num_bytes: int, plan: ShufflePlan) -> bool:
        """See ``MergePolicy``; no output is."""
        del num_bytes, plan
        return False

    def is_full(self, sizes: Sequence[int], plan: ShufflePlan) -> bool:
        """See ``MergePolicy``."""
        del plan
        return len(sizes) >= self.num_files

    def group_bytes(self, plan: ShufflePlan) -> int:
        """See ``MergePolicy``."""
        return self.num_files * plan.split_bytes

    def stripe_length(self, num_maps: int, num_nodes: int) -> int:
        """See ``MergePolicy``; a stripe is a group."""
        del num_maps, num_nodes
        return self.num_files


@dataclass(frozen=True)
class FixedBlockSize:
    """Merges adjacent outputs once their mean slices together exceed ``slice_bytes``: few large or many small outputs.

    An output whose own mean slice exceeds ``slice_bytes`` is left alone. The engine tells the sizes. A late map holds
    up all merges behind it on its node.

    Attributes:
        slice_bytes: The least mean size of the slices of a merged block: a number, or a size as text. Riffle measured
            512 KB to 4 MB.

    Raises:
        OptionsError: It is no size, or less than a byte.
    """

    slice_bytes: int | str = 1_000_000

    def __post_init__(self) -> None:
        self._block_bytes(1)  # this checks

    def size(self, block: Ref, plan: ShufflePlan) -> int:
        """See ``MergePolicy``."""
        del plan
        return sum(slice_bytes([block])[0])

    def is_large(self, num_bytes: int, plan: ShufflePlan) -> bool:
        """See ``MergePolicy``."""
        return num_bytes > self._block_bytes(plan.num_partitions)

    def is_full(self, sizes: Sequence[int], plan: ShufflePlan) -> bool:
        """See ``MergePolicy``."""
        return sum(sizes) > self._block_bytes(plan.num_partitions)

    def group_bytes(self, plan: ShufflePlan) -> int:
        """See ``MergePolicy``; the last output of a group may exceed its share."""
        return self._block_bytes(plan.num_partitions) + plan.split_bytes

    def stripe_length(self, num_maps: int, num_nodes: int) -> int:
        """See ``MergePolicy``; there is one stripe for each node."""
        return max(1, -(-num_maps // num_nodes))

    def _block_bytes(self, num_slices: int) -> int:
        return option_bytes("slice_bytes", self.slice_bytes) * num_slices
