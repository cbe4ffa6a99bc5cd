"""The files that were written."""

from __future__ import annotations

from pathlib import Path


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("part-*")}
