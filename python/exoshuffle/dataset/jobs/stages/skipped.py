"""Rows that were skipped because a user's function failed for them: from the notes of tasks to the result's summary.

Guarantee: each counts once, however often its task ran, and has its number among all rows that the function got.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence

from exoshuffle.dataset.jobs.stages.parts import Key
from exoshuffle.errors import SkippedWarning
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.skipping import Notes, Skip
from exoshuffle.operators.steps.step import Step
from exoshuffle.units import counted

#: Skips of a result that are named.
MOST_NAMED = 1000


@dataclass(frozen=True)
class Skipped:
    """Neighbouring rows that were skipped.

    Attributes:
        function: The name of the function or class that failed for them.
        first_row: Number of the first one, from 0, among the rows that the function got.
        num_rows: How many: those of a batch, or 1.
        path: The value of the first one's column ``path``, if there is one.
        error: The class and the text of the exception.
    """

    function: str
    first_row: int
    num_rows: int
    path: str | None
    error: str

    def __str__(self) -> str:
        last = self.first_row + self.num_rows - 1
        rows = f"row {self.first_row}" if self.num_rows == 1 else f"rows {self.first_row} to {last}"
        return f"{rows}{f' of all, in {self.path}' if self.path else ''}: {self.error}"


class SkippedRows:
    """The rows that the pipelines of one result have skipped.

    Attributes:
        num_rows: How many rows.
        first: The first ones of each pipeline.
        num_unlike: How many because a result had another schema.
        unlike: The first one of these.
    """

    def __init__(self) -> None:
        self.num_rows = self.num_unlike = 0
        self.first: list[Skipped] = []
        self.unlike: Skipped | None = None

    def add(self, found: SkippedRows) -> None:
        """Adds what a pipeline has skipped, and warns of it."""
        if not found.num_rows:
            return
        self.num_rows += found.num_rows
        self.first += found.first[: MOST_NAMED - len(self.first)]
        self.num_unlike += found.num_unlike
        self.unlike = self.unlike or found.unlike
        warnings.warn(found.told(), SkippedWarning, stacklevel=_level_of_caller())

    def told(self) -> str:
        """Says how many were skipped and why; results of another schema, whose function may skip all, in any case."""
        first = self.first[0]
        text = (
            f"{counted(self.num_rows, 'row')} skipped, since functions failed for them; the first was skipped by "
            f"{first.function}, {first}"
        )
        if self.unlike is not None and self.unlike != first:
            text += (
                f"; {counted(self.num_unlike, 'row')} since the result had another schema, the first by "
                f"{self.unlike.function}, {self.unlike}"
            )
        return text


def _level_of_caller() -> int:
    """Returns the ``stacklevel`` at which the caller of this function warns of the program's own line."""
    package = __name__.partition(".")[0]
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level


class NotesOfTasks:
    """The notes of the tasks of a running pipeline."""

    def __init__(self) -> None:
        self._notes: dict[tuple[int, Key], Sequence[Notes]] = {}

    def note(self, stage: int, place: Key, notes: Sequence[Notes]) -> None:
        """Keeps the notes of the task that began at this place; those of an attempt before it no longer count."""
        self._notes[stage, place] = notes

    def found(self) -> SkippedRows:
        """Returns what was skipped, stage by stage in the order of rows."""
        skipped = SkippedRows()
        before: dict[tuple[int, int], int] = {}
        for (stage, _), of_task in sorted(self._notes.items()):
            for step, notes in enumerate(of_task):
                start = before.get((stage, step), 0)
                before[stage, step] = start + notes.num_rows
                skipped.num_rows += notes.num_skipped
                skipped.num_unlike += notes.num_unlike
                skipped.first += [
                    _numbered(one, notes.name, start)
                    for one in notes.first[: MOST_NAMED - len(skipped.first)]
                ]
                if skipped.unlike is None and notes.unlike is not None:
                    skipped.unlike = _numbered(notes.unlike, notes.name, start)
        return skipped


def _numbered(one: Skip, function: str, start: int) -> Skipped:
    """Returns what a task skipped, with its number among all rows; so many came before those of the task."""
    return Skipped(function, start + one.first_row, one.num_rows, one.path, one.error)


def noting(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], list[Notes]]:
    """Returns steps that note what they skip in a task, with these notes."""
    noted, notes = list[Step](), list[Notes]()
    for step in steps:
        if isinstance(step, MapBatches) and step.on_error == "skip":
            notes.append(Notes(step.name))
            step = step.noting(notes[-1])  # noqa: PLW2901  the step that takes its place
        noted.append(step)
    return tuple(noted), notes
