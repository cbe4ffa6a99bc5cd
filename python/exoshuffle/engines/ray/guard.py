"""Holds the workers of a Ray that was started here to the memory that their tasks have declared.

Ray starts tasks together only as far as what they declare fits into its memory, but measures no process. So a thread of
the program measures the busy workers. Each may have some memory of its own. When beside that they have more than there
is to declare, the guard stops the worker that most exceeds what was set apart for it. The embedded engine does the same
(``engines.taking_more``). A worker that has no more than its share is never stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import NamedTuple

from ray._private import ray_constants
from ray._private import worker as ray_worker

from exoshuffle.engines.ray import at_work
from exoshuffle.engines.ray.at_work import WORKER_BYTES, Stopped, Work
from exoshuffle.engines.taking_more import allowed_bytes, error_of_taking_more
from exoshuffle.observe.memory import private_bytes

#: The time between two looks. A look took 0.24 ms of CPU with two busy workers.
PERIOD_SECONDS = 0.02
#: The same while workers have taken so much of what there is, and take more.
HURRY_SECONDS = 0.002
HURRY_PART = 4
GROWTH_BYTES = 1 << 20
#: How long to wait for the end of a worker that was stopped, whose memory still counts.
END_SECONDS = 5.0
_OWN = re.compile(r"^Pss_Anon:\s+(\d+) kB", re.MULTILINE)


class _Worker(NamedTuple):
    """A busy worker.

    Attributes:
        members: Its process, and those that it has started.
        work: The task that runs in it.
        num_bytes: The memory of all of them.
    """

    members: list[int]
    work: Work
    num_bytes: int

    def beyond(self) -> int:
        """Returns how much it has more than it may."""
        return self.num_bytes - allowed_bytes(self.work.set_apart)


class MemoryGuard:
    """Watches the workers of the Ray that was started here until it is closed.

    Args:
        declarable: The memory that tasks can declare together.
        limit: The memory limit, which errors name.
    """

    def __init__(self, declarable: int, limit: int) -> None:
        self._declarable, self._limit = declarable, limit
        (raylet,) = ray_worker._global_node.all_processes[ray_constants.PROCESS_TYPE_RAYLET]
        self._raylet: int = raylet.process.pid
        self._folder = at_work.folder()
        self._folder.mkdir()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="exoshuffle-guard", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends watching; harmless when repeated."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        period, before = PERIOD_SECONDS, 0
        while not self._over.wait(period):
            begun = time.monotonic()
            total = self._look()
            grows = total - before > GROWTH_BYTES and total > self._declarable // HURRY_PART
            period, before = HURRY_SECONDS if grows else PERIOD_SECONDS, total
            # Children are weighed by their shares of pages, which takes some milliseconds per GB.
            period = max(period, 10 * (time.monotonic() - begun))

    def _look(self) -> int:
        """Returns the memory that busy workers have beside their own; stops one if that is too much."""
        workers = [
            worker for process in at_work.workers(self._folder) if (worker := self._worker(process))
        ]
        total = sum(max(0, worker.num_bytes - WORKER_BYTES) for worker in workers)
        if total > self._declarable:
            worst = max(workers, key=_Worker.beyond)
            if worst.beyond() > 0:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    self._stop(worst)
        return total

    def _worker(self, process: int) -> _Worker | None:
        work = at_work.work_of(self._folder, process)
        if work is None:
            return None
        members = _family(process)
        if not members:
            at_work.forget(self._folder, process)
            return None
        num_bytes = private_bytes(process) if len(members) == 1 else sum(map(_own_bytes, members))
        return _Worker(members, work, num_bytes)

    def _stop(self, worker: _Worker) -> None:
        process = worker.members[0]
        if _parent(process) != self._raylet:  # another process has its number by now
            at_work.forget(self._folder, process)
            return
        # While it stands still its task cannot end and another begin.
        os.kill(process, signal.SIGSTOP)
        if at_work.work_of(self._folder, process) != worker.work:
            os.kill(process, signal.SIGCONT)
            return
        if not worker.work.is_innocent:
            at_work.note_stopped(self._folder, self._stopped(worker))
        for member in worker.members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        deadline = time.monotonic() + END_SECONDS
        while _family(process) and time.monotonic() < deadline:
            if self._over.wait(HURRY_SECONDS):
                return

    def _stopped(self, worker: _Worker) -> Stopped:
        work, num_started = worker.work, len(worker.members) - 1
        error = error_of_taking_more(
            work.task, work.function, worker.num_bytes, num_started, work.set_apart, self._limit
        )
        return Stopped(worker.members[0], work.task, work.task_id, str(error))


def _family(process: int) -> list[int]:
    """Returns a process and those that it or they have started, without those that have ended."""
    found = [process] if private_bytes(process) else []
    for member in found:
        # Tasks run in the main thread.
        children = _read(f"/proc/{member}/task/{member}/children").split()
        found.extend(child for child in map(int, children) if private_bytes(child))
    return found


def _own_bytes(process: int) -> int:
    """Returns the memory of a process that is in no file, of shared pages its share."""
    own = _OWN.search(_read(f"/proc/{process}/smaps_rollup"))
    return int(own[1]) * 1024 if own else private_bytes(process)


def _parent(process: int) -> int | None:
    """Returns the number of the process that has started another; None if that has ended."""
    found = re.search(r"^PPid:\s+(\d+)", _read(f"/proc/{process}/status"), re.MULTILINE)
    return int(found[1]) if found else None


def _read(path: str) -> str:
    """Returns what the system tells of a process; nothing if the process has ended."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
