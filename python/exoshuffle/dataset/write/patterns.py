"""Whether a pattern of paths would find a path that does not exist yet."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Sequence
from pathlib import Path


def finds(pattern: str, path: Path) -> bool:
    """Whether ``pattern`` (``*``, ``?``, ``[...]``, and ``**`` for directories in any depth) would match ``path``.

    Args:
        pattern: As ``read_parquet`` takes it, absolute or not.
        path: Absolute, without links.
    """
    parts = Path(pattern).parts
    plain = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    folder = Path(os.path.realpath(os.path.join(*parts[:plain]) if plain else ""))
    if not path.is_relative_to(folder):
        return False
    return _match(path.relative_to(folder).parts, parts[plain:])


def _match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_match(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(
        parts and fnmatch.fnmatchcase(parts[0], pattern[0]) and _match(parts[1:], pattern[1:])
    )
