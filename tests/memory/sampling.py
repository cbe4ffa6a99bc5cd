"""Watches from outside what processes keep resident."""

from __future__ import annotations

import sys
import threading

import psutil

SAMPLE_SECONDS = 0.01


PROGRAM = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]


def tree_bytes(process: psutil.Process) -> int:
    """Resident memory of a process and its descendants."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
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
