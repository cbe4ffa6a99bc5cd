"""Runs one program and reports how long it took and how much memory its whole process tree held.

Guarantee: one time is that of the whole process, from its start to its exit; the other lasts until its output is on
disk (``sync``). An engine that leaves its output in the page cache has not written it yet. The peak is the largest sum
of resident memory over the tree at one moment, sampled every 20 ms. If the kernel's high-water mark of the largest
single process (``VmHWM``, read at the same moments) is larger, the peak is that. Shared pages count once per process
that has them. Processor time is that of the program, and of those of its processes that it has waited for. Programs
may keep their bytecode, as installed ones do.

Why not ``ru_maxrss``: it begins with the peak of the process that started the program, which is this one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.02
#: Looking for new child processes reads all of /proc; once in ten samples costs the measured program nothing.
SAMPLES_PER_SCAN = 10


@dataclass(frozen=True)
class Measurement:
    """The measurements of one run.

    Attributes:
        exit_code: 0 for success.
        seconds: From start to exit.
        synced_seconds: From start until everything written is on disk.
        peak_bytes: Peak resident memory of the process tree.
        output: The program's standard output.
        errors: The program's standard error.
        cpu_seconds: Processor time, of user and system.
    """

    exit_code: int
    seconds: float
    synced_seconds: float
    peak_bytes: int
    output: str
    errors: str
    cpu_seconds: float = 0.0


def measure(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float | None = None,
) -> Measurement:
    """Runs a program to its end, after everything that earlier programs wrote is on disk.

    Args:
        command: Program and arguments.
        environment: Variables to set beside those of this process.
        timeout_seconds: A program that takes longer is killed with its descendants; ``errors`` says so.
    """
    os.sync()
    before = _cpu_seconds()
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        env={**_inherited(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    sampler = _TreeSampler(process.pid)
    sampler.start()
    output, errors = _finish(process, timeout_seconds)
    seconds = time.perf_counter() - started
    sampler.stop()
    os.sync()
    return Measurement(
        exit_code=process.returncode,
        seconds=seconds,
        synced_seconds=time.perf_counter() - started,
        peak_bytes=sampler.peak_bytes,
        output=output,
        errors=errors,
        cpu_seconds=_cpu_seconds() - before,
    )


def _inherited() -> dict[str, str]:
    """Returns the variables of this process but the one that has a checkout compiled anew in each run.

    The 335 modules of a group-by of 10,000 rows took 0.28 s of 0.60 s of CPU so.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _finish(process: subprocess.Popen[str], timeout_seconds: float | None) -> tuple[str, str]:
    """Returns what the program has written until its end, or until it was killed."""
    try:
        return process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        root = psutil.Process(process.pid)
        for each in (*root.children(recursive=True), root):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        output, errors = process.communicate()
        return output, f"{errors}\nstopped after {timeout_seconds:g} s"


def _cpu_seconds() -> float:
    """Returns the processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _TreeSampler(threading.Thread):
    """Watches the resident memory of a process and its descendants until told to stop."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._root = psutil.Process(pid)
        self._ended = threading.Event()

    def run(self) -> None:
        """Samples until ``stop``."""
        tree: list[int] = []
        for number in itertools.count():
            if number % SAMPLES_PER_SCAN == 0:
                tree = self.scan()
            self.sample(tree)
            if self._ended.wait(SAMPLE_SECONDS):
                return

    def stop(self) -> None:
        """Ends sampling."""
        self._ended.set()
        self.join()

    def scan(self) -> list[int]:
        """Returns the processes of the tree."""
        with contextlib.suppress(psutil.NoSuchProcess):
            descendants = self._root.children(recursive=True)
            return [self._root.pid, *(process.pid for process in descendants)]
        return []

    def sample(self, tree: Sequence[int]) -> None:
        """Measures every process once."""
        found = [_memory_bytes(pid) for pid in tree]
        largest = max((peak for _, peak in found), default=0)
        self.peak_bytes = max(self.peak_bytes, largest, sum(resident for resident, _ in found))


def _memory_bytes(pid: int) -> tuple[int, int]:
    """Returns the resident memory of a process, and the most that it ever had; zeros if it has ended."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        kilobytes = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", status, re.MULTILINE))
        return int(kilobytes.get("VmRSS", 0)) * 1024, int(kilobytes.get("VmHWM", 0)) * 1024
    return 0, 0


def last_lines(text: str, num_lines: int = 3) -> str:
    """Returns the end of a program's messages, for an error."""
    return " | ".join(text.strip().splitlines()[-num_lines:])


def require_success(command: Sequence[str], result: Measurement) -> Measurement:
    """Returns the result; if the program failed, ends this one with its last words."""
    if result.exit_code != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.exit_code}: {last_lines(result.errors)}")
    return result
