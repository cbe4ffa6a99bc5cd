"""Sort-merge joins as data: what a join needs to know of sorted pieces of both sides, and which of them meet.

A piece is a block of rows that are in order; the pieces of a side follow each other in order. A merge join looks at
every piece once, says which pieces meet, and joins two of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from exoshuffle.late_dataclasses import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Piece:
    """The facts about a piece that decide which pieces it meets.

    Attributes:
        ends: The keys of its first and last row; a table of two rows.
        is_sorted: Whether its rows are in order.
    """

    ends: pa.Table
    is_sorted: bool


@dataclass(frozen=True)
class Meeting:
    """A left piece and the right piece that it meets.

    Attributes:
        left: Number of the left piece.
        right: Number of the right piece; None if the right side has none.
        edge: Number of the right piece whose ``edge_of`` is needed, too; None for no piece.
        keeps_beyond: Whether left rows beyond the end of the right piece that has no edge are joined here, too.
    """

    left: int
    right: int | None = None
    edge: int | None = None
    keeps_beyond: bool = True


class MergeJoin(Protocol):
    """A join of two sorted sides."""

    @property
    def name(self) -> str:
        """The name of the operator, for plans and errors."""
        ...

    @property
    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns that each side is sorted by, ascending, nulls last."""
        ...

    @property
    def output_schema(self) -> pa.Schema:
        """The schema of the result."""
        ...

    @property
    def left_columns(self) -> Mapping[str, str]:
        """Columns of the result that are columns of the left side, whose rows all come; with their names there."""
        ...

    @property
    def row_bytes(self) -> int:
        """Memory for each row of both pieces, beside the pieces."""
        ...

    def look(self, side: int, table: pa.Table) -> Piece:
        """Returns the facts about a piece of the left side (0) or the right one (1); it has rows."""

    def follow(self, pieces: Sequence[Piece]) -> bool:
        """Returns whether the pieces of one side are in order as they come."""

    def edge_of(self, table: pa.Table) -> pa.Table:
        """Returns the row of a right piece that its neighbours have to know, as a table of one row."""

    def meetings(self, lefts: Sequence[Piece], rights: Sequence[Piece]) -> list[Meeting]:
        """Returns which pieces meet, in the order of the result."""

    def run(
        self, left: pa.Table, right: pa.Table | None, edge: pa.Table | None, *, keeps_beyond: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the result that two pieces make; see ``Meeting``."""
