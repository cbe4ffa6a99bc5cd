"""The program of a fork server: it has imported the modules that workers need, and workers are forked from it.

Guarantees: the server has one thread of its own when it forks, and imports no module of the user's. It ends when the
program does, however that happens. Why: an interpreter that imports the same takes 0.1 s of CPU time, 0.3 s with Arrow.
A fork takes 2 ms, and imported modules are in memory once. So a job goes on whose workers are ended every 0.1 s.

The engine sends the names of modules that have to be imported before the fork. It also sends five descriptors: those of
``worker.run``, and one for the exit code. It gets the number of the process, or the number of the error as a negative.
The server imports the modules that were named at the start while the engine asks for nothing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from exoshuffle import _native
from exoshuffle.engines.local.workers import groups, wire, worker
from exoshuffle.late_dataclasses import make_all

_NUM_DESCRIPTORS = 5

_WORKER = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from exoshuffle.engines.local.workers.worker import main; main()"
)


class ForkServer:
    """Forks whenever the engine asks for it, and tells how the children have ended."""

    def __init__(self, control: socket.socket, word: bytes, modules: Sequence[str]) -> None:
        self._control = control
        self._word = word
        self._missing = list(modules)
        self._woken, self._wake = os.pipe()
        #: By child: the descriptor that its exit code is written to.
        self._told: dict[int, int] = {}

    def serve(self) -> list[int]:
        """Forks whenever the engine asks; returns only in a child, with the descriptors of its worker."""
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._tell(self._word)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            found = poll.poll(0 if self._missing else None)
            if not found:
                _import([self._missing.pop(0)])
            for descriptor, _ in found:
                if descriptor == self._woken:
                    self._tell_ended()
                elif (descriptors := self._forked()) is not None:
                    return descriptors

    def _forked(self) -> list[int] | None:
        """Forks once; returns the descriptors of the worker in the child, and None in the server."""
        message, descriptors, _, _ = socket.recv_fds(
            self._control, wire.MAX_FORK_BYTES, _NUM_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        if not message:
            os._exit(0)
        _import(json.loads(message))
        *of_worker, told = descriptors
        try:
            process = os.fork()
        except OSError as error:
            process = -(error.errno or 1)
        if process == 0:
            self._become_worker(told)
            return of_worker
        for descriptor in of_worker:
            os.close(descriptor)
        if process > 0:
            self._told[process] = told
        else:
            os.close(told)
        self._tell(b"%d" % process)
        return None

    def _tell(self, word: bytes) -> None:
        """Tells the engine, and ends if the program has ended meanwhile: nobody wants to read of a broken pipe."""
        try:
            self._control.send(word)
        except BrokenPipeError:
            os._exit(0)

    def _become_worker(self, told: int) -> None:
        """Called in a child: drops what belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        for descriptor in (self._woken, self._wake, told, *self._told.values()):
            os.close(descriptor)
        # A task that signals its group must hit nobody else.
        os.setsid()
        # Without a new seed all workers draw the same numbers; ``random`` takes one by itself.
        drawing = sys.modules.get("numpy.random")
        if drawing is not None:
            drawing.seed()

    def _tell_ended(self) -> None:
        """Waits for the children that have ended, and tells how each ended."""
        os.read(self._woken, 4096)
        while self._told:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            # Nobody gets the number of the child until somebody has waited for it.
            groups.end(ended.si_pid)
            process, status = os.waitpid(ended.si_pid, 0)
            told = self._told.pop(process)
            with contextlib.suppress(OSError):  # nobody wants to know
                os.write(told, wire.EXIT_CODE.pack(os.waitstatus_to_exitcode(status)))
            os.close(told)


def _import(names: Sequence[str]) -> None:
    """Imports modules of this package and Arrow that the program has imported."""
    missing = [name for name in names if name not in sys.modules]
    for name in missing:
        with contextlib.suppress(ImportError):  # the task that needs it says so
            importlib.import_module(name)
    if missing:
        _native.release_libraries()
    make_all()
    # Otherwise the collector of each child would write to all objects, and so copy their memory.
    gc.freeze()


def main() -> None:
    """Serves until the engine closes the connection; in a child, runs the worker."""
    control = socket.socket(fileno=int(sys.argv[2]))
    # The site's startup files may have begun threads; locks that these hold would stay locked in a child.
    # Systems that do not tell are taken to have none.
    threads = Path("/proc/self/task")
    has_threads = threads.exists() and len(os.listdir(threads)) > 1
    control.set_inheritable(False)
    _import([])
    # Workers that are started anew share no module, so the server imports none for them.
    word = wire.STARTS_ANEW if has_threads else wire.FORKS
    descriptors = ForkServer(control, word, [] if has_threads else json.loads(sys.argv[3])).serve()
    if has_threads:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)
        path = json.dumps(sys.path)
        os.execv(  # noqa: S606  this interpreter
            sys.executable, [sys.executable, "-c", _WORKER, path, *map(str, descriptors)]
        )
    del sys.argv[1:]
    worker.run(descriptors)
