"""Runs a program as a process of its own and measures the resident memory of it and its workers."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import subprocess
import sys

import psutil

from tests.memory.sampling import SAMPLE_SECONDS, family

#: The system call that compares the memory of two processes, where it is known: ``kcmp(2)``.
_KCMP = {"x86_64": 312, "aarch64": 272}
_KCMP_VM = 1


def measured(program: str, *arguments: str) -> tuple[str, int]:
    """Returns the output of a program, which must succeed, and the most that its processes had resident together."""
    peak_bytes = 0
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        process = psutil.Process(running.pid)
        while not _ends_within(running, SAMPLE_SECONDS):
            with contextlib.suppress(psutil.Error):
                peak_bytes = max(peak_bytes, shared_out_bytes(process))
        out, err = running.communicate()
    assert running.returncode == 0, err.decode()
    return out.decode(), peak_bytes


def _ends_within(running: subprocess.Popen[bytes], seconds: float) -> bool:
    """Waits between looks: one after the other they took as much processor time as the program."""
    try:
        running.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def shared_out_bytes(process: psutil.Process) -> int:
    """Resident memory of a process and its descendants, what several have shared out among them.

    A worker has the libraries and the blocks in common with the program, so a sum of resident sizes would count them
    once for each.
    """
    found = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        for member in family(process):
            with contextlib.suppress(psutil.NoSuchProcess):
                if not _is_in_memory_of_parent(member):
                    found[member] = member.memory_full_info().pss
    # A look takes some 10 ms. A process that has ended since was perhaps not there together with those that were read
    # last.
    return sum(size for member, size in found.items() if _is_there(member))


def _is_in_memory_of_parent(process: psutil.Process) -> bool:
    """Whether a process was started just now, and has no memory of its own before it runs its program.

    All memory of the parent counted twice without this: on a busy machine one look in some thousand found 96 MB more.
    """
    call = _KCMP.get(platform.machine())
    if call is None:
        return False
    return bool(ctypes.CDLL(None).syscall(call, process.pid, process.ppid(), _KCMP_VM, 0, 0) == 0)


def _is_there(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.memory_info().rss)
    return False
