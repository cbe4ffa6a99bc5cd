"""Decides which deaths of Ray workers count against a task: those that it may have caused.

See ``engines.local.tasks.deaths``. Ray does not say how a worker ended, and tries again after deaths of all kinds. So
Ray is told to try without end, and each attempt writes a note in the folder of Ray's session. The note says that the
attempt began, and how its process ended itself, if it did (``os._exit``, a signal to itself, a crash). The note of a
task may tell that it has used up its tries. An attempt that finds this raises an error instead of running the function.

The lives of an actor are the attempts at its constructor. A life goes on until its process ends, and so does its note.
Calls of actors that may be repeated have notes, too. Their causes are those of the lives in which they ran.

A node does not see the notes of other nodes. A task begins anew on another node, so the bound is one per node.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import ray
from ray._private import worker as ray_worker

from exoshuffle.engines.ray.logs import last_words
from exoshuffle.errors import WorkerDiedError

#: Deaths of one task from outside, and the time since its first attempt: the task fails where both are exceeded. On a
#: Ray of 2 CPUs a worker takes 0.4 s to start, and 1.2 s where a worker is killed every 0.2 s.
PATIENCE = 16
PATIENCE_SECONDS = 60.0
#: Deaths on one node since a task last finished there, with the same time: else each of many tasks would have its 16.
STANDSTILL = 64
#: Attempts of one task that no note tells of: they ran on other nodes, or their processes ended after the function.
UNEXPLAINED = 64
_FOLDER = "exoshuffle-attempts"
_BEGUN, _FAILED, _SERVED, _EXIT, _SIGNAL = "begun", "failed", "served", "exit", "signal"
#: ``faulthandler`` writes the last of these when a process crashes.
_CAUSES = re.compile(r"^(exit \d+|signal \d+|Fatal Python error: .*)$", re.MULTILINE)
#: How many causes the lives of an actor had left when a call was first tried.
_KNOWN = "known"
_KNOWN_CAUSES = re.compile(rf"^{_KNOWN} (\d+)$", re.MULTILINE)
_BEGINNINGS = re.compile(rf"^{_BEGUN} (\S+)$", re.MULTILINE)

#: The note of the attempt that runs in this process, if one does.
_current: Note | None = None
_exit = os._exit


class Note:
    """The record on this node of the earlier attempts of a task.

    Attributes:
        causes: How processes ended themselves, attempt by attempt.
        num_forgiven: How many attempts were ended from outside, since an actor last finished a call.
    """

    def __init__(self, name: str, max_retries: int, attempt: int) -> None:
        self._name, self._max_retries = name, max_retries
        context = ray.get_runtime_context()
        self._path = _folder() / f"{context.get_job_id()}-{context.get_task_id()}"
        self._process = os.getpid()
        text = _read(self._path)
        self._attempt = attempt
        self.causes: list[str] = _CAUSES.findall(text)
        text = text.rpartition(f"{_SERVED}\n")[2]
        self._begun = [float(moment) for moment in _BEGINNINGS.findall(text)]
        num_explained = text.count(f"{_FAILED}\n") + len(_CAUSES.findall(text))
        self._num_outside = max(0, len(self._begun) - num_explained)
        self.num_forgiven = self._num_outside
        self._has_served = False
        self._descriptor = os.open(
            self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def begin(self) -> None:
        """Notes that the attempt begins.

        Raises:
            WorkerDiedError: The task may not be tried again.
        """
        self._note_beginning()
        global _current
        _current = self
        os._exit = self._tell_and_exit
        # After this handler, Ray's own writes the stack into the log of the worker, as before.
        faulthandler.enable(self._descriptor, all_threads=False)

    def _note_beginning(self) -> None:
        if self._begun or self.causes or self._attempt > 1:
            self._check()
        self.write(f"{_BEGUN} {time.time()}")

    def end(self, is_retried: bool, has_finished: bool) -> None:
        """Notes that the attempt is over, while its process goes on."""
        if is_retried:
            self.write(_FAILED)
        else:
            self._path.unlink(missing_ok=True)
        self.leave()
        if has_finished:
            _all_deaths().unlink(missing_ok=True)

    def serve(self) -> None:
        """Notes, once for each life, that an actor has finished a call."""
        if not self._has_served:
            self._has_served = True
            self.write(_SERVED)
            _all_deaths().unlink(missing_ok=True)

    def leave(self) -> None:
        """Leaves the note as it is."""
        global _current
        if _current is self:
            faulthandler.enable(sys.__stderr__ or 2, all_threads=False)
            os._exit = _exit
            _current = None
        with contextlib.suppress(OSError):  # the function has closed it
            os.close(self._descriptor)

    def write(self, line: str) -> None:
        """Adds a line; not in a process that the function has forked."""
        if os.getpid() == self._process:
            with self._path.open("a") as file:  # the function may have closed the descriptor
                file.write(f"{line}\n")

    def _check(self) -> None:
        if len(self.causes) > self._max_retries:
            raise WorkerDiedError(
                f"the worker process of task {self._name} ended ({self.causes[-1]}): its function, or what that "
                f"called, ended it or crashed; let it raise an error instead{last_words({self._name})}"
            )
        num_unexplained = self._attempt - 1 - len(self._begun)
        if num_unexplained > self._max_retries + UNEXPLAINED:
            raise WorkerDiedError(
                f"{num_unexplained} worker processes ended under task {self._name}, on other nodes or when its "
                "function was over. See whether it closes what belongs to its process, and whether nodes fail too often"
            )
        if not self._begun:
            return
        now = time.time()
        with _all_deaths().open("a") as file:
            file.write(f"{_BEGUN} {now}\n")
        before = [float(moment) for moment in _BEGINNINGS.findall(_read(_all_deaths()))]
        for num_deaths, bound, begun, where in (
            (self._num_outside, PATIENCE, self._begun, f"under task {self._name}"),
            (len(before), STANDSTILL, before, "on its node, and no task finished,"),
        ):
            seconds = now - min(begun, default=now)
            if num_deaths > bound and seconds >= PATIENCE_SECONDS:
                raise WorkerDiedError(
                    f"{num_deaths} worker processes ended {where} within {seconds:.0f} s. Functions may end them; or "
                    "the system does for want of memory, so declare with memory= what tasks take. Or somebody ends "
                    "processes too often, so let tasks do less in one call"
                )

    def _tell_and_exit(self, status: int) -> NoReturn:
        self.write(f"{_EXIT} {status & 0xFF}")
        _exit(status)


class CallNote(Note):
    """The record of the earlier attempts at a call of an actor.

    Ray counts tries while the actor is still being made again, so that they are forgiven, too.

    Args:
        life: The note of the actor's life; None if it has only one.
    """

    def __init__(self, life: Note | None, name: str, max_retries: int, attempt: int) -> None:
        super().__init__(name, max_retries, attempt)
        known, text = life.causes if life is not None else [], _read(self._path)
        self._num_known = len(known)
        before = _KNOWN_CAUSES.search(text)
        self.causes = known[int(before[1]) :] if before else []
        num_failed = text.count(f"{_FAILED}\n")
        self._num_outside = max(0, len(self._begun) - num_failed - len(self.causes))
        self.num_forgiven = max(0, attempt - 1 - num_failed - len(self.causes))

    def begin(self) -> None:
        """See ``Note``. The note of the life hears how the process ends."""
        self._note_beginning()
        if not self._begun:
            self.write(f"{_KNOWN} {self._num_known}")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _all_deaths() -> Path:
    """Returns the path of the note of deaths on this node since a task last finished."""
    return _folder() / f"{ray.get_runtime_context().get_job_id()}"


@functools.cache
def _folder() -> Path:
    folder = Path(ray_worker._global_node.get_session_dir_path()) / _FOLDER
    folder.mkdir(exist_ok=True)
    sys.addaudithook(_hear)
    return folder


def _hear(event: str, args: Sequence[object]) -> None:
    """As an audit hook, notes signals that this process sends to itself."""
    if event == "os.kill" and _current is not None and args[0] == os.getpid() and args[1]:
        _current.write(f"{_SIGNAL} {args[1]}")
