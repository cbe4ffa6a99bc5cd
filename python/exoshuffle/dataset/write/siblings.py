"""Hidden siblings of an output, in which it is made: their names, their locks, and those of killed runs.

A run holds the lock of its sibling, which ends with the run. So another run can tell whether a sibling is left over.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator

from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import replacing

#: Part of the name of a result that is being replaced by two renames.
REPLACED = "replaced-"
#: Names have at most 255 bytes, and the names of hidden siblings need some of these for their prefix and suffix.
LONG_NAME_BYTES = 200


def hidden_sibling(path: StoredPath, kind: str = "") -> StoredPath:
    """Returns the path of a new hidden sibling."""
    return path.parents[0] / f"{_prefix(path)}{kind}{os.urandom(6).hex()}"


@contextlib.contextmanager
def locked(folder: StoredPath) -> Iterator[None]:
    """Holds the lock of a directory, which stays with it when it is moved; ``OSError`` if another process has it."""
    lock = folder.lock()
    try:
        yield
    finally:
        lock.release()


def put_back(path: StoredPath) -> None:
    """Puts back a result that a killed run moved aside and did not replace."""
    if path.kind() is not None:
        return
    for hidden in _siblings(path, REPLACED):
        with contextlib.suppress(OSError), locked(hidden):
            replacing.rename(hidden, path)
            return


def remove_leftovers(path: StoredPath) -> None:
    """Removes the hidden siblings of killed runs."""
    for leftover in _siblings(path):
        with contextlib.suppress(OSError), locked(leftover):
            replacing.remove_all(leftover)


def _siblings(path: StoredPath, kind: str = "") -> list[StoredPath]:
    """Returns the hidden siblings; none where the directory cannot be listed."""
    folder, prefix = path.parents[0], _prefix(path) + kind
    with contextlib.suppress(OSError):
        return [folder / name for name in folder.names() if name.startswith(prefix)]
    return []


def _prefix(path: StoredPath) -> str:
    """Returns the beginning of the names of hidden siblings."""
    name = os.fsencode(path.name)
    if len(name) > LONG_NAME_BYTES:  # with a prefix and suffix it may be too long
        return f".{hashlib.sha256(name).hexdigest()}.exoshuffle-"
    return f".{path.name}.exoshuffle-"
