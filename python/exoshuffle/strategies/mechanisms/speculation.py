"""Runs a bounded number of tasks of one kind at a time and says which are done; slow ones may get a copy.

Source: Exoshuffle §3.5, listing 4 (speculative execution). Guarantee: every task is reported once, by the first of its
copies that succeeds. The other copies are cancelled, and their results are dropped with their references.

The futures API does not tell when a task starts. So with speculation no more tasks are submitted than there are CPUs,
and a task counts from its submission. Both copies may run to the end, so tasks must bear that. A reduce that writes
files does so in a folder of its attempt's own, and the program takes those of the first copy.

Merges of ``push`` and folds of ``streaming`` have copies, too (``copies``), and so have reduces (``reduce_copies``).
Late merges are given up for their inputs instead, where these are kept (``best_effort``).
"""

from __future__ import annotations

import bisect
import collections
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from exoshuffle.arguments import check_function, check_instance, is_number
from exoshuffle.errors import ExoshuffleError, OptionsError, shown
from exoshuffle.futures import Ref, cancel, nodes, raise_errors, wait

#: Tasks in flight per CPU, where nobody measures them: enough that no CPU waits for the program.
IN_FLIGHT_PER_CPU = 4

Submit = Callable[[int], Ref]


@dataclass(frozen=True)
class Speculation:
    """When a task is slow enough for a copy: ``strategy=Simple(Speculation(...))``; other strategies take it, too.

    Attributes:
        multiple: A task is slow after this multiple of the median duration of the tasks that are done.
        fraction: This share of all tasks must be done first, so that there is a median to speak of.
        min_seconds: A task that takes less is never copied.
        clock: Returns seconds that only grow.

    Raises:
        OptionsError: A value cannot work.
    """

    multiple: float = 1.5
    fraction: float = 0.75
    min_seconds: float = 0.1
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        multiple, fraction, seconds = self.multiple, self.fraction, self.min_seconds
        if not (is_number(multiple) and math.isfinite(multiple) and multiple >= 1):
            raise OptionsError(f"multiple is {shown(multiple)}; it must be a number from 1 on")
        if not (is_number(fraction) and 0 < fraction <= 1):
            raise OptionsError(f"fraction is {shown(fraction)}; it must be above 0 and at most 1")
        if not (is_number(seconds) and seconds >= 0):
            raise OptionsError(f"min_seconds is {shown(seconds)}; it must be a number from 0 on")
        check_function("clock", self.clock)

    def slow_seconds(self, durations: Sequence[float], num_tasks: int) -> float | None:
        """Returns how long a task may take, from the ordered durations of done tasks; None if too few are done."""
        count = len(durations)
        if count < max(1, math.ceil(self.fraction * num_tasks)):
            return None
        median = (durations[(count - 1) // 2] + durations[count // 2]) / 2
        return max(self.min_seconds, self.multiple * median)


@dataclass
class _Race:
    """The copies of one task that are running."""

    refs: list[Ref]
    started: float
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
        winners = {
            index: _winner(race, done)
            for index, race in self.races.items()
            if any(id(ref) in done for ref in race.refs)
        }
        for index in [index for index, winner in winners.items() if winner is not None]:
            bisect.insort(self._durations, self._clock() - self.races.pop(index).started)
        return [(index, winner) for index, winner in winners.items() if winner is not None]

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
        return max(0.0, min(starts) + limit - self._clock())

    def _slow_seconds(self) -> float | None:
        if self._speculation is None:
            return None
        return self._speculation.slow_seconds(self._durations, self.num_tasks)


def as_finished(
    submit: Submit,
    indices: Sequence[int],
    speculation: Speculation | None = None,
    submit_copy: Submit | None = None,
    meanwhile: Callable[[], Sequence[Ref]] = tuple,
) -> Iterator[tuple[int, Ref]]:
    """Runs tasks and yields the index and the result of each, once, as they are done.

    Args:
        submit: Submits the task of an index.
        indices: The indices in the order in which to submit.
        speculation: When a slow task gets a copy; default: no copies.
        submit_copy: Submits a copy, for example elsewhere; default ``submit``.
        meanwhile: Called before every wait; returns further references that end the wait when they are done.

    Raises:
        TaskError: A task, and its copy if there is one, has failed.

    Cost: the references that the program holds, and looks at when a task is done, grow with the CPUs, not the tasks.
    """
    waiting = collections.deque(indices)
    tasks = Races(len(waiting), speculation)
    while waiting or tasks.races:
        while waiting and len(tasks.races) < tasks.limit:
            index = waiting.popleft()
            tasks.start(index, submit(index))
        yield from tasks.finished(meanwhile())
        for index in tasks.slow():
            tasks.add_copy(index, (submit_copy or submit)(index))


def run_all(
    submit: Submit,
    indices: Sequence[int],
    speculation: Speculation | None,
    meanwhile: Callable[[], Sequence[Ref]] = tuple,
) -> list[Ref]:
    """Returns the results of tasks in the order of their indices. Without speculation it does not wait for them.

    Raises:
        TaskError: With speculation, as in ``as_finished``.
    """
    if speculation is None:
        return [submit(index) for index in indices]
    results = dict(as_finished(submit, indices, speculation, meanwhile=meanwhile))
    return [results[index] for index in indices]


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


def check_speculation(speculation: object) -> None:
    """Raises ``OptionsError`` unless the value is a ``Speculation`` or None."""
    if speculation is not None:
        check_instance("speculation", speculation, Speculation)


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
