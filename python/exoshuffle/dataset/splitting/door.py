"""The door: a Unix socket by which other processes of this machine take their shares from a coordinator.

Guarantee: only processes of this user that know a random token come through. The socket lies in a folder of mode 0700
and has mode 0600. Both are removed when no consumer will come any more, and at the end of the program. A consumer whose
process ends before it has its shares is lost, because its connection ends: at once, or when its next share is sent.
Rows travel as one Arrow stream for each share.
"""

from __future__ import annotations

import atexit
import contextlib
import hmac
import json
import os
import pickle
import secrets
import socket
import struct
import tempfile
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from exoshuffle.dataset.splitting.coordinator import Asked, Coordinator, Share
from exoshuffle.dataset.splitting.socket_path import within_limit
from exoshuffle.engines.carrying import Carried
from exoshuffle.engines.owned_folders import OwnedFolder, sweep
from exoshuffle.errors import WorkerDiedError, shown

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: In front of each message: its length.
_LENGTH = struct.Struct("<Q")
#: Longest message that comes in at the door: a token, or what a consumer asks for.
_MAX_ASKED_BYTES = 1000
_BACKLOG = 1024
#: How the names of folders of doors begin.
_FOLDERS = "exoshuffle-door-"

_open_doors: weakref.WeakSet[Door] = weakref.WeakSet()


class Address(NamedTuple):
    """The address of a door.

    Attributes:
        path: The socket.
        token: The secret that a consumer has to know.
    """

    path: str
    token: str


class Door:
    """Serves consumers of other processes, each on a thread of its own.

    Args:
        coordinator: Whose shares are handed out.
        folder: An existing folder of mode 0700 for the socket; None for a new one, which goes with the door.
    """

    def __init__(self, coordinator: Coordinator, folder: str | None = None) -> None:
        self._coordinator = coordinator
        self._own_folder = _new_folder() if folder is None else None
        self.address = Address(
            os.path.join(
                folder or cast("OwnedFolder", self._own_folder).path, f"door-{secrets.token_hex(8)}"
            ),
            secrets.token_hex(16),
        )
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._process = os.getpid()
        self._is_closed = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with within_limit(self.address.path) as path:
            self._socket.bind(path)
        os.chmod(self.address.path, 0o600)
        self._socket.listen(_BACKLOG)
        _open_doors.add(self)
        threading.Thread(target=self._accept, name="exoshuffle-door", daemon=True).start()

    def close(self) -> None:
        """Lets nobody in any more, ends all connections, and removes the socket."""
        with self._lock:
            if self._is_closed or self._process != os.getpid():
                return
            self._is_closed = True
            connections = list(self._connections)
        _open_doors.discard(self)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            os.unlink(self.address.path)
        if self._own_folder is not None:
            self._own_folder.remove()

    def _accept(self) -> None:
        with self._socket:
            while True:
                try:
                    connection, _ = self._socket.accept()
                except OSError:
                    return
                threading.Thread(
                    target=self._serve, args=(connection,), name="exoshuffle-door", daemon=True
                ).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, EOFError, ValueError):
            with self._lock:
                if self._is_closed:
                    return
                self._connections.add(connection)
            try:
                token = _receive(connection, _MAX_ASKED_BYTES)
                if not hmac.compare_digest(token, self.address.token.encode()):
                    return
                self._answer(connection)
            finally:
                with self._lock:
                    self._connections.discard(connection)

    def _answer(self, connection: socket.socket) -> None:
        number: int | None = None
        try:
            while True:
                asked = json.loads(_receive(connection, _MAX_ASKED_BYTES))
                number = int(asked["consumer"])
                try:
                    head, rows = self._answered(number, asked)
                except Exception as error:  # noqa: BLE001  the consumer raises it
                    head, rows = pickle.dumps(Carried.of(error, pickle.dumps)), b""
                _send(connection, head)
                _send(connection, rows)
                del rows
        finally:
            if number is not None:
                self._coordinator.go(number, "ended")

    def _answered(self, number: int, asked: Mapping[str, Any]) -> tuple[bytes, Any]:
        """Returns the head of an answer, and its rows as an Arrow stream."""
        if "begin" in asked:
            self._coordinator.begin(number, Asked(*asked["begin"]))
        elif "step" in asked:
            share = self._coordinator.share(number, asked["step"])
            if share is not None:
                schema, stream = _as_stream(share.rows)
                return pickle.dumps((share.num_rows, schema)), stream
        else:
            self._coordinator.leave(number)
        return pickle.dumps(None), b""


class Caller:
    """A consumer's end of the connection to a door, which is made with the first request.

    Args:
        address: Where the door is.
        number: Number of the consumer.
    """

    def __init__(self, address: Address, number: int) -> None:
        self.address = address
        self._number = number
        self._socket: socket.socket | None = None

    def connect(self) -> socket.socket:
        """Returns the connection.

        Raises:
            WorkerDiedError: There is no door any more.
        """
        if self._socket is None:
            self._socket = self._connected(self.address)
        return self._socket

    def _connected(self, address: Address) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with within_limit(address.path) as path:
                connection.connect(path)
            _send(connection, address.token.encode())
        except OSError as error:
            connection.close()
            raise WorkerDiedError(
                f"{shown(address.path)} is no door to rows ({error.strerror}): the program that shares them has ended, "
                "or runs on another machine; consumers have to run beside it"
            ) from error
        weakref.finalize(self, connection.close).atexit = False
        return connection

    def begin(self, asked: Asked) -> None:
        """See ``Coordinator``."""
        self._ask(begin=asked)

    def share(self, step: int) -> Share | None:
        """See ``Coordinator``."""
        told, stream = self._ask(step=step)
        if told is None:
            return None
        num_rows, schema = told
        return Share(num_rows, _from_stream(stream, schema) if num_rows else None)

    def leave(self) -> None:
        """See ``Coordinator``. If nobody is behind the door any more, nobody waits for this consumer."""
        with contextlib.suppress(WorkerDiedError):
            self._ask()

    def close(self) -> None:
        """Ends the connection."""
        if self._socket is not None:
            self._socket.close()

    def __reduce__(self) -> tuple[type[Caller], tuple[Address, int]]:
        return Caller, (self.address, self._number)

    def _ask(self, **asked: object) -> tuple[Any, bytearray]:
        connection = self.connect()
        try:
            _send(connection, json.dumps({"consumer": self._number, **asked}).encode())
            head, stream = _receive(connection), _receive(connection)
        except (OSError, EOFError) as error:
            raise WorkerDiedError(
                "the program that shares rows among consumers has ended, or closed the iteration; begin all of them "
                "again, from their last state if any"
            ) from error
        told = pickle.loads(head)  # noqa: S301  written by the program that gave the address
        if isinstance(told, Carried):
            raise told.error()
        return told, stream


def _new_folder() -> OwnedFolder:
    parent = tempfile.gettempdir()
    sweep(parent, _FOLDERS)
    return OwnedFolder(parent, _FOLDERS)


def _send(connection: socket.socket, message: Buffer) -> None:
    view = memoryview(message)
    connection.sendall(_LENGTH.pack(view.nbytes))
    connection.sendall(view)


def _receive(connection: socket.socket, most: int | None = None) -> bytearray:
    """Returns a message.

    Raises:
        EOFError: The other end is gone.
        ValueError: The message is longer than ``most``.
    """
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if most is not None and length > most:
        raise ValueError(length)
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytearray:
    made = bytearray(length)
    view = memoryview(made)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            raise EOFError
        view = view[count:]
    return made


def _as_stream(rows: pa.RecordBatch | None) -> tuple[pa.Schema | None, Any]:
    """Returns rows as an Arrow stream, and their schema where they travel as other types.

    Views travel as text and bytes: an Arrow stream of 100 of them brought all 6 MB that they look into.
    """
    import pyarrow as pa

    if rows is None:
        return None, b""
    schema = None
    others = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    if any(kind in others for kind in rows.schema.types):
        schema = rows.schema
        rows = rows.cast(
            pa.schema([field.with_type(others.get(field.type, field.type)) for field in schema])
        )
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    return schema, out.getvalue()


def _from_stream(stream: bytearray, schema: pa.Schema | None) -> pa.RecordBatch:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        rows = reader.read_next_batch()
    return rows if schema is None else rows.cast(schema)


@atexit.register
def _close_all() -> None:
    for door in list(_open_doors):
        door.close()
