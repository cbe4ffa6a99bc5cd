"""Sort-merge joins as data: what one needs to know of sorted pieces of both sides, and which of them meet.

A piece is a block of rows that are in order; the pieces of a side follow each other in order. A merge join looks at
every piece once, says which pieces meet, and joins two of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Piece:
    """What is known of a piece.

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
        edge: Number of the right piece of which ``edge_of`` is wanted beside; None for no piece.
        keeps_beyond: Whether left rows beyond the end of the right piece that has no edge are joined here, too.
    """

    left: int
    right: int | None = None
    edge: int | None = None
    keeps_beyond: bool = True


class MergeJoin(Protocol):
    """How two sorted sides are joined."""

    @property
    def name(self) -> str:
        """Of the operator, for plans and errors."""
        ...

    @property
    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns that each side is sorted by, ascending, nulls last."""
        ...

    @property
    def output_schema(self) -> pa.Schema:
        """Of the result."""
        ...

    @property
    def row_bytes(self) -> int:
        """Memory for each row of both pieces, beside the pieces."""
        ...

    def look(self, side: int, table: pa.Table) -> Piece:
        """What is to be known of a piece of the left side (0) or the right one (1), which has rows."""

    def follow(self, pieces: Sequence[Piece]) -> bool:
        """Whether pieces of one side, as they come, are in order."""

    def edge_of(self, table: pa.Table) -> pa.Table:
        """The row of a right piece that neighbours of it have to know; a table of one row."""

    def meetings(self, lefts: Sequence[Piece], rights: Sequence[Piece]) -> list[Meeting]:
        """Which pieces meet, in the order of the result."""

    def run(
        self, left: pa.Table, right: pa.Table | None, edge: pa.Table | None, *, keeps_beyond: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the result that two pieces make; see ``Meeting``."""
