"""What the engine and a worker process say to each other, and how it is framed.

Guarantee: whatever references a message contains are counted before it is sent, so none of their objects goes while it
travels. One side speaks at a time: the engine sends a task and then only answers; the worker asks, and ends with
``DONE``, ``RETURNED`` (the number of a reference whose value it is, as it was) or ``ERROR``. What a task prints and
logs comes as ``SAID``, and that it sends its own process a signal as ``ENDS``, before that and between questions;
nobody answers.

A frame to a worker is a pickle of (references lent, message), one to the engine of (message, references given back,
slices given back, blocks discarded, streams dropped).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from exoshuffle.engines.carrying import Carried, shown_to_come_from, traceback_of
from exoshuffle.engines.local.objects import values
from exoshuffle.engines.local.objects.identity import Handle
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.errors import RemoteTraceback
from exoshuffle.futures.refs import Ref

# Engine to worker.
HELLO, TASK, ACTOR, METHOD, COLLECT, REPLY = "hello", "task", "actor", "method", "collect", "reply"
# Worker to engine.
READY, ASK, ITEM, SAID, ENDS = "ready", "ask", "item", "said", "ends"
DONE, RETURNED, ERROR = "done", "returned", "error"
#: Which function of the user a task calls from here on.
FUNCTION = "function"

#: A fork server's first word, the most that it is told at once, and how it tells the exit code of a child, as
#: ``subprocess`` has it.
FORKS = b"forks"
MAX_FORK_BYTES = 1 << 16
EXIT_CODE = struct.Struct("i")
#: How a worker ends whose connection to the engine was closed in its own process.
EXIT_CLOSED = 74

#: How a worker names what it encoded: inline pickles, number of its block, whether pickled, references inside.
Encoded = tuple["tuple[bytes, ...] | None", "int | None", bool, tuple[Ref, ...]]
#: A function or class: its digest, its pickle unless the engine has it, and the handles inside.
PackedCode = tuple[bytes, "bytes | None", Sequence[Handle]]
#: A slice: the number of its pin and the pieces of the arena where it lies; or its bytes, if it does not lie there.
Piece = tuple[int, list[tuple[int, int]]] | bytes


@dataclass(frozen=True)
class Hello:
    """What a worker learns of its engine when it starts; see ``LocalEngine``."""

    inline_bytes: int
    memory_limit: int
    budget_bytes: int
    spill_dirs: list[str]
    num_cpus: int
    log_level: int


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
        most_bytes: What the process may have before it gives back what lies idle.
    """

    code: tuple[bytes, bytes | None] | None
    method: str
    data: bytes
    values: list[Transfer | list[Transfer]]
    num_returns: int | str
    forgotten: list[bytes]
    most_bytes: int


@dataclass(frozen=True)
class Transfer:
    """A loaded value on its way to a worker.

    Attributes:
        stored: How it is stored; without a block number, which says nothing there.
        num_slices: Slices of the whole object.
        index: Which of them.
        slices: Where each of its slices is.
    """

    stored: StoredValue
    num_slices: int
    index: int | range | None
    slices: list[Piece]


@dataclass(frozen=True)
class Failure:
    """An exception on its way to another process, with its traceback as text."""

    carried: Carried
    traceback: RemoteTraceback

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Packs an exception; see ``carrying``."""
        return cls(Carried.of(error, values.dumps), traceback_of(error))

    def error(self) -> BaseException:
        """The exception again; the first of its causes shows where it was raised."""
        return shown_to_come_from(self.carried.error(), self.traceback)
