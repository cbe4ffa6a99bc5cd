"""The kinds of aggregate functions, and of the parts that maps send for them.

Templates are those of ``sql.groups.Operands``; parts also mention other parts of their column by name.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from exoshuffle.late_dataclasses import dataclass


@dataclass(frozen=True)
class Folded:
    """A part that is computed, of one row per key.

    Attributes:
        type: Name of its type, for ``part_type``.
        row: SQL for a single row; empty: the value itself.
        fold: Aggregate SQL over rows.
        merge: Aggregate SQL over rows of parts.
    """

    type: str
    row: str
    fold: str
    merge: str


@dataclass(frozen=True)
class Picked:
    """A part of one row per key that is the column's value in one of the rows.

    Attributes:
        fold: Aggregate SQL for the number of that row, the same over rows and over rows of parts.
    """

    fold: str
    type: str = field(default="own", init=False)
    row: str = field(default="", init=False)

    @property
    def merge(self) -> str:
        """See ``Folded``."""
        return self.fold


@dataclass(frozen=True)
class Kept:
    """A part that is the column in the rows that matter.

    Attributes:
        keep: A query for the numbers of these rows.
        merge: Aggregate SQL over rows of parts.
        type: As in ``Folded``.
        row: SQL for a single row; empty: the value itself.
        is_per_value: Whether every different value of a group matters.
    """

    keep: str
    merge: str
    type: str = "own"
    row: str = ""
    is_per_value: bool = False


Part = Folded | Picked | Kept


@dataclass(frozen=True)
class Function:
    """An aggregate function.

    Attributes:
        takes: The types it is defined for; a word of ``TAKES``.
        type: Name of the result's type, for ``result_type``.
        direct: Aggregate SQL over rows; that of a function with a fraction makes the list of those in ``{parameter}``.
        parts: The parts that maps send of the column; empty if rows cannot be combined.
        finish: SQL for the result over the merged parts.
        result: Whether the SQL gives a value, the number of the row whose value it is, or a list of such numbers.
        parameter: The kind of parameter that the function needs beside the column.
    """

    takes: str
    type: str
    direct: str
    parts: tuple[str, ...] = ()
    finish: str = ""
    result: Literal["value", "row", "rows"] = "value"
    parameter: Literal["", "fraction", "number"] = ""
