"""Temporary folders of a program, and the removal of those whose program was killed.

Guarantee: a folder goes when its program removes it. If the program was killed, the next sweep removes the folder and
what is in it.

Each folder has a file that its program keeps locked. The system lets go of the lock when the program is gone, however
it ended. So a folder whose lock is free belongs to nobody. The number of a process would not tell: numbers come back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

#: In front of a folder's name until it is locked, so that nobody takes it for one without an owner.
_UNLOCKED = ".new-"
_LOCK = "owner"


class OwnedFolder:
    """A new folder of this program.

    Args:
        parent: Where to make it.
        prefix: How its name begins.

    Attributes:
        path: The folder.
    """

    def __init__(self, parent: str, prefix: str) -> None:
        made = Path(tempfile.mkdtemp(prefix=_UNLOCKED + prefix, dir=parent))
        self._lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = str(made.rename(made.with_name(made.name.removeprefix(_UNLOCKED))))

    def remove(self) -> None:
        """Removes the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def sweep(parent: str, prefix: str, made_again: str | None = None) -> None:
    """Removes the folders of programs that are gone, of this prefix; leaves what belongs to other users.

    Args:
        parent: Where to look.
        prefix: How their names begin.
        made_again: Processes may outlive the program by seconds, and make this in its folder after a sweep. So a folder
            with it has no owner, although the locked file is missing.
    """
    for folder in Path(parent).glob(prefix + "*"):
        with contextlib.suppress(OSError):  # somebody else has removed it, or may not be disturbed
            if not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                _remove_unowned(folder, made_again)


def _remove_unowned(folder: Path, made_again: str | None) -> None:
    is_left = made_again is not None and os.path.lexists(folder / made_again)
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if is_left else 0), 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
