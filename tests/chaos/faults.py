"""Faults that happen while a job runs: each is repeated at random moments until the job ends."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import psutil

#: The pause between two faults, at least and at most; in a storm, no shorter than a worker takes to start by itself.
PAUSE_SECONDS = 0.1, 0.6
STORM_SECONDS = 0.2, 0.2


class Faults(threading.Thread):
    """Does one kind of fault to a process until it is told to end; counts them."""

    def __init__(self, kind: str, pid: int, folder: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._fault = KINDS[kind]
        self._pause_seconds = STORM_SECONDS if kind == "storm" else PAUSE_SECONDS
        self._process, self._folder, self._random = psutil.Process(pid), folder, random.Random(seed)
        self._ended = threading.Event()

    def run(self) -> None:
        """See ``threading.Thread``."""
        while not self._ended.wait(self._random.uniform(*self._pause_seconds)):
            try:
                self.count += self._fault(self._process, self._folder, self._random)
            except (psutil.Error, OSError):
                continue

    def end(self) -> None:
        """Ends the faults."""
        self._ended.set()
        self.join()


def _nothing(process: psutil.Process, folder: Path, rng: random.Random) -> int:
    del process, folder, rng
    return 0


def _kill(process: psutil.Process, folder: Path, rng: random.Random) -> int:
    """Kills one of the processes of the program's tree: a worker, or a server that forks them."""
    del folder
    others = process.children(recursive=True)
    if not others:
        return 0
    rng.choice(others).kill()
    return 1


def _corrupt(process: psutil.Process, folder: Path, rng: random.Random) -> int:
    """Writes noise into a spill file, whose only name is in ``/proc``."""
    descriptors = Path(f"/proc/{process.pid}/fd")
    spilled = [
        each
        for each in descriptors.iterdir()
        if os.readlink(each).startswith(f"{folder / 'spill'}/")
    ]
    if not spilled:
        return 0
    descriptor = os.open(rng.choice(spilled), os.O_WRONLY)
    try:
        size = os.fstat(descriptor).st_size
        os.pwrite(descriptor, rng.randbytes(64), rng.randrange(max(size, 1)))
    finally:
        os.close(descriptor)
    return 1


def _cut(process: psutil.Process, folder: Path, rng: random.Random) -> int:
    """Cuts an input file short."""
    del process
    file = rng.choice(sorted((folder / "in").iterdir()))
    os.truncate(file, rng.randrange(max(file.stat().st_size, 1)))
    return 1


KINDS: dict[str, Callable[[psutil.Process, Path, random.Random], int]] = {
    "nothing": _nothing,
    "kill": _kill,
    "storm": _kill,
    "corrupt": _corrupt,
    "cut": _cut,
    # The disk is full before the job begins.
    "full": _nothing,
}
