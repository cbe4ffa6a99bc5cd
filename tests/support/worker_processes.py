"""Which processes of a program are its workers: those that its fork servers have forked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil


def worker_processes(program: psutil.Process | None = None) -> list[psutil.Process]:
    """The workers of a program (this one), in the order in which they started."""
    servers = (program or psutil.Process()).children()
    return _by_age(child for server in servers for child in _children(server))


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children()
    return []


def _by_age(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    aged = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            aged.append((process.create_time(), process.pid, process))
    return [process for _, _, process in sorted(aged)]
