"""The memory and the CPUs that this machine has; no engine on it can be promised more memory."""

from __future__ import annotations

import os
from pathlib import Path

from exoshuffle.errors import OptionsError
from exoshuffle.units import format_bytes


def machine_bytes() -> int:
    """Returns the memory of the machine or, where smaller, of the control group."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def usable_cpus() -> int:
    """Returns how many CPUs this process may run on; all of them where the system does not tell (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_limit(limit: int) -> None:
    """Raises ``OptionsError`` if a memory limit is more than the machine has."""
    machine = machine_bytes()
    if limit > machine:
        raise OptionsError(
            f"memory limit {format_bytes(limit)} is more than the {format_bytes(machine)} that this machine has; "
            "set it to less, or leave it out"
        )
