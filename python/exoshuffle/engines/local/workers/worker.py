"""The program of a worker process: runs one task at a time, over the engine's memory, and asks the engine for the rest.

Guarantees: the worker can write no memory that it maps, except a block that it fills. It ends when the engine's process
does. For the functions that it runs, ``WorkerEngine`` is the engine, by the same protocol.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import cast

from exoshuffle import _native
from exoshuffle.engines.local.objects import calls, values
from exoshuffle.engines.local.workers import forks, groups, stacks, wire
from exoshuffle.engines.local.workers.devices import show_gpus
from exoshuffle.engines.local.workers.filling import WorkerBlocks
from exoshuffle.engines.local.workers.inside import WorkerEngine
from exoshuffle.engines.local.workers.link import Link
from exoshuffle.engines.local.workers.questions import Questions
from exoshuffle.engines.saying import RecordSender, Speaker, TaskOutput
from exoshuffle.engines.unattended import nobody_types
from exoshuffle.futures.engine import PROTOCOL, set_task_engine
from exoshuffle.futures.session import adopt
from exoshuffle.version import __version__

#: A worker that has nothing to do for so long gives back the memory that its allocators keep, since nobody else can use
#: it. It is 20 to 40 MB after reading and writing files. The next task has to touch it anew, so it stays while tasks
#: come. From then on nobody looks at its memory until the next task.
_IDLE_MS = 100


class Worker:
    """Runs what the engine sends.

    Attributes:
        engine: The engine for the functions that run.
    """

    def __init__(self, link: Link, hello: wire.Hello) -> None:
        self._link = link
        self.questions = Questions(link)
        self._speaker = Speaker(lambda said: link.send(wire.SAID, said), self.questions.turn)
        self._blocks = WorkerBlocks(self.questions, link, hello.inline_bytes)
        self.engine = WorkerEngine(link, self.questions, self._blocks, hello)
        self._outputs: list[TaskOutput] = []
        self._codes: dict[bytes, Callable[..., object]] = {}
        self._actor: object = None

    def serve(self, kind: str, payload: object) -> None:
        """Does what a message of the engine orders, and sends the result."""
        if kind == wire.COLLECT:
            gc.collect()
            self._link.send(wire.DONE, None)
            return
        self.questions.begin()
        self._speaker.begin()
        failure = None
        try:
            self._serve(kind, cast("wire.Order", payload))
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to the task
            failure = wire.Failure.of(error)
        # Only now is the error gone, with all that the frames of its traceback held.
        if failure is not None:
            self._be_idle()
            self._blocks.clear()
            self._link.send(wire.ERROR, failure)

    def _serve(self, kind: str, order: wire.Order) -> None:
        _native.release_idle_above(order.most_bytes)
        for digest in order.forgotten:
            del self._codes[digest]
        if order.gpus is not None:
            show_gpus(order.gpus)
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
        # The references in them are given back with the result.
        del fn, args, kwargs
        if kind == wire.ACTOR:
            self._actor, value = value, None
        if num_returns == "streaming":
            for item in cast("Iterable[object]", value):
                if not self.questions.hand_over(self._blocks.encoded(item, 1)):
                    break
            value, num_returns = None, 1
        same = [number for number, one in arrow if one() is value is not None and num_returns == 1]
        result: int | wire.Encoded
        if same:
            kind, result = wire.RETURNED, same[0]
        else:
            kind, result = wire.DONE, self._blocks.encoded(value, num_returns)  # type: ignore[arg-type]
        del value
        self._be_idle()
        self._blocks.clear()
        packed = self._link.pack(kind, result)
        del result
        self._link.send_packed(packed)

    def _be_idle(self) -> None:
        """Sends the last output of a task that is over, and nothing after it."""
        with self.questions.turn:
            for output in self._outputs:
                output.end()
            self._speaker.flush()
            self._speaker.is_listened_to = self.questions.is_busy = False

    @property
    def has_actor(self) -> bool:
        """Whether it has the state of an actor, which nobody could make again."""
        return self._actor is not None

    def take_output(self, log_level: int) -> None:
        """Sends what tasks print and log to the engine from now on."""
        for name in ("stdout", "stderr"):
            output = TaskOutput(self._speaker, name, getattr(sys, name))
            self._outputs.append(output)
            setattr(sys, name, output)
        logging.root.addHandler(RecordSender(self._speaker, log_level))
        logging.root.setLevel(log_level)

    def _function(self, kind: str, order: wire.Order) -> Callable[..., object]:
        if kind == wire.METHOD:
            bound: Callable[..., object] = getattr(self._actor, order.method)
            return bound
        assert order.code is not None
        digest, data = order.code
        fn: Callable[..., object]
        if data is None:
            fn = self._codes[digest]
        else:
            pickled = self._link.came(data) if isinstance(data, int) else data
            fn = pickle.loads(pickled)  # noqa: S301  written by our application
            if digest:
                self._codes[digest] = fn
        return fn

    def forked(self, process: int) -> None:
        """Closes the connection in a process that a task has forked, which is no worker; see ``forks``."""
        self.questions.forked(process)
        self._speaker.is_listened_to = False


def _arrow_in_store(
    order: wire.Order, found: Sequence[object]
) -> list[tuple[int, weakref.ref[object]]]:
    """Returns the references whose values are Arrow data, by number: such a value may come back as it is."""
    return [
        (number, weakref.ref(value))
        for number, (entry, value) in enumerate(zip(order.values, found, strict=True))
        if isinstance(entry, wire.Transfer) and entry.slices and values.is_arrow(value)
    ]


def main() -> None:
    """Calls ``run`` in a process that was started with the descriptors as arguments."""
    run([int(text) for text in sys.argv[2:]])


def run(descriptors: Sequence[int]) -> None:
    """Runs until the engine closes the connection.

    Args:
        descriptors: The connection, a pipe that closes when the engine's process ends, the store's arena, and the file
            for the worker's stack.
    """
    # The worker may be killed at any moment; printed lines are out by then.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    nobody_types()
    connection, lifeline, arena, stack = descriptors
    server = _opened(os.getppid())
    stacks.write_when_asked(stack)
    for descriptor in descriptors:
        # A process that a task starts must not keep the connection open when the worker dies.
        os.set_inheritable(descriptor, False)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    link = Link(Connection(connection), _native.ArenaView(arena))
    _, hello = link.receive()
    link.send(wire.READY, (PROTOCOL, __version__))
    worker = Worker(link, hello)
    worker.take_output(hello.log_level)
    sys.addaudithook(worker.questions.notice)
    forks.tell_children(worker)
    adopt(worker.engine)
    set_task_engine(worker.engine, worker.questions.note)
    while True:
        if link.is_idle(_IDLE_MS):
            _native.release_idle_memory()
            _native.release_idle_above(None)
            if server is not None and not worker.has_actor and not link.comes_before_end_of(server):
                # The engine gives no more tasks to a worker without its server. Idle ones kept 20 MB until a next job.
                groups.end_own()
        worker.serve(*link.receive())


def _opened(process: int) -> int | None:
    """Returns a descriptor that tells when the process ends; nothing where the system has none."""
    if not hasattr(os, "pidfd_open"):
        return None
    with contextlib.suppress(OSError):
        return os.pidfd_open(process)
    return None


def _end_with(lifeline: int) -> None:
    """Ends this process when the engine's process has ended, also while a task runs."""
    os.read(lifeline, 1)
    groups.end_own()
