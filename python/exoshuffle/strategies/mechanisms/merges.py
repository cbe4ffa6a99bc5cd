"""Groups map outputs and merges them: admitted by memory, with best effort, replaced by their inputs.

Source: Riffle §4.1 to §4.3 ("Riffle: Optimized Shuffle Service for Large-Scale Data Analytics").

Guarantee: ``Merges.sources`` names every map output once, either itself or within one merge, in the order of the maps.
That holds even if merges fail or come late. The reason is the structure, not bookkeeping: groups divide the maps, and a
group is read as its merge or as its inputs. That is decided once, for all reduces.

Only *adjacent* maps are merged, so that rows of equal key come out in the order of the maps. Slices reach a reduce in
that order, and a merge puts rows together for good. Any group of neighbours keeps that order; another group would
need the bounds of its inputs within each merged slice. So adjacent maps are placed on the same node, in *stripes*, and
the outputs of a stripe are grouped in order. Placement is soft: the program asks where outputs have come to lie, and a
group ends where the node changes. The price: a late map holds up the merges behind it, up to the end of its stripe.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from exoshuffle.errors import TaskError
from exoshuffle.futures import Ref, RemoteFunction, cancel, locate, wait
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.mechanisms.best_effort import BestEffort
from exoshuffle.strategies.mechanisms.merge_policy import MergePolicy
from exoshuffle.strategies.mechanisms.speculation import failure, has_failed

_logger = logging.getLogger("exoshuffle")


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
    """Adjacent outputs, which are merged together.

    Attributes:
        outputs: The outputs in the order of the maps; none if only the merge was kept.
        merged: Their merge, once it was submitted.
        first: The partition of the merge's first slice.
        num_maps: How many outputs there are, or were.
    """

    outputs: list[Output]
    merged: Ref | None = None
    first: int = 0
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
        return merge_memory(output.num_bytes for output in self.outputs)

    def drop_inputs(self) -> None:
        """Keeps the merge alone: then nothing takes its place, and if it is lost the maps run again."""
        if self.merged is not None:
            self.outputs = []

    def sources(self) -> list[Source]:
        """Returns the merge, if that is there now; else its inputs: the merge failed, was cancelled, late or lost."""
        if self.merged is not None and (not self.outputs or _is_there(self.merged)):
            return [Source(self.merged, self.num_maps, self.first)]
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


class Merges:
    """The merges of a shuffle.

    Args:
        run_merge: The remote function.
        memory_bytes: Memory for the merges that run at once on a node; other merges wait for it.
    """

    def __init__(self, run_merge: RemoteFunction, memory_bytes: int) -> None:
        self._run_merge = run_merge
        self._memory_bytes = memory_bytes
        self._groups: list[Group] = []
        self._queued: list[Group] = []
        self._running: list[Group] = []
        self._used_bytes: collections.Counter[str] = collections.Counter()
        self._num_merges = 0

    def add(self, group: Group) -> None:
        """Merges a group, now or when there is memory; a group of a single output is left as it is."""
        self._groups.append(group)
        if len(group.outputs) > 1:
            self._num_merges += 1
            self._queued.append(group)
            self._admit()

    def poll(self) -> list[Ref]:
        """Notes the merges that have ended, which makes room for others; does not wait.

        Returns:
            The merges that run now.
        """
        ended = {id(ref) for ref in wait(self._refs(), num_ready=0, timeout=0)[0]}
        for group in [group for group in self._running if id(group.merged) in ended]:
            self._running.remove(group)
            self._used_bytes[group.node] -= group.memory_bytes
        self._admit()
        return self._refs()

    def finish(self, effort: BestEffort, clock: Callable[[], float]) -> None:
        """Waits until as many merges have ended as ``effort`` asks for, and cancels the rest; some may not run yet."""
        timeout = effort.timeout_seconds
        deadline = None if timeout is None else clock() + timeout
        enough = effort.enough(self._num_merges)
        running = self.poll()
        while self._num_merges - len(running) - len(self._queued) < enough:
            left = None if deadline is None else deadline - clock()
            if left is not None and left <= 0:
                break
            wait(running, num_ready=1, timeout=left)
            running = self.poll()
        for ref in running:
            cancel(ref)

    def sources(self) -> list[Source]:
        """Returns the blocks that the reduces read, in the order of the maps.

        Warns, once, of merges that have failed: nobody misses their results, so nothing else would tell.
        """
        in_order = sorted(self._groups, key=lambda group: group.outputs[0].index)
        self._warn([group.merged for group in in_order if group.merged is not None])
        return [source for group in in_order for source in group.sources()]

    def _warn(self, merged: Iterable[Ref]) -> None:
        # Merges that were cancelled have no TaskError.
        errors = [error for error in map(failure, merged) if isinstance(error, TaskError)]
        if errors:
            _logger.warning(
                "%d of %d merges failed, and their inputs are read instead, in more requests; the first: %s",
                len(errors),
                self._num_merges,
                errors[0],
                exc_info=errors[0],
            )

    def _refs(self) -> list[Ref]:
        return [group.merged for group in self._running if group.merged is not None]

    def _admit(self) -> None:
        waiting = []
        for group in self._queued:
            if self._used_bytes[group.node] + group.memory_bytes > self._memory_bytes:
                waiting.append(group)
                continue
            self._used_bytes[group.node] += group.memory_bytes
            blocks = [output.block for output in group.outputs]
            group.merged = self._run_merge.options(node=group.node).remote(*blocks)
            self._running.append(group)
        self._queued = waiting
