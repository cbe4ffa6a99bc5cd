"""Hidden siblings of an output, in which it is made: their names, their locks, and those of killed runs.

A run holds the lock of its sibling, which ends with the run. So another run can tell whether a sibling is left over.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

#: Part of the name of a result that is being replaced by two renames.
REPLACED = "replaced-"
#: Names have at most 255 bytes, and the names of hidden siblings need some of these for their prefix and suffix.
LONG_NAME_BYTES = 200


def hidden_sibling(path: Path, kind: str = "") -> Path:
    """Returns the path of a new hidden sibling."""
    return path.parent / f"{_prefix(path)}{kind}{os.urandom(6).hex()}"


def _prefix(path: Path) -> str:
    """Returns the beginning of the names of hidden siblings."""
    name = os.fsencode(path.name)
    if len(name) > LONG_NAME_BYTES:  # with a prefix and suffix it may be too long
        return f".{hashlib.sha256(name).hexdigest()}.exoshuffle-"
    return f".{path.name}.exoshuffle-"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a directory, which stays with it when it is moved; ``OSError`` if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def put_back(path: Path) -> None:
    """Puts back a result that a killed run moved aside and did not replace."""
    if os.path.lexists(path):
        return
    for hidden in path.parent.glob(glob.escape(_prefix(path) + REPLACED) + "*"):
        with contextlib.suppress(OSError), locked(hidden):
            hidden.rename(path)
            return


def remove_leftovers(path: Path) -> None:
    """Removes the hidden siblings of killed runs."""
    for leftover in path.parent.glob(glob.escape(_prefix(path)) + "*"):
        with contextlib.suppress(OSError), locked(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
