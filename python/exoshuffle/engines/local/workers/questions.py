"""Asks the engine questions, and sends it notes, for code in a worker process, over the one connection between them.

Guarantee: one thread at a time has the connection, and only while a task runs.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from exoshuffle.engines.local.workers import wire
from exoshuffle.engines.local.workers.link import Link
from exoshuffle.errors import EngineError, ForkedEngineError

#: A task that ends its process waits at most so long for a thread that has the connection.
_NOTICE_SECONDS = 0.05


class Questions:
    """The worker's side of the conversation while a task runs.

    Attributes:
        turn: The lock of the connection. Its holder may print, for example where code unpickles what came.
        is_busy: Whether a task runs.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self.turn = threading.RLock()
        self.is_busy = False
        #: The user's function that the running task called last.
        self._function_name = ""
        #: The worker that this process was forked from, if it is not the worker itself.
        self._forked_from: int | None = None

    def begin(self) -> None:
        """Notes that a task begins."""
        self.is_busy = True
        self._function_name = ""

    def ask(self, name: str, *args: object) -> Any:
        """Asks the engine and waits for the answer, of the type that the method of ``Requests`` for it returns."""
        with self.turn:
            if self._forked_from is not None:
                raise ForkedEngineError.of(self._forked_from)
            if not self.is_busy:
                raise EngineError(
                    "in a worker process the engine can be used while a task runs only"
                )
            return self._exchange(wire.ASK, (name, args))

    def hand_over(self, item: wire.Encoded) -> bool:
        """Gives the engine an item of a generator, and returns whether more are wanted."""
        with self.turn:
            return bool(self._exchange(wire.ITEM, item))

    def waits(self, *, begins: bool) -> None:
        """Tells the engine that a wait for what other tasks make begins, or is over."""
        with self.turn:
            self._exchange(wire.WAITS, begins)

    def note(self, function: str) -> None:
        """See ``futures.engine.note_function``; a name is sent once in a row."""
        with self.turn:
            if self.is_busy and function != self._function_name:
                self._function_name = function
                self._link.send(wire.FUNCTION, function)

    def notice(self, event: str, args: tuple[object, ...]) -> None:
        """As an audit hook, tells the engine of a signal that a task sends to its own process."""
        if event not in ("os.kill", "os.killpg") or not self.is_busy:
            return
        if args[0] in (0, os.getpid()) and self.turn.acquire(timeout=_NOTICE_SECONDS):
            try:
                self._link.send(wire.ENDS, args[1])
            finally:
                self.turn.release()

    def forked(self, process: int) -> None:
        """Closes the connection in a process that a task has forked, which is no worker; see ``forks``."""
        self._forked_from = process
        self._link.close()
        self.turn = threading.RLock()
        self.is_busy = False

    def _exchange(self, kind: str, payload: object) -> Any:
        self._link.send(kind, payload)
        kind, (succeeded, answer) = self._link.receive()
        assert kind == wire.REPLY
        if not succeeded:
            raise answer.error()
        return self._link.value(answer) if isinstance(answer, wire.Transfer) else answer
