"""Groups map outputs that are to be merged together.

Source: Riffle §4.1 ("Riffle: Optimized Shuffle Service for Large-Scale Data Analytics").

Only *adjacent* maps are merged, so that rows of equal key come out in the order of the maps. Slices reach a reduce in
that order, and a merge puts rows together for good. Any group of neighbours keeps that order; another group would
need the bounds of its inputs within each merged slice. So adjacent maps are placed on the same node, in *stripes*, and
the outputs of a stripe are grouped in order. Placement is soft: the program asks where outputs have come to lie, and a
group ends where the node changes. The price: a late map holds up the merges behind it, up to the end of its stripe.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from exoshuffle.futures import Ref, SliceRef, locate
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.mechanisms.merge_policy import MergePolicy
from exoshuffle.strategies.mechanisms.races import has_failed


@dataclass(frozen=True)
class Output:
    """The output of a map.

    Attributes:
        index: The index of the map.
        block: The block that the map made.
        node: The node where the block lies, if anybody has asked.
        num_bytes: The size of the block, known or estimated, if anybody has asked.
    """

    index: int
    block: Ref
    node: str = ""
    num_bytes: int = 0


@dataclass(frozen=True)
class Source:
    """A block that reduces read, the number of its maps, and the partition of its first slice."""

    block: Ref
    num_maps: int
    first: int = 0


@dataclass
class Group:
    """Adjacent outputs, which are merged together; or a piece of them (``pieces``).

    Attributes:
        outputs: The outputs in the order of the maps; none if only the merge was kept.
        partitions: The slices that are merged; default: all.
        merged: Their merge, once it was submitted.
        num_bytes: The bytes of these slices, if they are not all.
        num_maps: How many outputs there are, or were.
    """

    outputs: list[Output]
    partitions: range | None = None
    merged: Ref | None = None
    num_bytes: int | None = None
    num_maps: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_maps = len(self.outputs)

    @property
    def node(self) -> str:
        """The node where all outputs lie."""
        return self.outputs[0].node

    @property
    def memory_bytes(self) -> int:
        """The memory that merging the group takes."""
        if self.num_bytes is not None:
            return merge_memory([self.num_bytes])
        return merge_memory(output.num_bytes for output in self.outputs)

    @property
    def inputs(self) -> list[Ref | SliceRef]:
        """The arguments of the merge."""
        blocks = [output.block for output in self.outputs]
        mine = self.partitions
        return [*blocks] if mine is None else [each[mine.start : mine.stop] for each in blocks]

    def drop_inputs(self) -> None:
        """Keeps the merge alone: then nothing takes its place, and if it is lost the maps run again."""
        if self.merged is not None:
            self.outputs = []

    def sources(self) -> list[Source]:
        """Returns the merge, if that is there now; else its inputs: the merge failed, was cancelled, late or lost."""
        if self.merged is not None and (not self.outputs or _is_there(self.merged)):
            first = 0 if self.partitions is None else self.partitions.start
            return [Source(self.merged, self.num_maps, first)]
        return [Source(output.block, 1) for output in self.outputs]


def _is_there(merged: Ref) -> bool:
    return not has_failed(merged) and bool(locate(merged))


def merge_memory(sizes: Iterable[int]) -> int:
    """Returns the bytes that merging blocks of these sizes takes: the blocks, and one as large as all of them."""
    return 2 * sum(sizes)


class Groups:
    """Forms groups of the outputs of a stripe, in order.

    Args:
        maps: Indices of the maps of the stripe.
        policy: Says when a group is full.
        plan: The plan of the shuffle.
        memory_bytes: The memory that merging a group may take.
    """

    def __init__(
        self, maps: range, policy: MergePolicy, plan: ShufflePlan, memory_bytes: int
    ) -> None:
        self._stop = maps.stop
        self._next = maps.start
        self._policy = policy
        self._plan = plan
        self._memory_bytes = memory_bytes
        self._early: dict[int, Output] = {}
        self._open: list[Output] = []

    def add(self, output: Output) -> list[Group]:
        """Adds an output, and returns the groups that are complete with it."""
        self._early[output.index] = output
        complete: list[Group] = []
        while self._next in self._early:
            following = self._early.pop(self._next)
            self._next += 1
            if self._open and not self._may_join(following):
                complete.append(self._close())
            self._open.append(following)
            if self._next == self._stop or self._policy.is_full(self._open_sizes(), self._plan):
                complete.append(self._close())
        return complete

    def _may_join(self, output: Output) -> bool:
        return (
            output.node == self._open[0].node
            and not self._policy.is_large(output.num_bytes, self._plan)
            and merge_memory([*self._open_sizes(), output.num_bytes]) <= self._memory_bytes
        )

    def _open_sizes(self) -> list[int]:
        return [output.num_bytes for output in self._open]

    def _close(self) -> Group:
        group, self._open = Group(self._open), []
        return group
