"""Every exception that Exoshuffle raises on purpose, and notes on those of others that pass through.

Guarantee: a message names the value, the limit and the remedy in one sentence; the class says who has to act.

    ExoshuffleError
    ├─ OptionsError (ValueError)          a wrong option, rejected before any work
    │  └─ MemoryLimitError                cannot fit into the memory limit
    │     └─ LargeGroupError              nor can the rows of one key, which are needed together
    ├─ InputError                         the user's data or paths
    │  ├─ SchemaError                     unknown or unsortable column, schemas that differ
    │  └─ CorruptFileError                a file that cannot be read as its format
    ├─ OutputError (OSError)              the output cannot be written, or exists
    ├─ StorageError (OSError)             spilling
    │  ├─ DiskFullError
    │  └─ CorruptBlockError               a spilled block failed its checksum (retryable: recomputed from lineage)
    ├─ ShuffleCheckError                  rows were lost, repeated or changed between maps and reduces
    ├─ EngineError
    │  ├─ ClosedError                     used after close
    │  ├─ ForkedEngineError               used in a process that was forked from the engine's
    │  ├─ BlockLostError                  an object's bytes are gone and cannot be recomputed
    │  ├─ TaskCancelledError
    │  ├─ WorkerDiedError                 the process of a task or actor ended under it (retryable)
    │  ├─ ActorDiedError                  the actor is gone, and with it the call
    │  └─ ProtocolError                   driver and workers are of different versions
    └─ TaskError                          a task failed: its name, attempt and cause

``retryable`` says whether the engine may run a failed task again; nothing matches on names or messages.
"""

from __future__ import annotations

import contextlib
import difflib
import heapq
import sys
from collections.abc import Sequence
from types import TracebackType

#: Characters of a value that a message shows.
_SHOWN = 80
#: Names that a message lists; of more it shows the nearest.
_LISTED = 12


class ExoshuffleError(Exception):
    """Base of all errors of this package."""

    retryable = False


class OptionsError(ExoshuffleError, ValueError):
    """An option has a value that cannot work; raised before any work starts."""


class MemoryLimitError(OptionsError):
    """The work cannot be done within the memory limit; the message names the smallest that would do."""


class LargeGroupError(MemoryLimitError):
    """The rows of one key must be in memory together and do not fit; found while the shuffle runs. Names the key.

    By the strategy ``streaming``, the rows of one partition; names that.
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

    A defect of a strategy, an engine or a machine's memory. Not retryable: another attempt would get the same bytes.
    """


class EngineError(ExoshuffleError):
    """The engine cannot do what was asked."""


class ClosedError(EngineError):
    """The engine was closed."""


class ForkedEngineError(EngineError):
    """The engine is that of the process which this one was forked from, and cannot be used here.

    ``exoshuffle.init()`` starts one here, with a store and a memory limit of its own. References and what is iterated
    are of the engine that made them: a child that needs values gets them before it is forked, or is spawned.
    """

    @classmethod
    def of(cls, process: int) -> ForkedEngineError:
        """The error for an engine of the process with this number."""
        return cls(
            f"the engine belongs to process {process}, which this process was forked from, and cannot be used here; "
            "call exoshuffle.init() in this process to start another, or start the process by spawn instead of fork"
        )


class BlockLostError(EngineError):
    """The bytes of an object are gone and it has no lineage to compute them again."""


class TaskCancelledError(EngineError):
    """The task was cancelled before it produced its result."""


class WorkerDiedError(EngineError):
    """The process that ran a task ended under it: killed, out of memory, or a crash in native code."""

    retryable = True


class ActorDiedError(EngineError):
    """The actor's process died or was ended, and it has no restarts left; or a call was running when it died."""


class ProtocolError(EngineError):
    """Driver and workers run different versions of Exoshuffle; install the same one everywhere."""


class RemoteTraceback(Exception):  # noqa: N818  not an error of its own: it shows where the one it explains was raised
    """The traceback of an exception that was raised in another process, as text; the cause of that exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


class TaskError(ExoshuffleError):
    """A task failed for good. ``__cause__`` is the exception of the last attempt, with its traceback.

    Attributes:
        task_name: Name of the task.
        attempt: Number of the last attempt, from 1.
        node: Name of the node where it ran; empty if it never started.
    """

    def __init__(self, task_name: str, attempt: int, cause: BaseException, node: str = "") -> None:
        super().__init__(f"task {task_name} failed in attempt {attempt}: {cause}")
        self.task_name = task_name
        self.attempt = attempt
        self.node = node
        self.__cause__ = cause

    def __reduce__(self) -> tuple[type[TaskError], tuple[str, int, BaseException | None, str]]:
        # An exception is pickled by its message alone, unless it says otherwise.
        return TaskError, (self.task_name, self.attempt, self.__cause__, self.node)


def shown(value: object) -> str:
    """A value of any kind as text for a message: in one line, and no longer than that."""
    text = " ".join(repr(value).splitlines())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def unknown(kind: str, name: str, known: Sequence[str]) -> str:
    """The message about a name that there is not: with all those that there are, or the nearest of many.

    Cost: 10 ms for 3,000 names.
    """
    if len(known) <= _LISTED:
        return f"there is no {kind} {name!r}; the {kind}s are {', '.join(map(repr, known))}"
    nearest = ", ".join(map(repr, nearest_names(name, known)))
    return f"there is no {kind} {name!r} among {len(known):,}; the nearest are {nearest}"


def nearest_names(name: str, known: Sequence[str]) -> list[str]:
    """The three names that are most like one, whatever its case; the most alike first."""
    matcher = difflib.SequenceMatcher(b=name.lower(), autojunk=False)

    def likeness(other: str) -> tuple[bool, float]:
        matcher.set_seq1(other.lower())
        return name.lower() == other.lower(), matcher.quick_ratio()

    # By their letters first, which is fast, and then by their order, too.
    alike = heapq.nlargest(50, known, key=likeness)

    def exact_likeness(other: str) -> tuple[bool, float]:
        matcher.set_seq1(other.lower())
        return name.lower() == other.lower(), matcher.ratio()

    return heapq.nlargest(3, alike, key=exact_likeness)


class Noted(contextlib.AbstractContextManager[None]):
    """Around a function of the user: what it raises passes through, with a note (Python 3.11 and later show it).

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
        if sys.version_info >= (3, 11):
            error.add_note(self._note)
        else:
            # Where newer versions of Python keep them, so that notes travel to those.
            error.__notes__ = [*getattr(error, "__notes__", []), self._note]  # type: ignore[attr-defined]
