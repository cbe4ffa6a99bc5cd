"""``Shard``: the batches of one of several consumers that share the rows of a dataset.

Guarantee: all shards together have every row once. Rows are dealt. So shards of a step differ by one row at most, and
so do the numbers of rows that they have had in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.splitting.coordinator import Asked, Coordinator, Step
from exoshuffle.dataset.splitting.seat import Seat, seats_at
from exoshuffle.errors import OptionsError
from exoshuffle.operators.batch_formats import in_format

if TYPE_CHECKING:
    import pyarrow as pa


class Shard:
    """The batches of one consumer; made by ``Dataset.iter_split``. It can be iterated over once.

    It may be handed to a thread, and be pickled for another process of this machine. It may be an argument of a task or
    an actor, or of ``multiprocessing`` with ``spawn``.

    Attributes:
        index: Number of the consumer, from 0.
        num_shards: How many consumers there are.
    """

    def __init__(self, seat: Seat, index: int, num_shards: int, batch_format: str) -> None:
        self._seat = seat
        self.index = index
        self.num_shards = num_shards
        self._batch_format = batch_format
        self._has_begun = False

    def __iter__(self) -> Iterator[Any]:
        """Yields the consumer's part of each step, as a batch; a batch may have no row where a step has few.

        Raises:
            OptionsError: An iteration has begun before.
            WorkerDiedError: The process of another consumer, or of the program, has ended.
        """
        if self._has_begun:
            raise OptionsError(
                f"shard {self.index} of {self.num_shards} was iterated over before; call iter_split() again, or use "
                "DataLoader for epochs"
            )
        self._has_begun = True
        return self._batches()

    def _batches(self) -> Iterator[Any]:
        try:
            for share in self._seat.shares(Asked()):
                rows = share.rows
                del share
                yield in_format(rows, self._batch_format)
                del rows
        finally:
            self._seat.close()

    def __repr__(self) -> str:
        return f"Shard({self.index} of {self.num_shards})"


def shards_of(
    batches: Callable[[], Iterator[pa.RecordBatch]], num_shards: int, batch_format: str
) -> list[Shard]:
    """Returns shards of batches, which are made when the first shard asks for its first one."""

    def begin(asked: Asked) -> Iterator[Step]:
        del asked
        return dealt(batches(), num_shards)

    seats = seats_at(Coordinator(begin, num_shards, "shard"))
    return [Shard(seat, index, num_shards, batch_format) for index, seat in enumerate(seats)]


def dealt(batches: Iterable[pa.RecordBatch], num_shards: int) -> Iterator[Step]:
    """Yields a step for each batch that has rows, in shares that are equal but for one row, now and in all."""
    before = 0
    for batch in batches:
        if batch.num_rows:
            after = before + batch.num_rows
            shares, start = [], 0
            for index in range(num_shards):
                # Of n rows in all, shard k gets ⌊(n + k) / shards⌋; these add up to n.
                count = (after + index) // num_shards - (before + index) // num_shards
                shares.append(batch.slice(start, count))
                start += count
            before = after
            step = Step(batch.num_rows, shares)
            del batch, shares
            yield step
            del step
