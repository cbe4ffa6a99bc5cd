"""Processes, as others see them."""

from __future__ import annotations

from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]


def is_running(pid: int) -> bool:
    """A zombie is not: who has adopted it may not care."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
