"""How much memory and how many CPUs this process may use, and what it uses already."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil

#: Share of the machine's memory that is used when no limit is given.
DEFAULT_SHARE = 0.7
#: Kept out of the budget: thread stacks, allocator slack, Python objects of the control plane.
#: A 4 GB sort peaks 20-35 MB above baseline + budget here.
SLACK_BYTES = 48_000_000
#: Below this no plan works; two tasks need two input windows, two output buffers and a block each.
MIN_BUDGET_BYTES = 48_000_000


def machine_bytes() -> int:
    """Memory of the machine or, where smaller, of the control group."""
    total = int(psutil.virtual_memory().total)
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def resident_bytes() -> int:
    """Resident memory of this process now."""
    return int(psutil.Process().memory_info().rss)


def default_spill_dir() -> str:
    """The system's temporary directory, or ``/var/tmp`` where that one is memory in disguise (tmpfs)."""
    folder = os.path.realpath(tempfile.gettempdir())
    mounts = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    while folder not in mounts and folder != "/":
        folder = os.path.dirname(folder)
    if mounts.get(folder) == "tmpfs" and os.access("/var/tmp", os.W_OK):  # noqa: S108  meant
        return "/var/tmp"  # noqa: S108
    return tempfile.gettempdir()


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))
