"""The memory that the program has resident, and the most that it has had."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def peak_resident_bytes() -> int:
    """Returns the highest resident memory of this process so far.

    Linux keeps it per address space. ``ru_maxrss``, which other systems have too, begins with that of the parent.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        status = ""
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    kilobytes = int(peak[1]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * 1024


def private_bytes(process: int) -> int:
    """Returns the resident memory of a process that is in no file and shared with no other; 0 if nobody can tell."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()


def current_resident_bytes() -> int:
    """Returns the resident memory of this process now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # other systems; importing this takes 20 ms
        import psutil

        return int(psutil.Process().memory_info().rss)
    return pages * resource.getpagesize()
