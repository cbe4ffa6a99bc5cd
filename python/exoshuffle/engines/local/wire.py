"""What the engine and a worker process say to each other, and how it is framed.

Guarantee: whatever references a message contains are counted before it is sent, so none of their objects goes while it
travels. One side speaks at a time: the engine sends a task and then only answers; the worker asks, and ends with
``DONE``, ``RETURNED`` (the number of a reference whose value it is, as it was) or ``ERROR``.

A frame to a worker is a pickle of (references lent, message), one to the engine of (message, references given back,
slices given back, blocks discarded, streams dropped).
"""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import Any

from exoshuffle.engines.local import values
from exoshuffle.engines.local.values import StoredValue
from exoshuffle.errors import EngineError, RemoteTraceback

# Engine to worker.
HELLO, TASK, ACTOR, METHOD, COLLECT, REPLY = "hello", "task", "actor", "method", "collect", "reply"
# Worker to engine.
READY, ASK, ITEM, DONE, RETURNED, ERROR = "ready", "ask", "item", "done", "returned", "error"


@dataclass(frozen=True)
class Hello:
    """What a worker learns of its engine when it starts; see ``LocalEngine``."""

    inline_bytes: int
    memory_limit: int
    budget_bytes: int
    spill_dirs: list[str]
    num_cpus: int


@dataclass(frozen=True)
class Order:
    """What a worker is to run.

    Attributes:
        code: Digest and pickle of the function, without the pickle if the worker has it, without a digest if it is not
            to keep it; None for a method.
        method: Name of the method; empty for a function.
        data: The packed arguments.
        values: For each reference among them its value, or a list of values.
        num_returns: As in ``TaskOptions``.
        forgotten: Digests of functions that will not be asked for any more.
    """

    code: tuple[bytes, bytes | None] | None
    method: str
    data: bytes
    values: list[Any]
    num_returns: int | str
    forgotten: list[bytes]


@dataclass(frozen=True)
class Transfer:
    """A loaded value on its way to a worker.

    Attributes:
        stored: How it is stored; without a block number, which says nothing there.
        num_slices: Slices of the whole object.
        index: Which of them.
        slices: For each slice (number of the pin, pieces of the arena), or its bytes if it does not lie there.
    """

    stored: StoredValue
    num_slices: int
    index: int | range | None
    slices: list[tuple[int, list[tuple[int, int]]] | bytes]


@dataclass(frozen=True)
class Failure:
    """An exception on its way to another process, with its traceback as text."""

    data: bytes
    text: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Packs an exception; one that cannot be pickled becomes an ``EngineError`` with its name and message."""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        try:
            data = values.dumps(error)
            pickle.loads(data)  # noqa: S301  written just now
        except Exception:  # noqa: BLE001  exceptions of users may fail in any way when pickled
            plain = EngineError(f"{type(error).__name__}: {error}")
            plain.retryable = getattr(error, "retryable", False)
            data = pickle.dumps(plain)
        return cls(data, text)

    def error(self) -> BaseException:
        """The exception again; its cause shows where it was raised."""
        error: BaseException = pickle.loads(self.data)  # noqa: S301  written by this application
        if error.__cause__ is None:
            error.__cause__ = RemoteTraceback(self.text)
        return error
