"""The steps of a commit, each of which happens or not; and Ctrl-C, which is held back between them.

Why functions around calls of ``StoredPath``: tests make each step fail, or interrupt the program beside it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from exoshuffle._native import StoredPath

#: Errors of a kernel or a storage that has no second names.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def exchange(one: StoredPath, other: StoredPath) -> bool:
    """Exchanges two directories in one step, so that neither name is ever missing.

    Returns:
        False if this system or storage cannot exchange them; nothing has changed then.

    Raises:
        OSError: The exchange is possible, but failed.
    """
    return one.exchange(other)


def rename(one: StoredPath, place: StoredPath) -> None:
    """Gives a directory or a file its place, in one step."""
    one.rename(place)


def link(file: StoredPath, place: StoredPath) -> None:
    """Gives a file a second name, which must be new."""
    file.link(place)


def put_beside(file: StoredPath, place: StoredPath) -> None:
    """Gives a file a name that no other file has, where the storage can tell; it may keep its own name as well.

    Raises:
        FileExistsError: Another file has the name.
    """
    try:
        link(file, place)  # a rename would replace a file that others made meanwhile
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        if place.kind() is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place)) from None
        rename(file, place)


def remove_all(folder: StoredPath) -> None:
    """Removes a hidden directory; what cannot be removed stays for the next run to the same place."""
    with contextlib.suppress(OSError):
        folder.remove_all()


def sync(path: StoredPath) -> None:
    """Waits until a file's bytes, or a directory's names, are on disk, where the storage can tell.

    Raises:
        OSError: The disk failed.
    """
    path.sync()


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
