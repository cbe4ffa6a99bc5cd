"""Which rows a task has."""

from __future__ import annotations

from exoshuffle.late_dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Which rows of the input a task has.

    Attributes:
        part: Number of the part of the input, of a map or of a partition.
        source: Number of the file that they come from; the part, if it is none.
        first_row: Number of the first row in that.
        name: Their name in errors, if that is known.
    """

    part: int
    source: int
    first_row: int = 0
    name: str = ""

    @classmethod
    def of_part(cls, part: int, name: str = "") -> Place:
        """Of rows that no file numbers."""
        return cls(part, part, name=name)
