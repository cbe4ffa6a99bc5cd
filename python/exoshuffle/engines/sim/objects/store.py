"""The store of a node: blocks under a byte budget, spilled and restored as the embedded engine's store does it.

The rules are those of ``crates/store``: above 80 % of the budget, blocks that nobody has pinned are written to disk.
The oldest go first, in batches of 16 MiB, and the newest tenth is spared. Requests are served by priority and then in
order of arrival. Later ones pass an earlier one only where the store can make no room for it. A result that finds no
room for 0.2 s goes to the disk (``fallback``). One request of the disk takes 4 MiB.

Two things are simpler than there: a task has its own copy of what it brings from disk or another node, until it ends.
And a slice that lies in memory takes no further memory and does not keep its block from being spilled.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable

from exoshuffle.engines.sim.clock.events import Clock, Timer
from exoshuffle.engines.sim.objects.state import Copy, State

SPILL_PERCENT = 80
BATCH_BYTES = 16 << 20
PIECE_BYTES = 4 << 20
FALLBACK_SECONDS = 0.2

#: Takes bytes, the number of requests, and what happens when they are written.
Write = Callable[[int, int, Callable[[], None]], None]


class Priority(enum.IntEnum):
    """The order in which requests for memory are served."""

    OUTPUT = 0
    RESERVATION = 1
    ARGUMENT = 2


class Request:
    """Waits for memory; ``granted`` is told whether it is memory, or else a place on disk."""

    __slots__ = ("granted", "is_over", "num_bytes", "priority", "since")

    def __init__(
        self, num_bytes: int, priority: Priority, granted: Callable[[bool], None], since: float
    ) -> None:
        self.num_bytes = num_bytes
        self.priority = priority
        self.granted = granted
        self.since = since
        self.is_over = False


class Store:
    """The memory and the disks of one node.

    Args:
        node: The name of the node.
        budget_bytes: Bytes of blocks and reservations.
        disk: Writes bytes to the disks of the node; None if blocks cannot be spilled.
        clock: Virtual time.
    """

    def __init__(self, node: str, budget_bytes: int, clock: Clock, disk: Write | None) -> None:
        self.node = node
        self.budget_bytes = budget_bytes
        self.has_disk = disk is not None
        self._disk = disk
        self.used_bytes = self.peak_bytes = 0
        self.spilled_bytes = self.num_spills = self.fallback_bytes = 0
        self._clock = clock
        self._threshold_bytes = budget_bytes * SPILL_PERCENT // 100
        #: Copies in memory, oldest first; and all copies.
        self._in_memory: dict[Copy, None] = {}
        self._copies: dict[Copy, None] = {}
        self._waiting: dict[tuple[Priority, int], Request] = {}
        self._tickets = itertools.count()
        self._is_spilling = False
        self._is_due = False
        self._released = 0.0
        self._retry: Timer | None = None

    # --- memory ------------------------------------------------------------------------------------------------

    def request(
        self, num_bytes: int, priority: Priority, granted: Callable[[bool], None]
    ) -> Request:
        """Asks for memory, which comes now or later."""
        request = Request(num_bytes, priority, granted, self._clock.now)
        self._waiting[priority, next(self._tickets)] = request
        self._look()
        return request

    def take(self, num_bytes: int) -> None:
        """Takes memory that is in use already."""
        self.used_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)

    def give_up(self, request: Request) -> None:
        """Takes a request back that has not been served."""
        request.is_over = True
        self._look()

    def release(self, num_bytes: int) -> None:
        """Gives memory back."""
        if num_bytes:
            self.used_bytes -= num_bytes
            self._released = self._clock.now
            self._look()

    def waiting(self) -> list[Request]:
        """Returns the requests that have not been served."""
        return [request for request in self._waiting.values() if not request.is_over]

    # --- blocks ------------------------------------------------------------------------------------------------

    def keep(self, state: State, num_bytes: int, *, in_memory: bool) -> None:
        """Keeps the bytes of an object, for which memory was granted."""
        copy = Copy(state, self.node, num_bytes, in_memory=in_memory)
        state.copy = copy
        self._copies[copy] = None
        if in_memory:
            self._in_memory[copy] = None
        self._look()

    def pin(self, copy: Copy) -> None:
        """Keeps a block in memory while a task has it as an argument."""
        copy.num_pins += 1

    def unpin(self, copy: Copy) -> None:
        """Ends that."""
        copy.num_pins -= 1
        self._released = self._clock.now
        self._look()

    def drop(self, copy: Copy) -> None:
        """Frees the bytes of an object."""
        if copy not in self._copies:
            return
        del self._copies[copy]
        if copy.in_memory:
            del self._in_memory[copy]
            self.release(copy.num_bytes)

    def copies(self) -> list[Copy]:
        """Returns all that it has."""
        return list(self._copies)

    def clear(self) -> None:
        """Loses everything: the node has died."""
        self._copies.clear()
        self._in_memory.clear()
        self._waiting.clear()
        self.used_bytes = 0
        self._is_spilling = False

    # --- serving and spilling ----------------------------------------------------------------------------------

    def _look(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._clock.soon(self._serve)

    def _serve(self) -> None:
        self._is_due = False
        for ticket in sorted(self._waiting):
            request = self._waiting.get(ticket)
            if request is None or request.is_over:
                self._waiting.pop(ticket, None)
            elif self.used_bytes + request.num_bytes <= self.budget_bytes:
                del self._waiting[ticket]
                self._take(request)
            elif self._can_spill():
                break
            elif request.priority is Priority.OUTPUT and self.has_disk:
                self._fall_back(ticket, request)
        self._spill()

    def _take(self, request: Request) -> None:
        request.is_over = True
        self.take(request.num_bytes)
        self._clock.soon(lambda: request.granted(True))

    def _fall_back(self, ticket: tuple[Priority, int], request: Request) -> None:
        """Gives a result a place on disk, or looks again when it has waited long enough."""
        end = max(request.since, self._released) + FALLBACK_SECONDS
        if request.num_bytes > self.budget_bytes or self._clock.now >= end:
            del self._waiting[ticket]
            request.is_over = True
            self.fallback_bytes += request.num_bytes
            self._clock.soon(lambda: request.granted(False))
        elif self._retry is None or self._retry.action is None:
            self._retry = self._clock.at(end, self._look)

    def _can_spill(self) -> bool:
        return self._is_spilling or (self.has_disk and any(map(_is_victim, self._in_memory)))

    def _spill(self) -> None:
        if self._is_spilling or not self.has_disk:
            return
        missing = self._missing_bytes()
        excess = max(missing, self.used_bytes - self._threshold_bytes)
        if excess <= 0:
            return
        spared = 0 if missing else (self.budget_bytes - self._threshold_bytes) // 2
        victims = self._victims(excess, spared)
        if not victims:
            return
        self._is_spilling = True
        for copy in victims:
            copy.is_leaving = True
        num_bytes = sum(copy.num_bytes for copy in victims)
        self.write(num_bytes, lambda: self._spilled(victims))

    def _missing_bytes(self) -> int:
        wanted = sum(request.num_bytes for request in self.waiting())
        if not wanted:
            return 0
        return max(0, self.used_bytes + min(wanted, self.budget_bytes) - self.budget_bytes)

    def _victims(self, excess_bytes: int, spared_bytes: int) -> list[Copy]:
        candidates = [copy for copy in self._in_memory if _is_victim(copy)]
        while spared_bytes > 0 and candidates:
            spared_bytes -= candidates.pop().num_bytes
        victims: list[Copy] = []
        chosen = 0
        for copy in candidates:
            if chosen >= excess_bytes or (victims and chosen + copy.num_bytes > BATCH_BYTES):
                break
            victims.append(copy)
            chosen += copy.num_bytes
        return victims

    def write(self, num_bytes: int, done: Callable[[], None]) -> None:
        """Writes bytes to the disks."""
        assert self._disk is not None
        self._disk(num_bytes, -(-num_bytes // PIECE_BYTES), done)

    def _spilled(self, victims: list[Copy]) -> None:
        self._is_spilling = False
        for copy in victims:
            copy.is_leaving = False
            if copy in self._copies and not copy.num_pins:
                copy.in_memory = False
                copy.state.shared.num_moves += 1
                del self._in_memory[copy]
                self.spilled_bytes += copy.num_bytes
                self.release(copy.num_bytes)
        self.num_spills += 1
        self._clock.note("spilled", self.node, len(victims))
        self._look()


def _is_victim(copy: Copy) -> bool:
    return not copy.num_pins and not copy.is_leaving and copy.num_bytes > 0
