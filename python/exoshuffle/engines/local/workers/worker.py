"""The program of a worker process: runs one task at a time, over the engine's memory, and asks the engine for the rest.

Guarantees: nothing it maps can be written, except a block that it fills; it ends when the engine's process does. To
the functions that it runs it is the engine: ``WorkerEngine`` has the same protocol.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import os
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from exoshuffle import __version__, _native
from exoshuffle.engines.local.objects import calls, values
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.workers import forks, groups, stacks, wire
from exoshuffle.engines.local.workers.link import Link
from exoshuffle.engines.saying import RecordSender, Speaker, TaskOutput
from exoshuffle.engines.unattended import nobody_types
from exoshuffle.errors import EngineError, ForkedEngineError
from exoshuffle.futures.engine import PROTOCOL, Node, set_task_engine
from exoshuffle.futures.options import ActorOptions, Executor, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef
from exoshuffle.futures.session import adopt

#: A worker that has nothing to do for so long gives back what its allocators keep, 20 to 40 MB after it has read and
#: written files: nobody else can use that. The next task has to touch it anew, so it stays while tasks come.
_IDLE_MS = 100
#: A message with what has no block to be written into.
_FILL_BYTES = 1 << 20
#: A task that ends its process while another thread of it has the connection is not held up for longer.
_NOTICE_SECONDS = 0.05


class WorkerBlocks:
    """Blocks of the engine's store, filled from here. See ``values.Blocks``."""

    def __init__(self, engine: WorkerEngine, link: Link, inline_bytes: int) -> None:
        self._engine = engine
        self._link = link
        self.inline_bytes = inline_bytes
        self._collected_at = 0.0
        #: Blocks being filled, by identity: (the block, its number, its slices).
        self._open: dict[int, tuple[Any, int, int]] = {}

    def allocate(self, offsets: Sequence[int]) -> Any:
        """See ``Blocks``."""
        offsets = list(offsets)
        number, pieces, is_nearly_full = self._engine.ask("allocate", offsets)
        if is_nearly_full and time.monotonic() - self._collected_at > values.COLLECT_SECONDS:
            self._collected_at = time.monotonic()
            # What it finds goes back with the next message.
            gc.collect()
        block = bytearray(offsets[-1]) if pieces is None else self._link.block(pieces)
        self._open[id(block)] = (block, number, len(offsets) - 1)
        return block

    def num_slices(self, value: Any) -> int | None:
        """See ``Blocks``."""
        found = self._open.get(id(value))
        return None if found is None else found[2]

    def seal(self, block: Any) -> int:
        """See ``Blocks``."""
        _, number, _ = self._open.pop(id(block))
        if isinstance(block, bytearray):
            # Memory is short, or there would be a block to map.
            for start in range(0, len(block), _FILL_BYTES):
                self._engine.ask("fill", number, start, bytes(block[start : start + _FILL_BYTES]))
        else:
            block.release()
        return number

    def clear(self) -> None:
        """The task is over; blocks that it did not return are dropped, once nothing can write to them any more."""
        for key, (block, number, _) in list(self._open.items()):
            with contextlib.suppress(BufferError):
                if not isinstance(block, bytearray):
                    block.release()
                del self._open[key]
                self._link.discarded.append(number)


class WorkerStream:
    """See ``StreamHandle``: a stream of the engine."""

    def __init__(self, engine: WorkerEngine, link: Link, number: int) -> None:
        self._engine = engine
        self._link = link
        self._number = number

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        ref: Ref | None = self._engine.ask("next_item", self._number, index, timeout)
        return ref

    def limit_ahead(self, count: int) -> None:
        """See ``StreamHandle``."""
        self._engine.ask("limit_ahead", self._number, count)

    def cancel(self) -> bool:
        """See ``StreamHandle``."""
        return bool(self._engine.ask("cancel_stream", self._number))

    def drop(self) -> None:
        """See ``StreamHandle``."""
        self._link.dropped_streams.append(self._number)


class WorkerEngine:
    """The engine, seen from a task in a worker process."""

    name = "local"
    #: Of the user; which the running task called last.
    _function_name = ""

    def __init__(self, link: Link, hello: wire.Hello) -> None:
        self._link = link
        # Of the connection. Who has it may print, for example where it is unpickled what came.
        self._lock: Any = threading.RLock()
        self._speaker = Speaker(lambda said: link.send(wire.SAID, said), self._lock)
        self._outputs: list[TaskOutput] = []
        self._busy = False
        #: The worker that this process was forked from, if it is not the worker itself.
        self._forked_from: int | None = None
        self._codes: dict[bytes, Any] = {}
        self._known_code: set[bytes] = set()
        self._actor: Any = None
        self.blocks = WorkerBlocks(self, link, hello.inline_bytes)
        self.inline_bytes = hello.inline_bytes
        self.memory_limit = hello.memory_limit
        self.budget_bytes = hello.budget_bytes
        self.spill_dirs = hello.spill_dirs
        self.num_cpus = hello.num_cpus

    # --- serving -----------------------------------------------------------------------------------------------

    def serve(self, kind: str, payload: Any) -> None:
        """Runs what the engine sent, and sends the result."""
        if kind == wire.COLLECT:
            gc.collect()
            self._link.send(wire.DONE, None)
            return
        self._busy = True
        self._speaker.begin()
        self._function_name = ""
        failure = None
        try:
            self._serve(kind, payload)
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to the task
            failure = wire.Failure.of(error)
        # Only now is the error gone, and what the frames of its traceback held.
        if failure is not None:
            self._be_idle()
            self.blocks.clear()
            self._link.send(wire.ERROR, failure)

    def _serve(self, kind: str, order: wire.Order) -> None:
        _native.release_idle_above(order.most_bytes)
        for digest in order.forgotten:
            del self._codes[digest]
        fn = self._function(kind, order)
        found = [
            [self._link.value(one) for one in entry]
            if isinstance(entry, list)
            else self._link.value(entry)
            for entry in order.values
        ]
        args, kwargs = calls.unpack(order.data, found)
        num_returns = order.num_returns
        arrow = _arrow_in_store(order, found)
        del found, order
        value = fn(*args, **kwargs)
        # What they refer to is given back with the result.
        del fn, args, kwargs
        if kind == wire.ACTOR:
            self._actor, value = value, None
        if num_returns == "streaming":
            for item in value:
                encoded = self._encoded(item, 1)
                with self._lock:
                    is_wanted = self._exchange(wire.ITEM, encoded)
                if not is_wanted:
                    break
            value, num_returns = None, 1
        same = [number for number, one in arrow if one() is value is not None and num_returns == 1]
        if same:
            kind, result = wire.RETURNED, same[0]
        else:
            kind, result = wire.DONE, self._encoded(value, num_returns)  # type: ignore[arg-type]
        del value
        self._be_idle()
        self.blocks.clear()
        packed = self._link.pack(kind, result)
        del result
        self._link.send_packed(packed)

    def _be_idle(self) -> None:
        """The task is over: nothing more of it is heard."""
        with self._lock:
            for output in self._outputs:
                output.end()
            self._speaker.flush()
            self._speaker.is_listened_to = self._busy = False

    def take_output(self, log_level: int) -> None:
        """From now on, what tasks print and log goes to the engine."""
        for name in ("stdout", "stderr"):
            output = TaskOutput(self._speaker, name, getattr(sys, name))
            self._outputs.append(output)
            setattr(sys, name, output)
        logging.root.addHandler(RecordSender(self._speaker, log_level))
        logging.root.setLevel(log_level)

    def notice(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit hook: tells the engine of a signal that a task sends to its own process."""
        if event not in ("os.kill", "os.killpg") or not self._busy:
            return
        if args[0] in (0, os.getpid()) and self._lock.acquire(timeout=_NOTICE_SECONDS):
            try:
                self._link.send(wire.ENDS, int(args[1]))
            finally:
                self._lock.release()

    def _function(self, kind: str, order: wire.Order) -> Callable[..., Any]:
        if kind == wire.METHOD:
            bound: Callable[..., Any] = getattr(self._actor, order.method)
            return bound
        assert order.code is not None
        digest, data = order.code
        fn: Callable[..., Any]
        if data is None:
            fn = self._codes[digest]
        else:
            fn = pickle.loads(data)  # noqa: S301  written by our application
            if digest:
                self._codes[digest] = fn
        return fn

    def _encoded(self, value: Any, num_slices: int) -> Any:
        stored: StoredValue = values.encode(self.blocks, value, num_slices)
        return stored.inline, stored.block_id, stored.pickled, stored.contained

    def ask(self, name: str, *args: Any) -> Any:
        """Asks the engine and waits for the answer."""
        with self._lock:
            if self._forked_from is not None:
                raise ForkedEngineError.of(self._forked_from)
            if not self._busy:
                raise EngineError(
                    "in a worker process the engine can be used while a task runs only"
                )
            return self._exchange(wire.ASK, (name, args))

    def note(self, function: str) -> None:
        """See ``futures.engine.note_function``; a name is sent once in a row."""
        with self._lock:
            if self._busy and function != self._function_name:
                self._function_name = function
                self._link.send(wire.FUNCTION, function)

    def _exchange(self, kind: str, payload: Any) -> Any:
        self._link.send(kind, payload)
        kind, (succeeded, answer) = self._link.receive()
        assert kind == wire.REPLY
        if not succeeded:
            raise answer.error()
        return self._link.value(answer) if isinstance(answer, wire.Transfer) else answer

    def forked(self, process: int) -> None:
        """In a process that a task has forked, which is no worker; see ``forks``."""
        self._forked_from = process
        self._link.close()
        self._lock = threading.RLock()
        self._speaker.is_listened_to = self._busy = False

    # --- the engine protocol -----------------------------------------------------------------------------------

    def submit(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        name = options.name or getattr(fn, "__name__", "task")
        code = self._packed_code(fn, name)
        return self._made(
            self.ask("submit", code, calls.pack(self, name, args, kwargs), name, options)
        )

    def create_actor(
        self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any], options: ActorOptions
    ) -> Ref:
        """See ``Engine``."""
        name = options.name or cls.__name__
        code = self._packed_code(cls, name)
        ref: Ref = self.ask(
            "create_actor", code, calls.pack(self, name, args, kwargs), name, options
        )
        return ref

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        packed = calls.pack(self, options.name or method, args, kwargs)
        return self._made(self.ask("call_actor", actor, method, packed, options))

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        self.ask("kill_actor", actor)

    def put(self, value: Any) -> Ref:
        """See ``Engine``."""
        ref: Ref = self.ask("put", self._encoded(value, 1))
        return ref

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Any:
        """See ``Engine``."""
        return self.ask("get", ref, timeout)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        done: list[bool] = self.ask("wait", list(refs), num_ready, timeout)
        ready = list(itertools.compress(refs, done))
        return ready, list(itertools.compress(refs, (not one for one in done)))

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        error: BaseException | None = self.ask("error", ref)
        return error

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``."""
        return bool(self.ask("cancel", ref))

    def allocate_block(self, offsets: Sequence[int]) -> Any:
        """See ``Engine``."""
        return self.blocks.allocate(offsets)

    def workers_bytes(self, executor: Executor) -> int:
        """See ``Engine``; what they take is off the budget of this process already."""
        del executor
        return 0

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """See ``Engine``."""
        return contextlib.nullcontext()

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        nodes: list[Node] = self.ask("nodes")
        return nodes

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        names: list[str] = self.ask("locate", ref)
        return names

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """See ``Engine``."""
        sizes: list[list[int]] = self.ask("slice_bytes", list(refs))
        return sizes

    def stats(self) -> dict[str, int]:
        """See ``Engine``."""
        stats: dict[str, int] = self.ask("stats")
        return stats

    def add_observer(self, observer: Callable[[Any], None]) -> None:
        """Refuses: events happen in the process of the engine."""
        raise EngineError(
            f"{observer!r} observes from the program that called init(), not from a task"
        )

    def remove_observer(self, observer: Callable[[Any], None]) -> None:
        """See ``add_observer``."""

    def close(self) -> None:
        """Does nothing: the engine belongs to the program that called ``init``."""

    def _packed_code(
        self, fn: Callable[..., Any], name: str
    ) -> tuple[bytes, bytes | None, list[Any]]:
        code = calls.code_of(fn, name)
        known = code.digest in self._known_code
        if not code.inside:
            self._known_code.add(code.digest)
        return code.digest, None if known else code.data, list(code.inside)

    def _made(self, answer: Ref | int) -> Ref | RefStream:
        if isinstance(answer, Ref):
            return answer
        return RefStream(WorkerStream(self, self._link, answer))


def _arrow_in_store(order: wire.Order, found: list[Any]) -> list[tuple[int, weakref.ref[Any]]]:
    """The references whose values are Arrow data, by number: such a value may come back as it is."""
    return [
        (number, weakref.ref(value))
        for number, (entry, value) in enumerate(zip(order.values, found, strict=True))
        if isinstance(entry, wire.Transfer) and entry.slices and values.is_arrow(value)
    ]


def main() -> None:
    """``run`` in a process that was started with the descriptors as arguments."""
    run([int(text) for text in sys.argv[2:]])


def run(descriptors: Sequence[int]) -> None:
    """Runs until the engine closes the connection.

    Args:
        descriptors: The connection, what closes when the engine's process ends, the store's arena, and where to write
            what it does.
    """
    # It may be killed at any moment; what was printed is out by then.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    nobody_types()
    connection, lifeline, arena, stack = descriptors
    stacks.write_when_asked(stack)
    for descriptor in descriptors:
        # What a task starts must not keep the connection open when the worker dies.
        os.set_inheritable(descriptor, False)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    link = Link(Connection(connection), _native.ArenaView(arena))
    _, hello = link.receive()
    link.send(wire.READY, (PROTOCOL, __version__))
    engine = WorkerEngine(link, hello)
    engine.take_output(hello.log_level)
    sys.addaudithook(engine.notice)
    forks.tell_children(engine)
    adopt(engine)
    set_task_engine(engine, engine.note)
    while True:
        if link.is_idle(_IDLE_MS):
            _native.release_idle_memory()
        engine.serve(*link.receive())


def _end_with(lifeline: int) -> None:
    """Ends the process when the engine's has ended, also while a task runs."""
    os.read(lifeline, 1)
    groups.end_own()
