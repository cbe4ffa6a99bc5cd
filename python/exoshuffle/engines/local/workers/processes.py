"""Worker processes: Python functions run in them, beside this process, over the same memory.

Guarantees: a worker that dies loses no object. This process holds the slices that the worker had mapped, drops the
blocks that it was filling, and takes its references back. The attempt fails as one that may be repeated. A worker ends
when this process ends, however that happens: it waits on a pipe that only this process holds open.

The thread that would run the task itself holds the engine's side of the conversation (``wire``). So blocking calls of
the worker (``get``, ``wait``) block that thread, and give its CPU slot back like those of a thread.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from exoshuffle._native import Reservation, Slice
from exoshuffle.engines import hearing
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.objects import identity
from exoshuffle.engines.local.objects.identity import Handle, handle_of
from exoshuffle.engines.local.objects.loading import Arguments, Loaded
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.workers import endings, forks, preloading, stacks, wire
from exoshuffle.engines.local.workers.home import GRANTED_BYTES, Home
from exoshuffle.engines.local.workers.lending import Lent
from exoshuffle.engines.local.workers.servers import Servers
from exoshuffle.engines.taking_more import LEFT_BYTES, allowed_bytes, error_of_taking_more
from exoshuffle.errors import ProtocolError, WorkerDiedError
from exoshuffle.futures.engine import PROTOCOL
from exoshuffle.observe.activity import Frame
from exoshuffle.observe.memory import private_bytes
from exoshuffle.version import __version__

#: The most functions that a worker keeps: programs that make a new function for each task would fill it.
_MAX_CODES = 256


class WorkerProcess:
    """A worker, and what the engine holds for it. Used by one thread at a time, except ``kill``."""

    def __init__(
        self,
        home: Home,
        servers: Servers,
        reservation: Reservation | None,
        waiting: Callable[[], AbstractContextManager[None]],
    ) -> None:
        import socket
        from multiprocessing.connection import Connection

        self._home = home
        #: Makes a context for a blocking call that is answered for the worker.
        self.waiting = waiting
        self._reservation = reservation
        #: Whether it lives on memory that the pool has set apart.
        self.is_base = reservation is None
        #: The last signal that a task in it sent to its own process.
        self._sent_itself = 0
        self._known_code: dict[bytes, None] = {}
        self._lent = Lent()
        self._requests = home.requests()
        #: The memory that the actor in it has declared.
        self._actor_bytes = 0
        self._allowed_bytes = self._first_bytes = 0
        #: The GPUs that its last task with GPUs had: libraries keep to those that they saw first.
        self.gpus: tuple[int, ...] = ()
        #: Waits of the task for what other tasks make, and what lends its CPU meanwhile.
        self._num_waits = 0
        self._lending = contextlib.ExitStack()
        #: The user's function that runs, where that is known.
        self._function: str | None = None
        #: Whether the last message of its task has been read: else its next answer belongs to that task.
        self.is_at_rest = True
        mine, self._theirs = socket.socketpair()
        self._connection = Connection(mine.detach())
        lifeline, self._lifeline = os.pipe()
        forks.tell_children(self)
        arena = home.store.arena_fd()
        self._stack = stacks.memory_file()
        self._reading_stack = threading.Lock()
        try:
            self._process = servers.fork([self._theirs.fileno(), lifeline, arena, self._stack])
        except BaseException:
            self._close()
            raise
        finally:
            for descriptor in (lifeline, arena):
                os.close(descriptor)
            self._theirs.close()
        self._set_apart(0)

    @property
    def process_id(self) -> int:
        """The number of the process."""
        return self._process.pid

    def stack(self) -> list[Frame]:
        """Returns the calls that the process is in, the innermost first. While a task runs; from any thread."""
        with self._reading_stack:
            # The number of a closed descriptor may belong to another file by now.
            return [] if self._stack < 0 else stacks.read(self._process.pid, self._stack)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return not self._has_hung_up() and self._process.poll() is None

    @property
    def is_usable(self) -> bool:
        """Whether the process runs, is not about to end, and is in the program's tree: its fork server still runs."""
        return self.is_alive and not self._process.is_orphan and not self._has_been_stopped

    @property
    def was_ended(self) -> bool:
        """Whether the process was ended by a signal from outside."""
        return self._has_hung_up() and endings.is_from_outside(self._process.wait())

    def _has_hung_up(self) -> bool:
        """Whether the process has closed the connection; the fork server tells a little later how it ended."""
        poll = select.poll()
        poll.register(self._connection, 0)
        return bool(poll.poll(0))

    def run(self, task: Task, kind: str, loaded: list[Arguments]) -> StoredValue:
        """Runs a task in the worker, and answers its questions meanwhile.

        Raises:
            WorkerDiedError: The process ended.
            FunctionMemoryError: The process was stopped, since it had more memory than was set apart for it.
            BaseException: The function raised it.
        """
        self._function = ""
        self.gpus = task.gpus or self.gpus
        if kind == wire.ACTOR:
            self._actor_bytes = task.options.memory
        self._set_apart(0 if kind == wire.ACTOR else task.options.memory)
        # From here on the worker is stopped for what this task takes; before, for what another task has left. The
        # memory that this left counts from here on, too: a task that can be run again is, in another worker.
        is_innocent = kind == wire.TASK and (
            self._has_been_stopped or (task.options.max_retries > 0 and self._is_full)
        )
        self.is_at_rest = False
        task.worker = self
        begun = time.monotonic()
        try:
            try:
                self._send(*self._order(task, kind, loaded))
            finally:
                # From here on pins hold the fetched values, as long as the worker wants them.
                loaded.clear()
            return self._converse(task)
        except WorkerDiedError as error:
            task.longest_seconds = max(task.longest_seconds, time.monotonic() - begun)
            if not is_innocent:
                self._blame(task, error)
            raise
        finally:
            self._num_waits = 0
            self._lending.close()
            task.worker = None
            if self.is_at_rest:
                self._set_apart(0)

    def _set_apart(self, memory: int) -> None:
        """Allows the process so much memory from now on, beside its own and its actor's; 0 while it is idle."""
        set_apart = GRANTED_BYTES + preloading.touched_bytes() + self._actor_bytes + memory
        if set_apart == self._allowed_bytes:
            return
        self._allowed_bytes = set_apart
        with contextlib.suppress(OSError):  # if it has ended, the next message tells
            self._home.guard.watch(self._process.pid, allowed_bytes(set_apart))

    @property
    def _is_full(self) -> bool:
        """Whether another task has left much in the process, such as libraries: Polars takes 34 MB.

        The memory of its fork server, of which pandas makes 66 MB, was left by no task.
        """
        return private_bytes(self.process_id) > LEFT_BYTES + max(GRANTED_BYTES, self._first_bytes)

    @property
    def _has_been_stopped(self) -> bool:
        return self._home.guard.stopped(self._process.pid) is not None

    def _blame(self, task: Task, error: WorkerDiedError) -> None:
        """Raises ``FunctionMemoryError`` if the process was stopped for its memory."""
        had = self._home.guard.stopped(self._process.pid)
        if had is None:
            return
        num_bytes, num_started = had
        raise error_of_taking_more(
            task.name,
            self._function,
            num_bytes,
            num_started,
            self._allowed_bytes,
            self._home.memory_limit,
        ) from error

    def _converse(self, task: Task) -> StoredValue:
        while True:
            kind, payload = self._receive()
            self.is_at_rest = kind in (wire.DONE, wire.RETURNED, wire.ERROR)
            if kind == wire.DONE:
                return self._requests.stored(payload)
            if kind == wire.FUNCTION:
                self._function = payload
                continue
            if kind == wire.RETURNED:
                return self._home.results.returned(task, payload)
            if kind == wire.ITEM:
                is_wanted = self._home.results.add_item(task, self._requests.stored(payload))
                self._send((wire.REPLY, (True, is_wanted)), [])
            elif kind == wire.WAITS:
                self._wait_for_tasks(1 if payload else -1)
            elif kind == wire.SAID:
                hearing.hear(payload, task.name, self.process_id)
            elif kind == wire.ENDS:
                self._sent_itself = payload
            elif kind == wire.ERROR:
                raise payload.error()
            else:
                self._answer(*payload)

    def _wait_for_tasks(self, more: int) -> None:
        """Lends the CPU of the task while any of its threads waits for what other tasks make."""
        self._num_waits += more
        if self._num_waits == 1 and more == 1:
            self._lending.enter_context(self._home.waiting_for_tasks())
        elif self._num_waits == 0:
            self._lending.close()
        self._send((wire.REPLY, (True, None)), [])

    def greet(self) -> None:
        """Waits until the worker is ready.

        Raises:
            ProtocolError: The worker runs another version.
        """
        self._send((wire.HELLO, self._home.hello()), [])
        _, (protocol, version) = self._receive()
        self._first_bytes = private_bytes(self.process_id)
        if (protocol, version) != (PROTOCOL, __version__):
            raise ProtocolError(
                f"the worker runs Exoshuffle {version} (protocol {protocol}), this program {__version__} "
                f"(protocol {PROTOCOL}): one of them changed since it started, or their paths differ"
            )

    def collect_garbage(self) -> None:
        """Has an idle worker collect garbage, and give back the references in it.

        Raises:
            WorkerDiedError: The process ended.
        """
        self._send((wire.COLLECT, None), [])
        self._receive()

    def check_alive(self) -> None:
        """Called now and then by a thread that waits on behalf of the worker.

        Raises:
            WorkerDiedError: The worker has ended.
        """
        if not self.is_alive:
            raise self._died()

    def forked(self, process: int) -> None:
        """See ``forks``: a child with these open would keep the worker or the engine from seeing the other end."""
        del process
        self._theirs.close()
        self._connection.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def kill(self) -> None:
        """Ends the process at once; threads that wait for it see it die. From any thread."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def dispose(self) -> None:
        """Ends the process and gives back all that was held for it."""
        self.kill()
        self._home.guard.forget(self._process.pid)
        self._process.wait()
        self._close()

    def _close(self) -> None:
        self._connection.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        with self._reading_stack:
            if self._stack >= 0:
                os.close(self._stack)
                self._stack = -1
        self._lent.clear()
        self._requests.close()
        if self._reservation is not None:
            self._reservation.release()

    def _order(
        self, task: Task, kind: str, loaded: list[Arguments]
    ) -> tuple[tuple[str, wire.Order], list[Handle], list[Slice | bytes]]:
        """Returns the order to run a task, the handles of references inside its pickles, and what goes behind it."""
        call, code = task.call, None
        assert call is not None
        handles = [handle_of(ref) for ref in call.inside]
        behind: list[Slice | bytes] = []
        if call.code is not None:
            known = call.code.digest in self._known_code and not call.code.inside
            # Without a digest the worker keeps neither the function, nor the objects that it closes over.
            digest = b"" if call.code.inside else call.code.digest
            code = digest, None if known else wire.in_order(call.code.data, behind)
            if digest:
                self._known_code[digest] = None
        for entry in loaded:
            for one in entry if isinstance(entry, list) else [entry]:
                handles.extend(handle_of(ref) for ref in one.stored.contained)
        arguments = [
            [self._lent.transfer(one, behind) for one in entry]
            if isinstance(entry, list)
            else self._lent.transfer(entry, behind)
            for entry in loaded
        ]
        forgotten = list(self._known_code)[:-_MAX_CODES]
        for digest in forgotten:
            del self._known_code[digest]
        returns = task.options.num_returns
        share = self._home.guard.room() // self._home.num_cpus
        most = limits.before_releasing(self._allowed_bytes, share)
        gpus = None if kind == wire.METHOD else task.gpus
        order = wire.Order(code, call.method, call.data, arguments, returns, forgotten, most, gpus)
        return (kind, order), handles, behind

    # --- frames ------------------------------------------------------------------------------------------------

    def _send(
        self,
        message: tuple[str, object],
        handles: list[Handle],
        behind: Sequence[Slice | bytes] = (),
    ) -> None:
        with identity.Capturing() as captured:
            body = pickle.dumps(message, protocol=5)
        lent = [self._lent.lend(handle) for handle in (*captured, *handles)]
        sizes = [len(one) for one in behind]
        try:
            self._connection.send_bytes(pickle.dumps((lent, sizes, body), protocol=5))
            for one, size in zip(behind, sizes, strict=True):
                for start in range(0, size, wire.PIECE_BYTES):
                    piece = min(wire.PIECE_BYTES, size - start)
                    self._connection.send_bytes(memoryview(one), start, piece)
        except OSError as error:
            raise self._died() from error

    def _receive(self) -> tuple[str, Any]:
        """Returns the kind of a message, and what that kind says."""
        try:
            frame = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._died() from error
        message, returned, unpinned, discarded, dropped = pickle.loads(frame)  # noqa: S301  written by our worker
        kind, payload = pickle.loads(message)  # noqa: S301  written by our worker
        self._lent.take_back(returned, unpinned)
        self._requests.discard(discarded)
        self._requests.drop_streams(dropped)
        return kind, payload

    def _died(self) -> WorkerDiedError:
        code = self._process.wait()
        with self._reading_stack:
            crashed_in = None if self._stack < 0 else stacks.crashed_in(self._stack)
        sent, is_orphan = self._sent_itself, self._process.is_orphan
        ending = endings.Ending(self.process_id, code, sent, self._function, crashed_in, is_orphan)
        died = WorkerDiedError(str(ending))
        died.from_outside = ending.is_from_outside
        return died

    def _answer(self, name: str, args: tuple[object, ...]) -> None:
        handles: list[Handle] = []
        behind: list[Slice | bytes] = []
        try:
            answer = self._requests.serve(name, args)
            if isinstance(answer, Loaded):
                handles.extend(handle_of(ref) for ref in answer.stored.contained)
                answer = self._lent.transfer(answer, behind)
            reply = (wire.REPLY, (True, answer))
        except Exception as error:  # noqa: BLE001  it belongs to the worker that asked
            reply, behind = (wire.REPLY, (False, wire.Failure.of(error))), []
        self._send(reply, handles, behind)
