"""The progress of a running pipeline: the parts and tasks of its stages, their order, and what waits between them."""

from __future__ import annotations

import bisect
import heapq
import itertools
import time
from collections.abc import Iterator
from operator import attrgetter

from exoshuffle.dataset.jobs.stages.estimating import UNKNOWN_TASKS, Room
from exoshuffle.dataset.jobs.stages.parts import Key, Lane, Part, Work
from exoshuffle.futures import RefStream


class Progress:
    """The parts and tasks of a running pipeline.

    Args:
        num_stages: The stages behind the source.
        num_source_tasks: How many tasks the source will have; None if nobody knows.
        is_ordered: Whether parts of the last stage go out in order.
        room: How much may wait between stages.
    """

    def __init__(
        self, num_stages: int, num_source_tasks: int | None, room: Room, *, is_ordered: bool
    ) -> None:
        #: The source, and the stages behind it.
        self.lanes = [Lane() for _ in range(num_stages + 1)]
        self._num_source_tasks, self._is_ordered, self._room = num_source_tasks, is_ordered, room
        self._num_begun = 0
        self._source_is_over = False
        self._made: list[tuple[Key, Part]] = []
        self._made_bytes = 0
        self._begun_at = time.monotonic()

    def now(self) -> float:
        """Returns the seconds since the pipeline began."""
        return time.monotonic() - self._begun_at

    # --- tasks and parts ---------------------------------------------------------------------------------------

    def left(self) -> int:
        """Returns how many tasks of the source have not begun, or a guess above 0 if nobody knows."""
        if self._source_is_over:
            return 0
        if self._num_source_tasks is None:
            return UNKNOWN_TASKS
        return self._num_source_tasks - self._num_begun

    def begin_source(self, stream: RefStream) -> None:
        """Adds a task of the source."""
        self.lanes[0].running.append(Work((self._num_begun,), self.now(), stream))
        self._num_begun += 1

    def end_source(self) -> None:
        """Notes that the source has no further task."""
        self._source_is_over = True

    def put(self, stage: int, part: Part) -> None:
        """Adds a part that a stage has made."""
        if stage < len(self.lanes) - 1:
            bisect.insort(self.lanes[stage + 1].waiting, part, key=attrgetter("key"))
        else:
            heapq.heappush(self._made, (part.key, part))
            self._made_bytes += part.num_bytes

    def next_part(self) -> Part | None:
        """Takes the next part of the last stage; returns None if it is not made yet."""
        if not self._made or not self._may_go(self._made[0][0]):
            return None
        _, part = heapq.heappop(self._made)
        self._made_bytes -= part.num_bytes
        return part

    def any_runs(self) -> bool:
        """Whether any task runs."""
        return any(lane.running for lane in self.lanes)

    def works(self) -> list[tuple[int, Work]]:
        """Returns the tasks that run, each with its stage, and the one that makes the oldest part first."""
        works = [(stage, work) for stage, lane in enumerate(self.lanes) for work in lane.running]
        return sorted(works, key=lambda one: one[1].position)

    def is_done(self) -> bool:
        """Whether all parts have been taken, and none will be made."""
        return not self.left() and not self._made and not any(True for _ in self._places())

    def clear(self) -> None:
        """Forgets all tasks and parts."""
        for lane in self.lanes:
            lane.running.clear()
            lane.waiting.clear()
        self._made.clear()

    # --- order and memory --------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether more may wait between stages."""
        waiting = sum(lane.waiting_bytes for lane in self.lanes)
        return waiting + self._made_bytes < self._room.memory_bytes

    def is_oldest(self, place: Key) -> bool:
        """Whether nothing is before a place."""
        return all(place <= other for other in self._places())

    def oldest_waits(self) -> bool:
        """Whether the oldest part waits for a task: those that wait for room may have the memory that it needs."""
        running = [work.position for lane in self.lanes for work in lane.running]
        waiting = [lane.waiting[0].key for lane in self.lanes if lane.waiting]
        return bool(running and waiting) and min(waiting) < min(running)

    def are_neighbours(self, first: Key, second: Key) -> bool:
        """Whether nothing is between two places."""
        made = (key for key, _ in self._made)
        return not any(first < place < second for place in itertools.chain(self._places(), made))

    def _may_go(self, key: Key) -> bool:
        """Whether a part of the last stage is the next one."""
        if not self._is_ordered:
            return True
        return all(key <= place for place in self._places())

    def _places(self) -> Iterator[Key]:
        """Yields the places of all that is not behind the last stage yet."""
        if self.left():
            yield (self._num_begun,)
        for lane in self.lanes:
            yield from lane.places()
