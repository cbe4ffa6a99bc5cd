"""The fork servers of an engine, from which its worker processes come; see ``fork_server``.

Guarantees: a worker has the environment, folder, paths and outputs that the program has when the worker starts. A
worker whose server has ended goes on with its task, and its end is seen. One server is enough until one is ended from
outside. From then on a second stands by, since a server takes 0.1 to 0.3 s to start. A third does if a server was ended
before it was ready. None does before its memory is set apart (``room``).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from exoshuffle._native import MemoryGuard
from exoshuffle.engines import allocators
from exoshuffle.engines.local.workers import endings, forks, groups, preloading, wire
from exoshuffle.engines.local.workers.room import WorkersRoom
from exoshuffle.errors import ClosedError, WorkerDiedError

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from exoshuffle.engines.local.workers.fork_server import main; main()"
)
_LOOK_SECONDS = 0.001


class Forked:
    """A process that a server has forked, as ``subprocess.Popen`` shows one."""

    def __init__(self, server: Server, pid: int, told: int) -> None:
        self.pid = pid
        #: Whether its server has ended before it, so that nobody knows how it ends.
        self.is_orphan = False
        self._server = server
        self._told = told
        # The open file stays that of this process when another process gets its number.
        self._stat: int | None = None
        # The process may have been killed before anybody looks at it.
        with contextlib.suppress(FileNotFoundError):
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        self._looking = threading.Lock()
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, if the process has ended; for an orphan the exit code of a kill."""
        if not self._looking.acquire(blocking=False):
            return None  # somebody waits for its end
        try:
            return self._polled()
        finally:
            self._looking.release()

    def wait(self) -> int:
        """Waits until the process, and with it its use of the store's memory, has ended; returns the exit code."""
        with self._looking:
            if self._exit_code is None and not self.is_orphan:
                self._hear()
            while (code := self._polled()) is None:
                time.sleep(_LOOK_SECONDS)
            return code

    def kill(self) -> None:
        """Ends the process, if it has not ended, and the processes that it has started."""
        if self.poll() is None:
            groups.end(self.pid)
            # A process that was just forked leads no group yet. It may end meanwhile.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _polled(self) -> int | None:
        if self._exit_code is None and not self.is_orphan:
            poll = select.poll()
            poll.register(self._told, select.POLLIN)
            if poll.poll(0):
                self._hear()
        if self._exit_code is None and self.is_orphan and self._has_ended():
            self._end(-signal.SIGKILL)
        return self._exit_code

    def _hear(self) -> None:
        told = os.read(self._told, wire.EXIT_CODE.size)
        if told:
            self._end(*wire.EXIT_CODE.unpack(told))
        else:
            self.is_orphan = True

    def _has_ended(self) -> bool:
        if self._stat is None:
            return True
        try:
            state, *fields = os.pread(self._stat, 1024, 0).rpartition(b")")[2].split()
        except ProcessLookupError:
            return True
        return state in b"ZX" and int(fields[16]) <= 1  # no further threads

    def _end(self, exit_code: int) -> None:
        self._exit_code = exit_code
        os.close(self._told)
        if self._stat is not None:
            os.close(self._stat)
        self._server.children.discard(self)


@dataclass(frozen=True)
class Surroundings:
    """Properties that a process gets from the process that starts it."""

    environment: dict[str, str]
    path: list[str]
    folder: tuple[int, int] | None
    outputs: tuple[tuple[int, int] | None, ...]

    @classmethod
    def now(cls) -> Surroundings:
        """Returns the surroundings of this process."""
        return cls(
            allocators.environment(), list(sys.path), _identity("."), (_identity(1), _identity(2))
        )


def _identity(file: int | str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Server:
    """One fork server."""

    def __init__(self, surroundings: Surroundings, guard: MemoryGuard) -> None:
        import socket
        import subprocess

        self.surroundings = surroundings
        self._guard = guard
        self.children: set[Forked] = set()
        self.is_ready = False
        #: Whether it starts workers anew, because its site has threads; these share no modules with it.
        self.starts_anew = False
        self._turn = threading.Lock()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        forks.tell_children(self)
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603  this interpreter
                [
                    *(sys.executable, "-c", _START, json.dumps(surroundings.path)),
                    *(str(theirs.fileno()), json.dumps(preloading.modules())),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=surroundings.environment,
                # Otherwise Ctrl-C would hit the server.
                start_new_session=True,
            )
        with contextlib.suppress(OSError):  # if it has ended, its first message tells
            guard.count(self.process.pid)

    def fork(self, descriptors: Sequence[int], modules: Sequence[str]) -> Forked:
        """Forks a worker process, which gets copies of the descriptors, from a server that has these modules.

        Raises:
            WorkerDiedError: The server has ended.
            OSError: The system has no room for another process.
        """
        told, theirs = os.pipe()
        try:
            with self._turn:
                process = int(self._ask(json.dumps(modules), [*descriptors, theirs]))
        except BaseException:
            os.close(told)
            raise
        finally:
            os.close(theirs)
        if process < 0:
            os.close(told)
            raise OSError(-process, os.strerror(-process))
        forked = Forked(self, process, told)
        self.children.add(forked)
        return forked

    def await_ready(self) -> None:
        """Waits until the server can fork. One thread at a time may wait: the server says it once.

        Raises:
            WorkerDiedError: The server has ended.
        """
        self.starts_anew = self._receive() == wire.STARTS_ANEW
        self.is_ready = True

    def _ask(self, message: str, descriptors: list[int]) -> bytes:
        import socket

        try:
            socket.send_fds(
                self.control, [message.encode()], descriptors, flags=socket.MSG_NOSIGNAL
            )
        except OSError as error:
            raise self._died() from error
        return self._receive()

    def _receive(self) -> bytes:
        with contextlib.suppress(OSError):
            answer = self.control.recv(wire.MAX_FORK_BYTES)
            if answer:
                return answer
        raise self._died()

    def _died(self) -> WorkerDiedError:
        code = self._ended()
        died = WorkerDiedError(
            f"fork server {self.process.pid} ended with {endings.told(code)}, before it had a worker process started"
        )
        died.from_outside = endings.is_from_outside(code)
        return died

    def _ended(self) -> int:
        """Waits for its end, and returns the exit code."""
        code = self.process.wait()
        self._guard.forget(self.process.pid)
        return code

    def forked(self, process: int) -> None:
        """See ``forks``: a child that held this open would keep the server from seeing its engine end."""
        del process
        self.control.close()

    def dispose(self) -> None:
        """Ends the server, and its children."""
        self.process.kill()
        self._ended()
        # A thread that talks to the server finds that it has ended.
        with self._turn:
            self.control.close()


class Servers:
    """The fork servers of an engine; there is none before the first worker is wanted.

    Args:
        guard: Counts the memory of servers.
        room: Is told what takes more memory than usual, and tells how many servers may stand by.
    """

    def __init__(self, guard: MemoryGuard, room: WorkersRoom) -> None:
        self._guard = guard
        self._room = room
        self._turn = threading.Lock()
        self._all: list[Server] = []
        self._closed = False

    def fork(self, descriptors: Sequence[int]) -> Forked:
        """See ``Server.fork``."""
        with self._turn:
            server = self._ready()
        # A server that may be ended at any moment forks as soon as it can; its workers import the rest.
        is_hasty = self._room.num_standby > 0 or server.starts_anew
        shared = [] if is_hasty else preloading.modules()
        return server.fork(descriptors, shared)

    def prepare(self) -> None:
        """Starts a server, if there is none, and waits for its first word. If it ends, ``fork`` says so."""
        with contextlib.suppress(WorkerDiedError), self._turn:
            self._ready()

    @property
    def process_ids(self) -> list[int]:
        """The process numbers of all servers."""
        return [server.process.pid for server in self._all]

    def close(self) -> None:
        """Starts no further servers; threads that wait for one get an error. From any thread."""
        self._closed = True
        for server in list(self._all):
            # Servers that are ready have to say how their workers end.
            if not server.is_ready:
                server.process.kill()

    def rest(self) -> None:
        """Ends the servers that have no workers, to give back their memory; the next worker starts one again."""
        with self._turn:
            for server in [server for server in self._all if not server.children]:
                self._all.remove(server)
                server.dispose()

    def end(self) -> None:
        """Ends all servers; called when their workers have ended."""
        while self._all:
            self._all.pop().dispose()

    def _ready(self) -> Server:
        """Returns the first server that can fork.

        Raises:
            WorkerDiedError: A server has ended while it started, before another could fork.
        """
        now = Surroundings.now()
        self._drop(now)
        usable = [server for server in self._all if server.surroundings == now]
        for _ in range(len(usable), 1 + self._room.num_standby):
            usable.append(Server(now, self._guard))
            self._all.append(usable[-1])
        if self._closed:
            raise ClosedError("the engine is closed; call exoshuffle.init() to start another")
        for server in usable:
            if server.is_ready:
                return server
        poll = select.poll()
        starting = {server.control.fileno(): server for server in usable}
        for descriptor in starting:
            poll.register(descriptor, select.POLLIN)
        server = starting[poll.poll()[0][0]]
        # The turn is held: a thread that waited after another thread has heard the word would wait for ever.
        server.await_ready()
        self._room.is_alone = server.starts_anew
        return server

    def _drop(self, now: Surroundings) -> None:
        """Forgets servers that have ended, and ends servers that nobody needs any more."""
        for server in list(self._all):
            has_ended = self._has_ended(server)
            if has_ended or (server.surroundings != now and not server.children):
                self._all.remove(server)
                server.dispose()

    def look(self) -> None:
        """Notes how many servers are wanted to stand by, now that some may have ended."""
        for server in list(self._all):
            self._has_ended(server)

    def _has_ended(self, server: Server) -> bool:
        code = server.process.poll()
        if code is not None and endings.is_from_outside(code):
            wanted = 1 if server.is_ready else 2
            self._room.num_wanted_standby = max(self._room.num_wanted_standby, wanted)
        return code is not None
