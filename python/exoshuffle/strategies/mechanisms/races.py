"""Tasks in flight with their copies: who began, who is slow, and which copy was first.

Source: Exoshuffle §3.5, listing 4 (speculative execution). Guarantee: every task is reported once, by the first of its
copies that succeeds. The other copies are cancelled, and their results are dropped with their references.

A task counts from when it begins, where the engine knows (``running``), else from its submission. So with
speculation no more tasks are submitted than there are CPUs. Both copies may run to the end, so tasks must bear that. A
reduce that writes files does so in a folder of its attempt's own, and the program takes those of the first copy.

Merges of ``push`` and folds of ``streaming`` have copies, too (``copies``), and so have reduces (``reduce_copies``).
Late merges are given up for their inputs instead, where these are kept (``best_effort``).
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from dataclasses import dataclass

from exoshuffle.errors import ExoshuffleError
from exoshuffle.futures import Ref, cancel, nodes, raise_errors, running, wait
from exoshuffle.strategies.mechanisms.speculation import Speculation

#: Tasks in flight per CPU, where nobody measures them: enough that no CPU waits for the program.
IN_FLIGHT_PER_CPU = 4
#: Tasks that have not begun are looked at no more often than that, however short others are.
LOOK_SECONDS = 0.005


@dataclass
class _Race:
    """The copies of one task that are running.

    Attributes:
        refs: Their results.
        started: When the task began; while it has not, when it was last seen waiting.
        node: Where it runs; empty while it is not known to have begun.
        is_copied: Whether it has a copy.
    """

    refs: list[Ref]
    started: float
    node: str = ""
    is_copied: bool = False


class Races:
    """Tasks in flight with their copies, and how long the tasks that are done have taken."""

    def __init__(self, num_tasks: int, speculation: Speculation | None) -> None:
        self.races: dict[int, _Race] = {}
        self.num_tasks = num_tasks
        self._speculation = speculation
        self._clock = time.monotonic if speculation is None else speculation.clock
        #: Durations of the tasks that are done, in order, so that the median costs no sort.
        self._durations: list[float] = []
        self.limit = num_cpus() * (IN_FLIGHT_PER_CPU if speculation is None else 1)

    def start(self, index: int, ref: Ref) -> None:
        """Notes that a task was submitted."""
        self.races[index] = _Race([ref], self._clock())

    def refs(self) -> list[Ref]:
        """Returns all copies of all tasks in flight."""
        return [ref for race in self.races.values() for ref in race.refs]

    def finished(self, others: Sequence[Ref] = ()) -> list[tuple[int, Ref]]:
        """Waits until a task is done or slow, or one of ``others`` is done; returns the tasks that are done.

        Raises:
            TaskError: All copies of a task have failed.
        """
        ready, _ = wait([*self.refs(), *others], num_ready=1, timeout=self._next_slow())
        return self._over(ready)

    def finished_now(self) -> list[tuple[int, Ref]]:
        """Does as ``finished`` without waiting."""
        ready, _ = wait(self.refs(), num_ready=0, timeout=0)
        return self._over(ready)

    def _over(self, ready: Sequence[Ref]) -> list[tuple[int, Ref]]:
        done = {id(ref) for ref in ready}
        self._look_who_began(done)
        winners = {
            index: _winner(race, done)
            for index, race in self.races.items()
            if any(id(ref) in done for ref in race.refs)
        }
        for index in [index for index, winner in winners.items() if winner is not None]:
            bisect.insort(self._durations, self._clock() - self.races.pop(index).started)
        return [(index, winner) for index, winner in winners.items() if winner is not None]

    def _look_who_began(self, done: set[int]) -> None:
        if self._speculation is None:
            return
        now = self._clock()
        for race in self.races.values():
            if race.node or id(race.refs[0]) in done:
                continue
            found = running(race.refs[0])
            if found is not None:
                race.started, race.node = now - found.seconds, found.node

    def slow(self) -> list[int]:
        """Returns the tasks that should have a copy now; each is named once."""
        limit = self._slow_seconds()
        if limit is None:
            return []
        now = self._clock()
        return [
            index
            for index, race in self.races.items()
            if not race.is_copied and now - race.started >= limit
        ]

    def elsewhere(self, index: int) -> str | None:
        """Returns a node for a copy: another one than where the task runs; None if there is none, or nobody knows."""
        names = [node.name for node in nodes() if node.resources.get("CPU", 0) > 0]
        node = self.races[index].node
        if node not in names or len(names) == 1:
            return None
        return names[(names.index(node) + 1) % len(names)]

    def add_copy(self, index: int, ref: Ref) -> None:
        """Notes that a copy of a task was submitted."""
        self.races[index].refs.append(ref)
        self.races[index].is_copied = True

    def _next_slow(self) -> float | None:
        """Returns the seconds until a task becomes slow; None if none does before another is done."""
        limit = self._slow_seconds()
        starts = [race.started for race in self.races.values() if not race.is_copied]
        if limit is None or not starts:
            return None
        return max(0.0, min(starts) + max(limit, LOOK_SECONDS) - self._clock())

    def _slow_seconds(self) -> float | None:
        if self._speculation is None:
            return None
        return self._speculation.slow_seconds(self._durations, self.num_tasks)


def failure(ref: Ref) -> ExoshuffleError | None:
    """Returns the error of an object, if it has failed."""
    try:
        raise_errors([ref])
    except ExoshuffleError as error:
        return error
    return None


def has_failed(ref: Ref) -> bool:
    """Whether an object that is done has failed."""
    return failure(ref) is not None


def num_cpus() -> int:
    """Returns the CPU slots of all nodes that are alive, at least 1."""
    return max(1, int(sum(node.resources.get("CPU", 0) for node in nodes())))


def _winner(race: _Race, done: set[int]) -> Ref | None:
    """Returns the first copy that has succeeded, and cancels the others; None while one may still succeed."""
    over = [ref for ref in race.refs if id(ref) in done]
    winner = next((ref for ref in over if not has_failed(ref)), None)
    left = [ref for ref in race.refs if id(ref) not in done]
    if winner is None:
        if not left:
            raise_errors(over)
        # A failed copy that stays would end every wait at once.
        race.refs = left
        return None
    for ref in left:
        cancel(ref)
    return winner
