"""The columns of an aggregation: those of the result, and those that maps send for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exoshuffle.operators.group_by.functions import PARTS, Function, Part
from exoshuffle.operators.sql.groups import Operands


@dataclass(frozen=True)
class Aggregate:
    """One column of the result.

    Attributes:
        name: Of the column.
        function: Its name, as users write it.
        definition: What it does with the column.
        column: What it aggregates; None: rows.
        parameter: As SQL; empty if the function takes none.
    """

    name: str
    function: str
    definition: Function
    column: str | None = None
    parameter: str = ""

    def direct(self, operands: Operands) -> str:
        """SQL over rows."""
        return operands.sql(self.definition.direct, self.column, self.parameter)

    def finish(self, merged: Mapping[PartColumn, str]) -> str:
        """SQL over merged parts, which have these names."""
        words = {word: merged[part] for word, part in self.parts.items()}
        return self.definition.finish.format_map(words)

    @property
    def parts(self) -> dict[str, PartColumn]:
        """What maps send for it, by the name of the part."""
        return {
            part: PartColumn(part, self.column, self.parameter) for part in self.definition.parts
        }


@dataclass(frozen=True)
class PartColumn:
    """One column of what maps send.

    Attributes:
        part: A key of ``PARTS``.
        column: What it is a part of; None: rows.
        parameter: As in ``Aggregate``.
    """

    part: str
    column: str | None
    parameter: str

    @property
    def kind(self) -> Part:
        """What the part is: ``Folded``, ``Picked`` or ``Kept``."""
        return PARTS[self.part]
