"""Ways to divide a partition that is larger than planned, as data: a task set chooses one, ``reduces`` carries it out.

Source: Wang's dissertation, §3.3.2.5 (dynamic repartitioning) and §4.1.5.3 (reduces that stream their input).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from exoshuffle.futures import Refs, SliceRef, Value
from exoshuffle.futures.options import Executor
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.plan.grouping import neighbours
from exoshuffle.plan.plan import ShufflePlan

#: A partition that this many shuffles in a row left nearly whole is not shuffled again: it holds one key, or one row.
STUCK_LEVELS = 2
#: A part with more than this share of the bytes is nearly the whole partition.
STUCK_PERCENT = 75
#: No partition is shuffled more often than this; each shuffle makes at least 8 parts of it.
MAX_LEVEL = 8


@dataclass(frozen=True)
class Large:
    """A partition that is larger than ``plan.max_partition_bytes``.

    Attributes:
        partition: The number of the partition.
        blocks: The blocks whose slices with that number make up the partition.
        sizes: Bytes of each of these slices.
        plan: The plan of the shuffle that made it.
        level: How often its rows have been divided before.
        stuck: How many divisions in a row left it nearly whole.
        maps: The maps that each block comes from, in order; empty if the strategy does not say.
    """

    partition: int
    blocks: Refs
    sizes: tuple[int, ...]
    plan: ShufflePlan
    level: int = 0
    stuck: int = 0
    maps: tuple[range, ...] = ()

    @property
    def num_bytes(self) -> int:
        """The size of the partition."""
        return sum(self.sizes)

    @property
    def is_indivisible(self) -> bool:
        """Whether shuffling it again would be in vain."""
        return self.stuck >= STUCK_LEVELS or self.level >= MAX_LEVEL

    def runs(self, limit: int, start: int = 0, stop: int | None = None) -> list[range]:
        """Divides its slices, in order, into runs of at most so many bytes, or of one slice."""
        runs = neighbours(self.sizes[start:stop], limit)
        return [range(start + run.start, start + run.stop) for run in runs]

    def slices(self, indices: Sequence[int]) -> list[SliceRef]:
        """Returns some of its slices, as references."""
        return [self.blocks.slice(index, self.partition) for index in indices]


class Functions(Protocol):
    """Functions to make tasks of, which are found by name."""

    @property
    def executor(self) -> Executor:
        """As in ``TaskOptions``: ``"thread"`` for native code, ``"process"`` for Python code."""
        ...


class Reduces(Functions, Protocol):
    """Functions that finish a partition."""

    def reduce(self, partition: int, slices: list[Value]) -> object:
        """Turns the slices of one partition, in order, into its result."""


class AssignedTaskSet(Reduces, Protocol):
    """Functions that bring rows to partitions and finish these."""

    def map(self, index: int, split: Value) -> object:
        """Reads input ``index`` and returns a block of R slices."""


class Rejoins(Functions, Protocol):
    """Functions that put the results of a divided partition together."""

    def rejoin(self, partition: int, results: list[Value]) -> object:
        """Makes the result of a partition of the small results of its parts."""


class Streams(Functions, Protocol):
    """Functions that finish a partition of which they get a few slices at a time."""

    def stream(self, partition: int, runs: list[list[SliceRef]]) -> object:
        """Turns the slices of one partition, run by run, into its result."""


class ReshuffleTaskSet(Functions, Protocol):
    """Shuffles the rows of one partition; its maps take slices."""

    def sample(self, index: int, slices: list[Value], num_rows: int) -> bytes:
        """Returns keys of about ``num_rows`` rows of the slices that map ``index`` will get."""

    def assigned(self, samples: Sequence[bytes], num_partitions: int) -> AssignedTaskSet:
        """Returns the task set that brings rows to so many partitions.

        Its maps return one more slice behind the slices for these, which tells ``check`` what they read.
        """

    def check(self, read: list[Value]) -> None:
        """Raises unless the maps have read the whole partition.

        Args:
            read: The last slice of each map, in their order.
        """


@dataclass(frozen=True)
class Reshuffle:
    """Shuffle the partition on its own, with a finer assignment; the results take its place, in order.

    Attributes:
        tasks: The task set that does so.
        is_sampled: Whether the assignment needs samples of keys.
        num_sides: How often the slices are read, each time for another input of the shuffle (a join has two).
        num_partitions: How many parts to make; default: as many as its size asks for.
    """

    tasks: ReshuffleTaskSet
    is_sampled: bool = False
    num_sides: int = 1
    num_partitions: int | None = None


@dataclass(frozen=True)
class Rejoined:
    """Shuffle the partition on its own, and make one result of the small results of all parts.

    Attributes:
        again: How to shuffle the partition.
        tasks: Makes the one result.
    """

    again: Reshuffle
    tasks: Rejoins


@dataclass(frozen=True)
class Pieces:
    """Reduce some of the slices at a time; the results take the partition's place, in order.

    Attributes:
        tasks: The task set that does so; its partitions are numbered as the pieces.
        pieces: The slices of each piece, in order.
    """

    tasks: Reduces
    pieces: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Streamed:
    """Reduce the partition as one, in a task that gets few of its slices at a time.

    Attributes:
        tasks: Takes references to slices, run by run.
        runs: The slices of each run, in order.
        memory_bytes: Working memory of the task, beside a run; default: as planned for a reduce.
    """

    tasks: Streams
    runs: Sequence[Sequence[int]]
    memory_bytes: int = 0


@dataclass(frozen=True)
class Whole:
    """Reduce the partition as it is, while fewer other tasks run: it fits into memory by itself."""


Division = Reshuffle | Rejoined | Pieces | Streamed | Whole


@runtime_checkable
class DividingTaskSet(Protocol):
    """A task set that can divide partitions that are larger than planned."""

    def divide(self, large: Large) -> Division:
        """Returns the way to divide a large partition.

        Raises:
            LargeGroupError: Nothing can be done within the memory limit.
        """
