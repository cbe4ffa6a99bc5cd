"""Ends the wait of a thread that can do without the memory: an error instead of waiting for others to free some.

The store looks for room before it asks for help, and spills what it can. So the error means that only others could make
room, a tenth of a second after the thread has asked for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class NoRoomNowError(Exception):
    """There is no room now, and the thread does not wait for it."""


class Impatience:
    """The threads that do not wait."""

    def __init__(self) -> None:
        self._threads: set[int] = set()

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """A context in which this thread gets ``NoRoomNowError`` instead of waiting for others."""
        thread = threading.get_ident()
        self._threads.add(thread)
        try:
            yield
        finally:
            self._threads.remove(thread)

    def check(self) -> None:
        """Called while this thread waits for memory that only others can free."""
        if threading.get_ident() in self._threads:
            raise NoRoomNowError
