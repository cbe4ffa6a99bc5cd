"""Tells the guard of a Ray that was started here the work of each worker, by files in the folder of Ray's session.

The guard reads these files, and notes whom it has stopped. A worker has no other way to tell it: Ray does not say in
which process a task runs, nor how a process ended. Where no guard has made the folder, nothing is written.

A file is written in place, since to replace one takes a file system up to 4 ms. So the guard may read a mixture of two.
It reads again, when the process stands still, before it stops one.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import ray
from ray._private import worker as ray_worker

from exoshuffle.engines.taking_more import LEFT_BYTES
from exoshuffle.errors import FunctionMemoryError
from exoshuffle.observe.memory import private_bytes

#: Memory of a worker that has imported this package and Arrow: 50 to 79 MB of its own, and what it has from files.
WORKER_BYTES = 100_000_000
_STOPPED = "stopped"


class Work(NamedTuple):
    """The task that a worker runs.

    Attributes:
        task: The name of the task.
        attempt: Tells this attempt from others of this session.
        task_id: Ray's name of the task, the same in each attempt.
        function: The user's function that runs; empty where that is not known.
        set_apart: The memory that is set apart for the process.
        is_innocent: Whether tasks before this one had left much in the process, and this one can be run again.
    """

    task: str
    attempt: int
    task_id: str
    function: str
    set_apart: int
    is_innocent: bool


class Stopped(NamedTuple):
    """A worker that the guard has stopped.

    Attributes:
        process: Its number.
        task: The name of its task.
        task_id: See ``Work``.
        text: The error.
    """

    process: int
    task: str
    task_id: str
    text: str


class AtWork:
    """Tells the guard what this process is at, for as long as a task runs.

    Args:
        task: The name of the task.
        attempt: The number of the attempt.
        memory: The memory that the task has declared, and its actor.
        may_repeat: Whether the task can be run again.
    """

    def __init__(self, task: str, attempt: int, memory: int, *, may_repeat: bool) -> None:
        self._process = os.getpid()
        self._folder = _folder_of_worker()
        self._work = Work(
            task,
            attempt,
            ray.get_runtime_context().get_task_id() or "",
            "",
            WORKER_BYTES + memory,
            may_repeat and private_bytes(self._process) > WORKER_BYTES + LEFT_BYTES,
        )

    def begin(self) -> None:
        """Notes that the task begins.

        Raises:
            FunctionMemoryError: An earlier attempt at it was stopped.
        """
        if self._folder is None:
            return
        error = _error(self._folder, "task_id", [self._work.task_id])
        if error is not None:
            raise error
        self._write(json.dumps(self._work))

    def note(self, function: str) -> None:
        """See ``futures.engine.note_function``; not in a process that the function has forked."""
        if function != self._work.function and os.getpid() == self._process:
            self._work = self._work._replace(function=function)
            self._write(json.dumps(self._work))

    def end(self) -> None:
        """Notes that the task is over."""
        self._write("")

    def _write(self, line: str) -> None:
        if self._folder is None:
            return
        # Opened each time: the function may close all descriptors.
        file = os.open(self._folder / str(self._process), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode() + b"\n")
        finally:
            os.close(file)


def folder() -> Path:
    """Returns the folder of these files; it need not be there."""
    return Path(ray_worker._global_node.get_session_dir_path()) / "exoshuffle-at-work"


@functools.cache
def _folder_of_worker() -> Path | None:
    """Returns the folder if somebody guards the workers; a guard makes it before the first task."""
    found = folder()
    return found if found.is_dir() else None


def workers(where: Path) -> Iterator[int]:
    """Returns the numbers of the processes that are, or were, at work."""
    return (int(name) for name in os.listdir(where) if name.isdecimal())


def work_of(where: Path, process: int) -> Work | None:
    """Returns what a process is at; None if its task is over, or nobody can tell at this moment."""
    try:
        line, _, _ = (where / str(process)).read_bytes().partition(b"\n")
        return Work(*json.loads(line))
    except (FileNotFoundError, ValueError):
        return None


def forget(where: Path, process: int) -> None:
    """Forgets a process that has ended."""
    (where / str(process)).unlink(missing_ok=True)


def note_stopped(where: Path, stopped: Stopped) -> None:
    """Notes that a worker is stopped; before it is, so that whoever sees its end finds the note."""
    with (where / _STOPPED).open("a") as file:
        file.write(json.dumps(stopped) + "\n")


def stopped_in_task(names: Collection[str]) -> FunctionMemoryError | None:
    """Returns the error of the last worker that was stopped in a task of these names, if one was."""
    return _error(folder(), "task", names)


def stopped_process(process: int) -> FunctionMemoryError | None:
    """Returns the error of a worker if it was stopped."""
    return _error(folder(), "process", [process])


def _error(where: Path, key: str, values: Collection[object]) -> FunctionMemoryError | None:
    try:
        lines = (where / _STOPPED).read_text().splitlines()
    except FileNotFoundError:
        return None
    all_stopped = (Stopped(*json.loads(line)) for line in reversed(lines))
    found = next((one for one in all_stopped if getattr(one, key) in values), None)
    return None if found is None else FunctionMemoryError(found.text)
