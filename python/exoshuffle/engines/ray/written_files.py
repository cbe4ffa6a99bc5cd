"""Counts the bytes of files that other processes write to a folder, however soon the files are deleted.

Linux tells of each file when its writer closes it. A look at the folder now and then would miss files. Ray deletes what
it has spilled once nobody wants it any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import threading

#: From ``sys/inotify.h``: a file that was open for writing was closed.
_CLOSED_AFTER_WRITING = 0x8
#: An event: the watch, what happened, two fields of no use here, the bytes of the name behind.
_EVENT = struct.Struct("iIII")
#: Room for some hundred events.
_READ_BYTES = 65_536


class WrittenFiles:
    """The files that are written to a folder from now on.

    Args:
        folder: The folder.

    Raises:
        OSError: The kernel watches as many folders for this user as it may.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.fsencode(folder)
        self._lock = threading.Lock()
        self._num_bytes = 0
        self._events = _watch(self._folder)
        self._closing = os.eventfd(0, os.EFD_CLOEXEC)
        # Sizes have to be asked for at once, before the files may be gone. A program that closes nothing must end, too.
        self._thread = threading.Thread(
            target=self._run, name="exoshuffle-written-files", daemon=True
        )
        self._thread.start()

    def num_bytes(self) -> int:
        """Returns the bytes of all files that were closed so far."""
        with self._lock:
            self._count()
            return self._num_bytes

    def close(self) -> None:
        """Ends the thread."""
        os.eventfd_write(self._closing, 1)
        self._thread.join()
        os.close(self._events)
        os.close(self._closing)

    def _run(self) -> None:
        waiting = select.poll()
        waiting.register(self._events, select.POLLIN)
        waiting.register(self._closing, select.POLLIN)
        while all(found != self._closing for found, _ in waiting.poll()):
            with self._lock:
                self._count()

    def _count(self) -> None:
        """Adds the files whose end has been told; called with the lock held."""
        with contextlib.suppress(BlockingIOError):
            while True:
                told = os.read(self._events, _READ_BYTES)
                while told:
                    *_, length = _EVENT.unpack_from(told)
                    end = _EVENT.size + length
                    self._add(told[_EVENT.size : end].rstrip(b"\0"))
                    told = told[end:]

    def _add(self, name: bytes) -> None:
        if name:  # else it is the folder that is gone
            with contextlib.suppress(FileNotFoundError):
                self._num_bytes += os.stat(os.path.join(self._folder, name)).st_size


def _watch(folder: bytes) -> int:
    """Returns a descriptor that tells of files in the folder that were written."""
    library = ctypes.CDLL(None, use_errno=True)
    events: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if events < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    if library.inotify_add_watch(events, folder, _CLOSED_AFTER_WRITING) < 0:
        os.close(events)
        raise OSError(ctypes.get_errno(), "inotify_add_watch")
    return events
