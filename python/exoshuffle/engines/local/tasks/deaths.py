"""Which deaths of workers count against a task: those that it may have caused.

Guarantee: a task whose worker is ended from outside, by the system for want of memory or by somebody, is run again for
as long as that may help, however small its ``max_retries`` (unless 0); and one that ends its worker every time fails.
So it is with an actor and its ``max_restarts``. A crash or an exit of the process is its own and counts like an error
of its function.

Who sent a signal cannot be told, unless the task's own Python code did, which the worker tells before. So deaths have a
bound, in number and in time: both have to be exceeded, since a worker that is ended every 0.2 s dies often in a short
time, and one that the system ends for want of memory seldom. The number grows with what shows that the task is not to
blame, but slower than that: other tasks that finish meanwhile, and workers that end with no task in them.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exoshuffle.engines.local.workers import wire
from exoshuffle.errors import WorkerDiedError
from exoshuffle.observe.activity import Frame

if TYPE_CHECKING:
    from exoshuffle.engines.local.objects.state import Task

#: Deaths of one task, from outside, while nothing shows that others cause them.
PATIENCE = 16
#: And so long after the first of them.
PATIENCE_SECONDS = 60.0
#: Workers that are started anew because those before were ended while they started: no task is to blame, but it ends.
MAX_STARTS = 256
#: What a timer, a limit or a pipe of the process itself ends it by, where it does not handle them.
_TIMERS = frozenset(
    (
        signal.SIGALRM,
        signal.SIGPIPE,
        signal.SIGPROF,
        signal.SIGVTALRM,
        signal.SIGXCPU,
        signal.SIGXFSZ,
    )
)
#: And what it does to itself by a fault; other signals come from elsewhere, as far as one can tell.
_FAULTS = frozenset(
    (
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
    )
)


def is_from_outside(exit_code: int) -> bool:
    """Whether a process that ended so may have been ended by another."""
    return exit_code < 0 and -exit_code not in _FAULTS | _TIMERS


def told(exit_code: int) -> str:
    """How a process ended, in words."""
    if exit_code < 0:
        return f"signal {signal.Signals(-exit_code).name}"
    return f"exit code {exit_code}"


@dataclass(frozen=True)
class Ending:
    """How a worker process ended.

    Attributes:
        process: Its number.
        exit_code: As ``subprocess`` tells it: below zero, the number of a signal.
        sent_itself: The last signal that a task in it sent to its own process, if any.
        function: Of the user; which ran, empty where that is not known; None if no task has begun.
        crashed_in: The call that it was in when it crashed, where that is known.
        is_orphan: Whether its fork server ended before it, so that nobody knows how it did.
    """

    process: int
    exit_code: int
    sent_itself: int
    function: str | None
    crashed_in: Frame | None
    is_orphan: bool = False

    @property
    def is_from_outside(self) -> bool:
        """Whether another process may have ended it."""
        return is_from_outside(self.exit_code) and -self.exit_code != self.sent_itself

    def __str__(self) -> str:
        code, culprit = self.exit_code, f"{self.function or 'its function'}, or what that called,"
        how = "after its fork server" if self.is_orphan else f"with {told(code)}"
        ended = f"worker process {self.process} ended {how}"
        if self.function is None or self.is_from_outside:
            return ended
        if code == wire.EXIT_CLOSED:
            return f"{ended}: {culprit} closed descriptors that are not its own; let it close those that it has opened"
        if code >= 0:
            return f"{ended}: {culprit} ended it (os._exit); let it raise an error instead"
        if -code == self.sent_itself:
            return f"{ended}, which {culprit} sent to its own process"
        if -code in _TIMERS:
            return f"{ended}: a timer, a limit or a pipe of {culprit} ended it; let it handle that signal"
        where = "" if self.crashed_in is None else f" in {self.crashed_in}"
        return (
            f"{ended}: {culprit} crashed{where}, in native code, which another attempt seldom mends; call it in a "
            "program of its own, by python -X faulthandler, to find out why"
        )


def most_deaths(num_signs: int) -> int:
    """Deaths that are forgiven to a task, by how many signs there have been since the first that it is not to blame."""
    return PATIENCE * (1 + num_signs.bit_length())


def may_be_forgiven(task: Task, error: BaseException) -> bool:
    """Whether this failure of an attempt is a death that the task may not have caused, and is one to run again."""
    is_death = isinstance(error, WorkerDiedError) and error.from_outside
    return is_death and task.options.max_retries > 0


def forgive(task: Task, num_signs: int) -> bool:
    """Notes such a death; whether it is not one too many. ``num_signs``: of all time, see ``most_deaths``."""
    now = time.monotonic()
    if task.deaths == 0:
        task.signs_before, task.died_at = num_signs, now
    is_long = now - task.died_at >= PATIENCE_SECONDS
    if is_long and task.deaths >= most_deaths(num_signs - task.signs_before):
        return False
    task.deaths += 1
    return True


def final(task: Task, error: WorkerDiedError) -> WorkerDiedError:
    """The error of the last of many deaths."""
    return WorkerDiedError(
        f"{error}, the {task.deaths + 1}th one under this task, whose longest attempt took "
        f"{task.longest_seconds:.2g} s: its function ends the process, or the system does for want of memory, which "
        "the task should declare (memory=), or somebody ends processes too often for it, so that it should do less in "
        "one call"
    )


class Crashes:
    """Crashes and exits of workers, of tasks of one name, while none of these finishes: all of them would end so.

    Without it, each of a thousand tasks whose function crashes would be tried again before the first of them fails.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, task: Task, num_at_once: int) -> bool:
        """One more; whether it is not one too many, where so many tasks run at once."""
        count = self._counts[task.name] = self._counts.get(task.name, 0) + 1
        return count < num_at_once + task.options.max_retries

    def finished(self, task: Task) -> None:
        """One of them does not end so."""
        self._counts.pop(task.name, None)
