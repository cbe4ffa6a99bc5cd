"""Runs one program and says how long it took and how much memory its whole process tree held.

Guarantee: the time is that of the whole process, from its start to its exit, and again until its output is on disk
(``sync``), because an engine that leaves its output in the page cache has not written it yet. The peak is the largest
sum of resident memory over the tree at one moment, sampled every 20 ms, or what the kernel recorded for the largest
single process if that is more. Shared pages count once per process that has them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

SAMPLE_SECONDS = 0.02
#: Looking for new child processes reads all of /proc; once in ten samples costs the measured program nothing.
SAMPLES_PER_SCAN = 10


@dataclass(frozen=True)
class Measurement:
    """What one run took.

    Attributes:
        exit_code: 0 for success.
        seconds: From start to exit.
        synced_seconds: From start until everything written is on disk.
        peak_bytes: Peak resident memory of the process tree.
        output: What the program printed on standard output.
        errors: What it printed on standard error.
    """

    exit_code: int
    seconds: float
    synced_seconds: float
    peak_bytes: int
    output: str
    errors: str


def measure(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Measurement:
    """Runs a program to its end; nothing that an earlier program wrote is still on its way to disk.

    Args:
        command: Program and arguments.
        environment: Variables to set beside those of this process.
    """
    os.sync()
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    sampler = _TreeSampler(process.pid)
    sampler.start()
    output, errors, largest = _drain(process)
    seconds = time.perf_counter() - started
    sampler.stop()
    os.sync()
    return Measurement(
        exit_code=process.returncode,
        seconds=seconds,
        synced_seconds=time.perf_counter() - started,
        peak_bytes=max(sampler.peak_bytes, largest),
        output=output,
        errors=errors,
    )


def _drain(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    """Reads both streams to their end and reaps the process; also the kernel's own peak of one process."""
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[str] = []
    stderr = process.stderr
    reader = threading.Thread(target=lambda: errors.append(stderr.read()))
    reader.start()
    output = process.stdout.read()
    reader.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    return output, "".join(errors), usage.ru_maxrss * 1024


class _TreeSampler(threading.Thread):
    """Adds up the resident memory of a process and its descendants until told to stop."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._root = psutil.Process(pid)
        self._ended = threading.Event()

    def run(self) -> None:
        """Samples until ``stop``."""
        tree: list[psutil.Process] = []
        num_samples = 0
        while not self._ended.wait(SAMPLE_SECONDS):
            if num_samples % SAMPLES_PER_SCAN == 0:
                tree = self._scan()
            num_samples += 1
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident_bytes, tree)))

    def stop(self) -> None:
        """Ends sampling."""
        self._ended.set()
        self.join()

    def _scan(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def _resident_bytes(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def last_lines(text: str, num_lines: int = 3) -> str:
    """The end of a program's messages, for an error."""
    return " | ".join(text.strip().splitlines()[-num_lines:])


def require_success(command: Sequence[str], result: Measurement) -> Measurement:
    """The result again; ends this program with the failed one's last words if it failed."""
    if result.exit_code != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.exit_code}: {last_lines(result.errors)}")
    return result
