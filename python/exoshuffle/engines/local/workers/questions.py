"""What code in a worker process asks its engine, and what it notes for it, over the one connection between them.

Guarantee: one thread at a time has the connection, and only while a task runs.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from exoshuffle.engines.local.workers import wire
from exoshuffle.engines.local.workers.link import Link
from exoshuffle.errors import EngineError, ForkedEngineError

#: A task that ends its process while another thread of it has the connection is not held up for longer.
_NOTICE_SECONDS = 0.05


class Questions:
    """The worker's side of the conversation while a task runs.

    Attributes:
        turn: Of the connection. Who has it may print, for example where it is unpickled what came.
        is_busy: Whether a task runs.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self.turn = threading.RLock()
        self.is_busy = False
        #: Of the user; which the running task called last.
        self._function_name = ""
        #: The worker that this process was forked from, if it is not the worker itself.
        self._forked_from: int | None = None

    def begin(self) -> None:
        """A task begins."""
        self.is_busy = True
        self._function_name = ""

    def ask(self, name: str, *args: Any) -> Any:
        """Asks the engine and waits for the answer; ``Requests`` has what there is to ask."""
        with self.turn:
            if self._forked_from is not None:
                raise ForkedEngineError.of(self._forked_from)
            if not self.is_busy:
                raise EngineError(
                    "in a worker process the engine can be used while a task runs only"
                )
            return self._exchange(wire.ASK, (name, args))

    def hand_over(self, item: wire.Encoded) -> bool:
        """Gives the engine an item of a generator; whether more are wanted."""
        with self.turn:
            return bool(self._exchange(wire.ITEM, item))

    def note(self, function: str) -> None:
        """See ``futures.engine.note_function``; a name is sent once in a row."""
        with self.turn:
            if self.is_busy and function != self._function_name:
                self._function_name = function
                self._link.send(wire.FUNCTION, function)

    def notice(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit hook: tells the engine of a signal that a task sends to its own process."""
        if event not in ("os.kill", "os.killpg") or not self.is_busy:
            return
        if args[0] in (0, os.getpid()) and self.turn.acquire(timeout=_NOTICE_SECONDS):
            try:
                self._link.send(wire.ENDS, int(args[1]))
            finally:
                self.turn.release()

    def forked(self, process: int) -> None:
        """In a process that a task has forked, which is no worker; see ``forks``."""
        self._forked_from = process
        self._link.close()
        self.turn = threading.RLock()
        self.is_busy = False

    def _exchange(self, kind: str, payload: Any) -> Any:
        self._link.send(kind, payload)
        kind, (succeeded, answer) = self._link.receive()
        assert kind == wire.REPLY
        if not succeeded:
            raise answer.error()
        return self._link.value(answer) if isinstance(answer, wire.Transfer) else answer
