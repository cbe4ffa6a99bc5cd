"""The memory that the processes of a Ray have taken that was started here. Ray itself does not tell it.

Nor does it tell how much it has spilled, unless a client of gRPC is installed, which Ray alone does not bring.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
from ray._private import worker as ray_worker

_LINES = re.compile(r"^(VmHWM|RssFile|RssShmem):\s+(\d+) kB", re.MULTILINE)


def processes_peak_bytes() -> int:
    """Returns the most that the processes of the Ray that was started here have taken, each at its own time.

    The object store and libraries count once: their pages are part of every process that reads them.
    """
    peaks = list(_own_and_shared_bytes())
    return sum(own for own, _ in peaks) + max((shared for _, shared in peaks), default=0)


def _own_and_shared_bytes() -> Iterator[tuple[int, int]]:
    for process in _processes():
        # The file of a process that has just ended lacks these lines, or is gone.
        with contextlib.suppress(OSError, KeyError):
            text = Path(f"/proc/{process}/status").read_text()
            kilobytes = {name: int(number) for name, number in _LINES.findall(text)}
            shared = kilobytes["RssFile"] + kilobytes["RssShmem"]
            yield 1024 * max(0, kilobytes["VmHWM"] - shared), 1024 * shared


def _processes() -> Iterator[int]:
    for infos in ray_worker._global_node.all_processes.values():
        for info in infos:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(info.process.pid)
                yield process.pid
                yield from (child.pid for child in process.children(recursive=True))
