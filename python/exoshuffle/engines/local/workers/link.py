"""A worker's end of the connection to its engine, with the references and slices that this process has borrowed.

Guarantee: every reference and every slice that the engine lent is given back, once nothing here refers to it.
"""

from __future__ import annotations

import collections
import errno
import os
import pickle
import select
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from exoshuffle._native import ArenaView, MappedBlock, MappedSlice
from exoshuffle.engines.local.objects import identity, values
from exoshuffle.engines.local.workers import groups, wire


class BorrowedObject:
    """An object of the engine that this process has references to.

    ``lent`` counts how often the engine has sent it; the worker gives so many back when its last reference is gone.
    """

    __slots__ = ("__weakref__", "counter", "handles", "lent", "num_slices", "number")

    def __init__(self, counter: Link, number: int, num_slices: int) -> None:
        self.counter = counter
        self.number = number
        self.num_slices = num_slices
        self.handles = 0
        self.lent = 0

    def add_handle(self) -> None:
        """See ``ObjectHandle``."""
        self.counter.handle_events.append((self, +1))

    def drop_handle(self) -> None:
        """See ``ObjectHandle``."""
        self.counter.handle_events.append((self, -1))

    def __reduce__(self) -> tuple[Callable[[int], identity.Handle], tuple[int]]:
        return identity.reduce(self)

    def __repr__(self) -> str:
        return f"object {self.number}"


class Link:
    """The connection to the engine, and what this process has borrowed.

    Handle counts are queued, since ``Ref.__del__`` runs at any moment in any thread. Whenever something is sent, the
    counts are applied, and the link gives back what nobody here holds any more.
    """

    def __init__(self, connection: Connection, arena: ArenaView) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._arena = arena
        self._objects: dict[int, BorrowedObject] = {}
        self.handle_events: collections.deque[tuple[BorrowedObject, int]] = collections.deque()
        self._unpinned: collections.deque[int] = collections.deque()
        #: Slices and pickles that came behind the last frame, until their values are made.
        self._came: dict[int, memoryview] = {}
        #: Blocks that no task returned.
        self.discarded: list[int] = []
        #: Streams that nobody here takes items of any more.
        self.dropped_streams: collections.deque[int] = collections.deque()

    def is_idle(self, milliseconds: int) -> bool:
        """Whether nothing comes for so long."""
        return not self._poll.poll(milliseconds)

    def comes_before_end_of(self, server: int) -> bool:
        """Waits until something comes or a process ends, by its descriptor; returns whether something has come."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(server, select.POLLIN)
        found = dict(poll.poll())
        return self._connection.fileno() in found

    def receive(self) -> tuple[str, Any]:
        """Waits for the next message; ends the process when the engine has gone. Its kind says what it holds."""
        try:
            lent, sizes, body = pickle.loads(self._connection.recv_bytes())  # noqa: S301  written by our engine
            self._came = {number: self._bytes(size) for number, size in enumerate(sizes)}
        except (EOFError, OSError) as error:
            _end(error)
        held = [self._borrow(number, num_slices) for number, num_slices in lent]
        kind, payload = pickle.loads(body)  # noqa: S301  written by our engine
        # References inside values are made when the values are decoded; until the next frame is sent all are held.
        self.handle_events.extend((borrowed, -1) for borrowed in held)
        return kind, payload

    def send(self, kind: str, payload: object) -> None:
        """Sends a message, and gives back what nobody here holds any more."""
        self.send_packed(self.pack(kind, payload))

    def pack(self, kind: str, payload: object) -> bytes:
        """Returns a message as bytes. Its references can go before it is sent, so that the frame gives them back."""
        with identity.Capturing():
            return pickle.dumps((kind, payload), protocol=5)

    def send_packed(self, body: bytes) -> None:
        """Sends a message that ``pack`` made."""
        unpinned, dropped = _taken(self._unpinned), _taken(self.dropped_streams)
        discarded, self.discarded = self.discarded, []
        frame = pickle.dumps((body, self._given_back(), unpinned, discarded, dropped), protocol=5)
        try:
            self._connection.send_bytes(frame)
        except OSError as error:
            _end(error)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def value(self, transfer: wire.Transfer) -> object:
        """Returns the value of a transfer; large buffers are views of the engine's memory."""
        buffers = [self._buffer(piece) for piece in transfer.slices]
        return values.assemble(transfer.stored, transfer.num_slices, transfer.index, buffers)

    def came(self, number: int) -> memoryview:
        """Hands over what came behind the frame under this number."""
        return self._came.pop(number)

    def block(self, pieces: Sequence[tuple[int, int]]) -> MappedBlock:
        """Maps a block to fill."""
        return self._arena.block(pieces)

    def _bytes(self, size: int) -> memoryview:
        """Receives a slice that came behind a frame."""
        received = bytearray(size)
        at = 0
        while at < size:
            at += self._connection.recv_bytes_into(received, at)
        return memoryview(received).toreadonly()

    def _buffer(self, piece: wire.Piece) -> MappedSlice | memoryview:
        if isinstance(piece, int):
            return self.came(piece)
        pin, pieces = piece
        mapped = self._arena.slice(pieces)
        weakref.finalize(mapped, self._unpinned.append, pin).atexit = False
        return mapped

    def _borrow(self, number: int, num_slices: int) -> BorrowedObject:
        borrowed = self._objects.get(number)
        if borrowed is None:
            borrowed = self._objects[number] = BorrowedObject(self, number, num_slices)
            identity.know(borrowed)
        borrowed.lent += 1
        borrowed.add_handle()
        return borrowed

    def _given_back(self) -> list[tuple[int, int]]:
        touched: dict[int, BorrowedObject] = {}
        for _ in range(len(self.handle_events)):
            borrowed, change = self.handle_events.popleft()
            borrowed.handles += change
            touched[borrowed.number] = borrowed
        gone = [borrowed for borrowed in touched.values() if borrowed.handles == 0]
        for borrowed in gone:
            self._objects.pop(borrowed.number, None)
        return [(borrowed.number, borrowed.lent) for borrowed in gone]


def _end(error: BaseException) -> NoReturn:
    """Ends this process: the engine has gone, or something here has closed the connection to it."""
    if getattr(error, "errno", None) in (errno.EBADF, errno.ENOTSOCK):
        # This exit code shows that nobody outside ended the worker; the fork server ends what the worker has started.
        os._exit(wire.EXIT_CLOSED)
    groups.end_own()


def _taken(queue: collections.deque[int]) -> list[int]:
    """Takes what is in the queue now; finalizers may add to it at any moment."""
    return [queue.popleft() for _ in range(len(queue))]
