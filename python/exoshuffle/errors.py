"""Every exception that Exoshuffle raises on purpose, and notes on others' exceptions that pass through.

Guarantee: a message names the value, the limit and the remedy in one sentence; the class says who has to act.

    ExoshuffleError
    ├─ OptionsError (ValueError)          a wrong option, rejected before any work
    │  └─ MemoryLimitError                cannot fit into the memory limit
    │     ├─ LargeGroupError              nor can the rows of one key, which are needed together
    │     └─ FunctionMemoryError          a function took more than it declared, and there was no more
    ├─ InputError                         the user's data or paths
    │  ├─ SchemaError                     unknown or unsortable column, schemas that differ
    │  └─ CorruptFileError                a file that cannot be read as its format
    ├─ OutputError (OSError)              the output cannot be written, or exists
    ├─ StorageError (OSError)             spilling
    │  ├─ DiskFullError
    │  └─ CorruptBlockError               a spilled block failed its checksum (retryable: recomputed from lineage)
    ├─ ShuffleCheckError                  rows were lost, repeated or changed between maps and reduces
    ├─ NondeterminismError                a function made other rows when it was called again
    ├─ EngineError
    │  ├─ ClosedError                     used after close
    │  ├─ ForkedEngineError               used in a process that was forked from the engine's
    │  ├─ DeadlockError                   nothing can happen any more in virtual time, and somebody waits
    │  ├─ BlockLostError                  an object's bytes are gone and cannot be recomputed
    │  ├─ TaskCancelledError
    │  ├─ WorkerDiedError                 the process of a task or actor ended while it ran (retryable)
    │  ├─ ActorDiedError                  the actor is gone, and with it the call
    │  └─ ProtocolError                   program and workers are of different versions
    └─ TaskError                          a task failed: name, attempt and cause; also of the cause's class

``retryable`` says whether the engine may run a failed task again; nothing matches on names or messages.
"""

from __future__ import annotations

import contextlib
import heapq
import operator
import sys
from collections.abc import Sequence
from types import GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import cast

#: Characters of a value that a message shows.
_SHOWN = 80
#: Names that a message lists; if there are more, it shows the nearest ones.
_LISTED = 12


class ExoshuffleError(Exception):
    """Base of all errors of this package."""

    retryable = False


class OptionsError(ExoshuffleError, ValueError):
    """An option has a value that cannot work; raised before any work starts."""


class MemoryLimitError(OptionsError):
    """The work cannot be done within the memory limit; the message names the smallest that would do.

    Attributes:
        part_bytes: Memory for decoding a part of a file, where it is this part that has no room; else 0.
        row_bytes: The most that a row of this part can have, or the bytes of a row that has no room; else 0.
    """

    def __init__(self, message: str, part_bytes: int = 0, row_bytes: int = 0) -> None:
        super().__init__(message)
        self.part_bytes = part_bytes
        self.row_bytes = row_bytes


class LargeGroupError(MemoryLimitError):
    """The rows of one key must be in memory together and do not fit; found while the shuffle runs.

    The message names the key. With the strategy ``streaming``, the rows of a whole partition must fit; the message
    names the partition.
    """


class FunctionMemoryError(MemoryLimitError):
    """A function took more memory in its worker process than was set apart for it, and the limit had no more.

    The process was stopped, with those that it had started, before the program would have exceeded its limit. The
    message names the function, the memory it had, and what to declare (``memory=``). It is not retryable: the function
    would take as much again. On a Ray that was not started here, a node had no memory left, and Ray ended the task.
    """


class InputError(ExoshuffleError):
    """The input is missing, empty or not what it is said to be."""


class SchemaError(InputError):
    """A column is unknown, cannot be sorted by, or differs between files."""


class CorruptFileError(InputError):
    """A file is truncated or does not hold its format."""


class OutputError(ExoshuffleError, OSError):
    """The output exists already or cannot be written."""


class StorageError(ExoshuffleError, OSError):
    """Spilling to disk failed."""


class DiskFullError(StorageError):
    """Every spill directory is full, or has less room than a shuffle will need; or the output's disk has."""


class CorruptBlockError(StorageError):
    """A spilled block came back different from what was written.

    Attributes:
        block_id: The store's number of the block.
    """

    retryable = True

    def __init__(self, message: str, block_id: int = -1) -> None:
        super().__init__(message)
        self.block_id = block_id


class ShuffleCheckError(ExoshuffleError):
    """The rows that came out of a shuffle are not those that went in; the message names stage, partition and map.

    It is a defect of a strategy, an engine or a machine's memory. It is not retryable: another attempt would get the
    same bytes.
    """


class NondeterminismError(ExoshuffleError):
    """A function or class made other rows when it was called again with the same ones; the message has both numbers."""


class SkippedWarning(UserWarning):
    """Rows were skipped because a user's function failed for them, as ``on_error="skip"`` asked for."""


class EngineError(ExoshuffleError):
    """The engine cannot do what was asked."""


class ClosedError(EngineError):
    """The engine was closed."""


class ForkedEngineError(EngineError):
    """The engine belongs to the process that this one was forked from, and cannot be used here.

    ``exoshuffle.init()`` starts an engine here, with a store and a memory limit of its own. References and iterators
    belong to the engine that made them. A child that needs values must get them before the fork, or be spawned.
    """

    @classmethod
    def of(cls, process: int) -> ForkedEngineError:
        """Returns the error for an engine of the process with this number."""
        return cls(
            f"the engine belongs to process {process}, which this process was forked from, and cannot be used here. "
            "Call exoshuffle.init() in this process to start another, or start the process by spawn instead of fork"
        )


class DeadlockError(EngineError):
    """Nothing is left to happen in virtual time while the program waits: a proof that it would wait for ever."""


class BlockLostError(EngineError):
    """The bytes of an object are gone, and no lineage can compute them again."""


class TaskCancelledError(EngineError):
    """The task was cancelled before it produced its result."""


class WorkerDiedError(EngineError):
    """The process that ran a task ended while it ran: killed, out of memory, or a crash in native code.

    Attributes:
        from_outside: Whether something other than the task may have ended it. Then the embedded engine runs the task
            again, more often than ``max_retries`` says, unless that is 0.
    """

    retryable = True
    from_outside = False


class ActorDiedError(EngineError):
    """The actor's process died or was ended and it has no restarts left; or a call was running when it died."""


class ProtocolError(EngineError):
    """The program and its workers run different versions of Exoshuffle; install the same one everywhere."""


class RemoteTraceback(Exception):  # noqa: N818  not an error of its own: it shows where the one it explains was raised
    """The traceback, as text, of an exception raised in another process; it is the cause of that exception.

    Attributes:
        text: The traceback.
        place: The innermost place in the user's code, and the process; empty if there is none.
    """

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(text, place)
        self.text = text
        self.place = place

    def __str__(self) -> str:
        return f"\n\n{self.text}"


class TaskError(ExoshuffleError):
    """A task failed for good. ``__cause__`` is the exception of the last attempt, with its traceback.

    If that exception comes from the user's function, this error has its class, arguments and attributes, too, so that
    ``except KeyError`` finds it. Some classes are left out, since they would mislead those who wait:
    ``TimeoutError``, the ends of iterations, and what ends programs (``SystemExit``, ``KeyboardInterrupt``).

    Attributes:
        task_name: Name of the task.
        attempt: Number of the last attempt, from 1.
        node: Name of the node where it ran; empty if it never started.
    """

    def __new__(cls, *args: object) -> TaskError:  # noqa: PYI034  of a class below it
        """Makes an instance that is also of the cause's class, where it can be."""
        cause = args[2] if len(args) > 2 else None
        if cls is TaskError and isinstance(cause, Exception):
            # A user's class may do anything when it is subclassed, or refuse.
            with contextlib.suppress(Exception):
                return _as_instance_of(cause)
        return super().__new__(cls)

    def __init__(self, task_name: str, attempt: int, cause: BaseException, node: str = "") -> None:
        self.task_name = task_name
        self.attempt = attempt
        self.node = node
        self.__cause__ = cause
        self._message = _message(self, cause)
        if type(self) is TaskError:
            self.args = (self._message,)
        else:
            self.args = cause.args
            own = vars(self)
            own.update({name: value for name, value in vars(cause).items() if name not in own})

    @classmethod
    def of(cls, task_name: str, attempt: int, cause: BaseException, node: str = "") -> TaskError:
        """Returns a ``TaskError``, whatever the class of the cause does when it is asked or subclassed."""
        try:
            return cls(task_name, attempt, cause, node)
        except Exception:  # noqa: BLE001  classes of users may fail in any way
            words = EngineError(f"{type(cause).__name__}: {said(cause)}")
            return cls(task_name, attempt, words, node)

    def __str__(self) -> str:
        return self._message

    def __reduce__(self) -> tuple[type[TaskError], tuple[str, int, BaseException | None, str]]:
        # An exception is pickled by its message alone, unless it says otherwise.
        return TaskError, (self.task_name, self.attempt, self.__cause__, self.node)


#: Exceptions that have a meaning for those who wait for results or iterate over them.
_SIGNS = (StopIteration, StopAsyncIteration, TimeoutError)


def _as_instance_of(cause: Exception) -> TaskError:
    """Returns an empty object that is a ``TaskError`` and an instance of the cause's class."""
    kind = type(cause)
    if isinstance(cause, (ExoshuffleError, *_SIGNS)):
        raise TypeError
    fields = {
        name: property(operator.attrgetter(f"__cause__.{name}"))
        for base in kind.__mro__[: -len(Exception.__mro__)]
        for name, found in vars(base).items()
        if isinstance(found, MemberDescriptorType | GetSetDescriptorType) and name[:2] != "__"
    }
    # These attributes are ours, even if the class has others of the same names.
    ours: dict[str, object] = {"task_name": "", "attempt": 0, "node": "", "_message": ""}
    words = {"__module__": __name__, "__qualname__": "TaskError", "__doc__": TaskError.__doc__}
    ours["__setattr__"] = BaseException.__setattr__
    made = type("TaskError", (TaskError, kind), {**fields, **ours, **words})
    # The built-in class that all others come from makes the object.
    built_in = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    return cast("TaskError", built_in.__new__(made, *cause.args))


def _message(error: TaskError, cause: BaseException) -> str:
    if isinstance(cause, ExoshuffleError):
        return f"task {error.task_name} failed in attempt {error.attempt}: {cause}"
    message = said(cause)
    lines = [f"{type(cause).__name__}: {message}" if message else type(cause).__name__]
    innermost: BaseException | None = cause
    while innermost is not None and not isinstance(innermost, RemoteTraceback):
        innermost = innermost.__cause__
    if innermost is not None and innermost.place:
        lines.append(f"at {innermost.place}")
    lines.append(f"task {error.task_name} failed in attempt {error.attempt}")
    if isinstance(cause, AttributeError | TypeError) and "pyarrow.lib." in message:
        lines.append(
            'batches are pyarrow tables; map_batches(..., batch_format="numpy") makes arrays, "pandas" frames'
        )
    return "\n  ".join(lines)


def said(error: BaseException) -> str:
    """Returns the message of any exception."""
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001  classes of users may fail in any way
        return f"its message cannot be had: {type(failure).__name__}"


def shown(value: object) -> str:
    """Returns any value as text for a message, in one line of at most ``_SHOWN`` characters."""
    text = " ".join(repr(value).splitlines())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def unknown(kind: str, name: str, known: Sequence[str]) -> str:
    """Returns the message about an unknown name, with all the known names, or the nearest if there are many.

    Cost: 10 ms for 3,000 names.
    """
    if len(known) <= _LISTED:
        return f"there is no {kind} {name!r}; the {kind}s are {', '.join(map(repr, known))}"
    nearest = ", ".join(map(repr, nearest_names(name, known)))
    return f"there is no {kind} {name!r} among {len(known):,}; the nearest are {nearest}"


def candidates(name: str, known: Sequence[str]) -> str:
    """Lists the names to use instead of an unsuitable one: all, or the three nearest of many; or "none of these"."""
    if len(known) <= _LISTED:
        return ", ".join(map(repr, known)) or "none of these"
    nearest = ", ".join(map(repr, nearest_names(name, known)))
    return f"{nearest} and {len(known) - 3:,} others"


def differing(found: Sequence[str], expected: Sequence[str]) -> tuple[str, str]:
    """Returns two differing lists, such as of columns, as texts: whole, or from the difference on if they are long."""
    if max(len(found), len(expected)) <= _LISTED:
        return f"({', '.join(found)})", f"({', '.join(expected)})"
    pairs = enumerate(zip(found, expected, strict=False))
    shorter = min(len(found), len(expected))
    start = next((index for index, (one, other) in pairs if one != other), shorter)
    return _part(found, start), _part(expected, start)


def _part(columns: Sequence[str], start: int) -> str:
    """Describes three columns of many, from ``start`` on."""
    texts = ", ".join(columns[start : start + 3]) or "none"
    several = "s" * (len(columns) != 1)
    more = ", …" * (start + 3 < len(columns))
    return f"{len(columns):,} column{several}, from number {start + 1:,} on: {texts}{more}"


def nearest_names(name: str, known: Sequence[str]) -> list[str]:
    """Returns the three names that are most like this one, the most alike first; case does not count."""
    import difflib

    matcher = difflib.SequenceMatcher(b=name.lower(), autojunk=False)

    def likeness(other: str) -> tuple[bool, float]:
        matcher.set_seq1(other.lower())
        return name.lower() == other.lower(), matcher.quick_ratio()

    # Compare letters first, which is fast, and then their order, too.
    alike = heapq.nlargest(50, known, key=likeness)

    def exact_likeness(other: str) -> tuple[bool, float]:
        matcher.set_seq1(other.lower())
        return name.lower() == other.lower(), matcher.ratio()

    return heapq.nlargest(3, alike, key=exact_likeness)


class Noted(contextlib.AbstractContextManager[None]):
    """Wraps a call of a user's function: its exceptions pass through with a note (shown by Python 3.11 and later).

    Why not a function with ``contextmanager``: see ``dataset.write.PlainErrors``.
    """

    def __init__(self, note: str) -> None:
        self._note = note

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Adds the note."""
        del kind, traceback
        if not isinstance(error, Exception):
            return
        # A user's class may refuse.
        with contextlib.suppress(Exception):
            if sys.version_info >= (3, 11):
                error.add_note(self._note)
            else:
                # Newer versions of Python keep notes here, so notes reach them, too.
                error.__notes__ = [*getattr(error, "__notes__", []), self._note]  # type: ignore[attr-defined]
