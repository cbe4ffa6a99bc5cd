"""The shares of ranks: the rows of an epoch are cut into global batches, and each rank gets its part of every batch.

Guarantee: of a batch of n rows, rank k of w gets rows ⌊kn/w⌋ to ⌊(k+1)n/w⌋. So shares of a batch differ by one row at
most, and all ranks take the same number of steps. Together they get every row once. A rank may get no row of a last
batch that has fewer rows than there are ranks. It gets a batch of no rows then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from exoshuffle.late_dataclasses import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


class Piece(NamedTuple):
    """Some rows of a record batch that follow each other.

    Attributes:
        batch: The record batch.
        start: Its first row that is meant.
        num_rows: How many rows are.
    """

    batch: pa.RecordBatch
    start: int
    num_rows: int


class Share(NamedTuple):
    """The part of a batch that a rank gets.

    Attributes:
        num_rows: Rows of the whole batch, of all ranks.
        pieces: The rows of the rank; at least one piece, which may have no row.
    """

    num_rows: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows as one record batch. Cost: copies rows that are put together of several pieces."""
        import pyarrow as pa

        parts = [piece.batch.slice(piece.start, piece.num_rows) for piece in self.pieces]
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


@dataclass(frozen=True)
class Shares:
    """The rule by which global batches are cut.

    Attributes:
        batch_size: Rows of a batch, of all ranks together.
        rank: Number of the rank, from 0.
        world: Number of ranks.
        drop_last: Leave out the last batch if it has fewer rows.
    """

    batch_size: int
    rank: int
    world: int
    drop_last: bool

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Share]:
        """Yields the share of each batch; nothing is copied."""
        parts: list[Piece] = []
        missing = self.batch_size
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                part = Piece(batch, start, min(missing, batch.num_rows - start))
                parts.append(part)
                start += part.num_rows
                missing -= part.num_rows
                del part
                if missing == 0:
                    share = self._share(parts, self.batch_size)
                    parts, missing = [], self.batch_size
                    yield share
                    del share
            del batch
        if parts and not self.drop_last:
            yield self._share(parts, self.batch_size - missing)

    def _share(self, parts: list[Piece], num_rows: int) -> Share:
        first, last = rank_bounds(num_rows, self.rank, self.world)
        own: list[Piece] = []
        at = 0
        for part in parts:
            start, stop = max(first - at, 0), min(last - at, part.num_rows)
            if start < stop:
                own.append(Piece(part.batch, part.start + start, stop - start))
            at += part.num_rows
        return Share(num_rows, tuple(own) or (parts[0]._replace(num_rows=0),))


def rank_bounds(num_rows: int, rank: int, world: int) -> tuple[int, int]:
    """Returns the first row of a batch that a rank gets, and the row behind its last one."""
    return rank * num_rows // world, (rank + 1) * num_rows // world
