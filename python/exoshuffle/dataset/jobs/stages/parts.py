"""The parts of a running pipeline, and their order.

A key tells the place of a part among all. It has the number of its source task, and then the number of the block at
each stage that it passed. Keys compare as the rows of the result are ordered, however the tasks were timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from exoshuffle.futures import Ref, RefStream
from exoshuffle.futures.actors import ActorHandle
from exoshuffle.late_dataclasses import dataclass

Key = tuple[int, ...]
#: How much larger blocks of the same rows may be: those of another number of rows have other headers.
HEADERS_SHARE = 0.01


@dataclass(frozen=True)
class Part:
    """A block between stages, or behind the last.

    Attributes:
        key: Its place.
        ref: The block.
        num_bytes: Its size.
    """

    key: Key
    ref: Ref
    num_bytes: int


@dataclass(eq=False)
class Work:
    """A task that runs.

    Attributes:
        key: The place of its first input; what it makes comes behind it.
        begun: When it was submitted, by the clock of the loop.
        stream: The blocks that it makes.
        inputs: The blocks that it takes; kept so that the call can be made again.
        worker: The object of the user's class that it is a call of, if it is one.
        num_made: Blocks that were taken from its stream.
        made_bytes: Their size.
        skipped: Blocks that an attempt before it made, and that are not taken again.
        attempt: Number of the attempt, from 1.
        held: The block that its stream gave last, if that may be its notes; see ``tasks``.
    """

    key: Key
    begun: float
    stream: RefStream
    inputs: tuple[Part, ...] = ()
    worker: ActorHandle | None = None
    num_made: int = 0
    made_bytes: int = 0
    skipped: int = 0
    attempt: int = 1
    held: Ref | None = None

    @property
    def position(self) -> Key:
        """The place of the block that it makes next."""
        return (*self.key, self.num_made)

    def made(self, ref: Ref, num_bytes: int) -> Part:
        """Returns the next block that it has made, as a part, and counts it."""
        part = Part(self.position, ref, num_bytes)
        self.num_made += 1
        self.made_bytes += num_bytes
        return part


@dataclass
class Lane:
    """A stage as it runs.

    Attributes:
        waiting: The blocks that it is to take, in order.
        running: Its tasks.
        num_ended: Tasks that have ended.
        seconds: How long they took together.
        num_blocks: Blocks that they made.
        num_bytes: Their size.
        taken_bytes: Size of what its tasks took that have ended.
    """

    waiting: list[Part] = field(default_factory=list)
    running: list[Work] = field(default_factory=list)
    num_ended: int = 0
    seconds: float = 0.0
    num_blocks: int = 0
    num_bytes: int = 0
    taken_bytes: int = 0

    @property
    def waiting_bytes(self) -> int:
        """Size of what it is to take."""
        return sum(part.num_bytes for part in self.waiting)

    @property
    def makes_no_more(self) -> bool:
        """Whether its tasks are known to make no more than they take, but for the headers of blocks."""
        return self.num_ended > 0 and self.num_bytes <= self.taken_bytes * (1 + HEADERS_SHARE)

    def end(self, work: Work, now: float) -> None:
        """Counts a task that has ended."""
        self.running.remove(work)
        self.num_ended += 1
        self.seconds += now - work.begun
        self.num_blocks += work.num_made
        self.num_bytes += work.made_bytes
        self.taken_bytes += sum(part.num_bytes for part in work.inputs)

    def places(self) -> Iterator[Key]:
        """Yields the places of what it has to do and does."""
        for part in self.waiting:
            yield part.key
        for work in self.running:
            yield work.position
