"""Rows that were skipped because a user's function failed for them: from the notes of tasks to the result's summary.

Guarantee: each counts once, however often its task ran, and has its number among all rows that the function got.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from exoshuffle.dataset.jobs.stages.parts import Key
from exoshuffle.errors import SkippedWarning
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.skipping import Notes
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
        return f"{rows}{f' of {self.path}' if self.path else ''}: {self.error}"


class SkippedRows:
    """What the pipelines of one result have skipped.

    Attributes:
        num_rows: How many rows.
        first: The first ones of each pipeline.
    """

    def __init__(self) -> None:
        self.num_rows = 0
        self.first: list[Skipped] = []

    def add(self, found: SkippedRows) -> None:
        """Adds what a pipeline has skipped, and warns of it."""
        if not found.num_rows:
            return
        self.num_rows += found.num_rows
        self.first += found.first[: MOST_NAMED - len(self.first)]
        first = found.first[0]
        warnings.warn(
            f"{counted(found.num_rows, 'row')} skipped, since functions failed for them; the first was skipped by "
            f"{first.function}, {first}",
            SkippedWarning,
            stacklevel=2,
        )


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
                skipped.first += [
                    Skipped(notes.name, start + one.first_row, one.num_rows, one.path, one.error)
                    for one in notes.first[: MOST_NAMED - len(skipped.first)]
                ]
        return skipped


def noting(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], list[Notes]]:
    """Returns steps that note what they skip in a task, with these notes."""
    noted, notes = list[Step](), list[Notes]()
    for step in steps:
        if isinstance(step, MapBatches) and step.on_error == "skip":
            notes.append(Notes(step.name))
            step = step.noting(notes[-1])  # noqa: PLW2901  the step that takes its place
        noted.append(step)
    return tuple(noted), notes
