"""The path by which a Unix socket is bound and reached, however deep its folder lies.

Guarantee: the socket lies where it is wanted, so the rights of its folder protect it. A system call takes 107 bytes
of a socket's path, and folders for temporary files may be deeper. Such a folder is opened, and named by its number.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from exoshuffle.errors import OptionsError, shown

#: Bytes of a socket's path that a system call takes, on Linux; it is 103 elsewhere.
MAX_PATH_BYTES = 103
#: The folder of a process in which its open files have their numbers for names; Linux alone has it.
_OPEN_FILES = "/proc/self/fd"


@contextlib.contextmanager
def within_limit(path: str) -> Iterator[str]:
    """Gives a path of a socket that a system call takes, as long as the context lasts.

    Raises:
        OptionsError: The path is too long, and this system names no open folder.
        OSError: The folder is not there.
    """
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield path
        return
    if not os.path.isdir(_OPEN_FILES):
        raise OptionsError(
            f"the socket {shown(path)} has a path of {len(os.fsencode(path))} bytes, and the limit is "
            f"{MAX_PATH_BYTES}; set TMPDIR, or door= of the loader, to a shorter path"
        )
    folder, name = os.path.split(path)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{_OPEN_FILES}/{opened}/{name}"
    finally:
        os.close(opened)
