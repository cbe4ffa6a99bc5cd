"""Rows that steps leave out because a user's function failed for them, as ``on_error="skip"`` asks.

A step notes what it skips while a task runs. The notes travel with the rows of the task, so that each counts once,
however often tasks run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Literal, NamedTuple

from exoshuffle.errors import EngineError, Noted, OptionsError, SchemaError, StorageError, shown
from exoshuffle.late_dataclasses import dataclass

OnError = Literal["raise", "skip"]
#: Skips of a step in one task that are named; all are counted.
MOST_NAMED = 100
#: Characters of an error that are kept.
MOST_CHARACTERS = 300
#: The column that names the file of a row, as ``read_binary`` makes it.
PATH = "path"


def check_on_error(on_error: object) -> OnError:
    """Returns what to do with errors; raises ``OptionsError`` for another word."""
    if on_error not in ("raise", "skip"):
        raise OptionsError(f'on_error is {shown(on_error)}; write "raise" or "skip"')
    return on_error


def is_skippable(error: BaseException | None) -> bool:
    """Whether an error can be that of the rows: what the machine lacks, or an engine that ends, is not."""
    others = (MemoryError, EngineError, StorageError)
    return isinstance(error, Exception) and not isinstance(error, others)


@dataclass(frozen=True)
class Skip:
    """Neighbouring rows that were skipped.

    Attributes:
        first_row: Number of the first one, from 0, among the rows that the step got in this task.
        num_rows: How many.
        path: The value of their column ``path``, if there is one.
        error: The class and the text of the exception.
    """

    first_row: int
    num_rows: int
    path: str | None
    error: str


class Origin(NamedTuple):
    """The place of the rows that a function is called with: see ``Skip``."""

    first_row: int
    num_rows: int
    path: str | None

    @classmethod
    def of_row(cls, number: int, row: Mapping[str, object]) -> Origin:
        """Returns the origin of one row; numbers begin with 1."""
        path = row.get(PATH)
        return cls(number - 1, 1, path if isinstance(path, str) else None)


class Notes:
    """Rows that one step has skipped in one task.

    Attributes:
        name: The name of its function.
        num_rows: Rows that it got.
        num_skipped: Rows that it skipped.
        first: The first skips.
        num_unlike: Rows skipped because the result has another schema: the function may be at fault, not its rows.
        unlike: The first such skip.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.num_rows = self.num_skipped = self.num_unlike = 0
        self.first: list[Skip] = []
        self.unlike: Skip | None = None
        self._last = -1

    def skip(self, origin: Origin, error: BaseException) -> None:
        """Notes rows for which the function failed; rows that have been noted count once."""
        if origin.first_row == self._last:
            return
        self._last = origin.first_row
        self.num_skipped += origin.num_rows
        is_unlike = isinstance(error, SchemaError)
        if is_unlike:
            self.num_unlike += origin.num_rows
        if len(self.first) < MOST_NAMED or (is_unlike and self.unlike is None):
            text = f"{type(error).__name__}: {error}"
            kept = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
            skip = Skip(*origin, kept)
            if len(self.first) < MOST_NAMED:
                self.first.append(skip)
            if is_unlike and self.unlike is None:
                self.unlike = skip


class SkippingErrors(Noted):
    """Wraps a call of a user's function: does as ``Noted``, and then ends an error that is noted as a skip."""

    def __init__(self, note: str, notes: Notes, origin: Origin) -> None:
        super().__init__(note)
        self._notes, self._origin = notes, origin

    def __exit__(  # type: ignore[override]
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Ends the error if it can be that of the rows."""
        if error is None or not is_skippable(error):
            super().__exit__(kind, error, traceback)
            return False
        self._notes.skip(self._origin, error)
        return True
