"""Describes the unfinished tasks of an engine: which run, where, and what the others wait for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from exoshuffle.late_dataclasses import dataclass

_OWN = str(Path(__file__).parent.parent)
#: The standard library. ``sysconfig`` knows it, too, but reads a table of the build for it: 1.5 ms of a start.
_LIBRARY = str(Path(os.__file__).parent)


class Frame(NamedTuple):
    """A call on a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})"


@dataclass(frozen=True)
class Activity:
    """An unfinished task.

    Attributes:
        name: Name of the task.
        waits_for: The thing that it waits for before it can run; None if it runs.
        attempt: Number of the attempt, from 1.
        seconds: How long it has been running; zero if it waits.
        process: Number of the process that it runs in; None if it waits, or if the engine does not know.
        where: The call that it is in, one of the user's functions if it is in any.
    """

    name: str
    waits_for: str | None = None
    attempt: int = 1
    seconds: float = 0.0
    process: int | None = None
    where: Frame | None = None

    def __str__(self) -> str:
        if self.waits_for is not None:
            return f"{self.name} waits for {self.waits_for}"
        process = "" if self.process is None else f" in process {self.process}"
        where = "" if self.where is None else f", in {self.where}"
        return f"{self.name} (attempt {self.attempt}) runs for {self.seconds:.0f} s{process}{where}"


def telling_frame(frames: Iterable[Frame]) -> Frame | None:
    """Returns the call of a stack that tells most: the innermost that is neither ours nor Python's; innermost first."""
    frames = list(frames)
    of_users = (frame for frame in frames if not frame.file.startswith((_OWN, _LIBRARY, "<")))
    return next(of_users, frames[0] if frames else None)
