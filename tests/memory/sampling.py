"""Watches from outside what processes keep resident."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.01


PROGRAM = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]


def family(process: psutil.Process) -> list[psutil.Process]:
    """Returns a process and its descendants.

    Each thread lists its children. psutil asks all processes of the machine for their parents: 2.8 ms of processor time
    instead of 0.2, of 135 processes.
    """
    found = [process]
    for member in found:
        with contextlib.suppress(OSError, psutil.NoSuchProcess):  # ended since
            for thread in os.listdir(f"/proc/{member.pid}/task"):
                children = Path(f"/proc/{member.pid}/task/{thread}/children").read_text().split()
                found += [psutil.Process(int(child)) for child in children]
    return found


def tree_bytes(process: psutil.Process) -> int:
    """Resident memory of a process and its descendants."""
    total = 0
    for member in family(process):
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


class Sampler(threading.Thread):
    """Watches a process until it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.process = psutil.Process(pid)
        self.peak_bytes = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(SAMPLE_SECONDS):
            try:
                self.peak_bytes = max(self.peak_bytes, tree_bytes(self.process))
            except psutil.NoSuchProcess:
                return
