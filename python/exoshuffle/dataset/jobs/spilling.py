"""Refuses a job, before its first task, for whose spilled bytes the disks have no room."""

from __future__ import annotations

from exoshuffle.errors import DiskFullError
from exoshuffle.futures import Engine
from exoshuffle.observe.disks import free_bytes
from exoshuffle.units import format_bytes


def check_disk(engine: Engine, name: str, spilled_bytes: int) -> None:
    """Compares what a job will spill with the room in the spill directories.

    Args:
        engine: The engine that spills.
        name: The operator.
        spilled_bytes: About how much the job will spill.

    Raises:
        DiskFullError: There is less room.
    """
    directories = engine.spill_dirs
    free = free_bytes(directories)
    if free is not None and spilled_bytes > free:
        raise DiskFullError(
            f"{name} will spill about {format_bytes(spilled_bytes)}, and {', '.join(directories)} has "
            f"{format_bytes(free)} free; name spill_dirs with more room, or raise memory_limit"
        )
