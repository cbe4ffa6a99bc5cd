"""The ends of worker processes: whether somebody outside may have ended one, and the sentence that tells of it.

Nobody can tell who sent a signal, unless the task's own Python code did, which the worker tells before.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from exoshuffle.engines.local.workers import wire
from exoshuffle.observe.activity import Frame

#: A worker may be ended while it starts; so many are started, one after the other. No task is to blame for such ends,
#: but they must stop somewhere.
MAX_STARTS = 256
#: Signals of a timer, a limit or a pipe of the process itself, which end a process that does not handle them.
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
#: Signals of a fault of the process itself; other signals come from elsewhere, as far as one can tell.
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
    """Tells in words how a process ended."""
    if exit_code < 0:
        return f"signal {signal.Signals(-exit_code).name}"
    return f"exit code {exit_code}"


@dataclass(frozen=True)
class Ending:
    """The end of a worker process.

    Attributes:
        process: The number of the process.
        exit_code: As ``subprocess`` tells it: below zero, the number of a signal.
        sent_itself: The last signal that a task in it sent to its own process, if any.
        function: The user's function that ran; empty where that is not known; None if no task has begun.
        crashed_in: The call that the process was in when it crashed, where that is known.
        is_orphan: Whether its fork server ended before it, so that nobody knows how it ended.
    """

    process: int
    exit_code: int
    sent_itself: int
    function: str | None
    crashed_in: Frame | None
    is_orphan: bool = False

    @property
    def is_from_outside(self) -> bool:
        """Whether another process may have ended this one."""
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
            f"{ended}: {culprit} crashed{where}, in native code, which another attempt seldom mends; call it in "
            "a program of its own, by python -X faulthandler"
        )
