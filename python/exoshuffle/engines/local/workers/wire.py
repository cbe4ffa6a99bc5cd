"""The messages between the engine and a worker process, and how they are framed.

Guarantee: references in a message are counted before it is sent, so none of their objects goes while it travels. One
side speaks at a time. The engine sends a task and then only answers. The worker asks, and ends with ``DONE``,
``RETURNED`` (the number of a reference whose unchanged value is the result) or ``ERROR``. Before that, and between
questions, ``SAID`` has what a task prints and logs, and ``ENDS`` a signal that it sends its own process. Nobody answers
these two.

A frame to a worker is a pickle of (references lent, sizes, message). Behind it come bytes of these sizes, piece by
piece: slices that a worker cannot map, and large functions. A frame to the engine is a pickle of (message, references
given back, slices given back, blocks discarded, streams dropped).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from exoshuffle._native import Slice
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
#: A wait for what other tasks make begins (True) or is over (False): the task lends its CPU meanwhile.
WAITS = "waits"
DONE, RETURNED, ERROR = "done", "returned", "error"
#: The user's function that a task calls from here on.
FUNCTION = "function"

#: The first word of a fork server: whether its workers are forks, or are started anew. Then the most bytes that it is
#: told at once, and the form of a child's exit code, which is that of ``subprocess``.
FORKS, STARTS_ANEW = b"forks", b"starts anew"
MAX_FORK_BYTES = 1 << 16
EXIT_CODE = struct.Struct("i")
#: The exit code of a worker whose connection to the engine was closed in its own process.
EXIT_CLOSED = 74

#: A value that a worker encoded: inline pickles, number of its block, whether pickled, references inside.
Encoded = tuple["tuple[bytes, ...] | None", "int | None", bool, tuple[Ref, ...]]
#: A function or class: its digest, its pickle unless the engine has it, and the handles inside.
PackedCode = tuple[bytes, "bytes | None", Sequence[Handle]]
#: A slice: the number of its pin and its pieces of the arena. If it does not lie in the arena, its number among the
#: slices whose bytes come behind the frame.
Piece = tuple[int, list[tuple[int, int]]] | int
#: The size of a message with some of these bytes. A slice of 100 MB inside a frame took 400 MB of the program, and 300
#: MB of the worker. Frames are pickles of pickles.
PIECE_BYTES = 1 << 20


def in_order(pickled: bytes, behind: list[Slice | bytes]) -> bytes | int:
    """Returns what an order has of a function: the pickle, or its number behind the frame, where a large one is put."""
    if len(pickled) <= PIECE_BYTES:
        return pickled
    behind.append(pickled)
    return len(behind) - 1


@dataclass(frozen=True)
class Hello:
    """Facts about the engine that a worker gets when it starts; see ``LocalEngine``."""

    inline_bytes: int
    memory_limit: int
    budget_bytes: int
    spill_dirs: list[str]
    spill_codec: str | None
    num_cpus: int
    log_level: int


@dataclass(frozen=True)
class Order:
    """An order to a worker to run a function or method.

    Attributes:
        code: Digest and pickle of the function; None for a method. The pickle is left out if the worker has it, the
            digest if the worker is not to keep it. A large pickle comes behind the frame, under a number.
        method: Name of the method; empty for a function.
        data: The packed arguments.
        values: For each reference among the arguments its value, or a list of values.
        num_returns: As in ``TaskOptions``.
        forgotten: Digests of functions that will not be asked for any more.
        most_bytes: How much the process may have before it gives back idle memory.
        gpus: The GPUs of the task or actor; None for a call of an actor, which has them.
    """

    code: tuple[bytes, bytes | int | None] | None
    method: str
    data: bytes
    values: list[Transfer | list[Transfer]]
    num_returns: int | str
    forgotten: list[bytes]
    most_bytes: int
    gpus: tuple[int, ...] | None


@dataclass(frozen=True)
class Transfer:
    """A loaded value on its way to a worker.

    Attributes:
        stored: How the value is stored; without a block number, which says nothing in a worker.
        num_slices: Slices of the whole object.
        index: Which of these are transferred.
        slices: Where each transferred slice is.
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
        """Makes the exception again; the first of its causes shows where it was raised."""
        return shown_to_come_from(self.carried.error(), self.traceback)
