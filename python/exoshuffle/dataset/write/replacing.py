"""The system calls of a commit: exchanges two directories at once, brings names to disk, and holds back Ctrl-C."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
#: Errors of a kernel, a C library or a file system that does not know the call.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def exchange(one: Path, other: Path) -> bool:
    """Exchanges two directories in one step, so that neither name is ever missing.

    Returns:
        False if this system or file system cannot exchange them; nothing has changed then.

    Raises:
        OSError: The exchange is possible, but failed.
    """
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(other))


def put_beside(file: Path, place: Path) -> None:
    """Gives a file a name that no other file has, where the file system can tell; it may keep its own name as well.

    Raises:
        FileExistsError: Another file has the name.
    """
    try:
        os.link(file, place)  # a rename would replace a file that others made meanwhile
    except OSError as error:
        if error.errno not in (*_UNKNOWN, errno.EPERM):
            raise
        if os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place)) from None
        file.rename(place)


def sync(path: Path) -> None:
    """Waits until a file's bytes, or a directory's names, are on disk, where the file system can tell.

    Raises:
        OSError: The disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays Ctrl-C, and all other signals that Python handles, until the end of the block.

    Only the main thread gets signals, so in other threads this does nothing.
    """
    handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
    caught: list[tuple[int, FrameType | None]] = []
    if threading.current_thread() is threading.main_thread():
        for known in signal.valid_signals():
            handler = signal.getsignal(known)
            if callable(handler):
                handlers[known] = handler
    try:
        for number in handlers:
            signal.signal(number, lambda *arguments: caught.append(arguments))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in caught:
            handlers[number](number, frame)
