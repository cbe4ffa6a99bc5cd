"""``RankLoader``: the batches of one rank, where all ranks of a machine share one shuffle.

Guarantee: batches, orders and states are those of a ``DataLoader`` with that rank and world. Each rank may be in a
thread, an actor or another process. A rank that dies is an error for all others, because their rows would not go
together any more. All of them then go on from their last state.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exoshuffle.arguments import is_whole
from exoshuffle.dataset.splitting.coordinator import Asked, Coordinator, Share, Step
from exoshuffle.dataset.splitting.seat import OwnSeat, Seat
from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.tensors import converter
from exoshuffle.training.run import Batches, Run
from exoshuffle.training.shares import rank_bounds
from exoshuffle.training.state import Cursor, Identity

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RankOptions:
    """The options that a rank has to know beside its seat.

    Attributes:
        rank: Number of the rank, from 0.
        world: Number of ranks.
        format: As in ``DataLoader``.
        schema: Columns of the batches.
        identity: The facts that decide which rows come.
        seed: The seed of all epochs.
        cursor: Where the ranks begin.
    """

    rank: int
    world: int
    format: str
    schema: pa.Schema
    identity: Identity
    seed: int
    cursor: Cursor


class RankLoader:
    """The batches of one rank; made by ``DataLoader.split``. It can be pickled for another process of this machine."""

    def __init__(self, seat: Seat, options: RankOptions) -> None:
        self._seat = seat
        self._options = options
        self._convert = converter(options.format, options.schema)
        #: The next row.
        self.cursor = options.cursor
        self._shares: Generator[Share, None, None] | None = None

    @property
    def rank(self) -> int:
        """Number of the rank, from 0."""
        return self._options.rank

    def __iter__(self) -> Iterator[Any]:
        """Returns the batches of one epoch, as ``DataLoader`` does; all ranks have to iterate alike."""
        return next(self.epochs(self.cursor.epoch + 1))

    def epochs(self, n: int) -> Iterator[Iterator[Any]]:
        """Yields ``n`` epochs, those before a state included, as ``DataLoader`` does; all ranks give the same number.

        Raises:
            OptionsError: ``n`` is no number of epochs, or another rank gave another one.
            WorkerDiedError: Another rank has ended before its last step.
        """
        if not is_whole(n) or n < 0:
            raise OptionsError(f"epochs got {shown(n)}; it must be a whole number from 0 on")
        if self._shares is not None:
            self._shares.close()
        self._shares = self._seat.shares(Asked(int(n), self.cursor.epoch, self.cursor.row))
        return self._epochs(self._shares, int(n))

    def epoch_of_all(self) -> Iterator[Any]:
        """Yields what ``__iter__`` does; at its end, the rank that shuffles waits until all others have theirs."""
        yield from self
        self._wait_for_others()

    def epochs_of_all(self, n: int) -> Iterator[Iterator[Any]]:
        """Yields what ``epochs`` does; at its end, the rank that shuffles waits until all others have theirs."""
        yield from self.epochs(n)
        self._wait_for_others()

    def _wait_for_others(self) -> None:
        if isinstance(self._seat, OwnSeat):
            self._seat.wait_for_others()

    def state_dict(self) -> dict[str, Any]:
        """Returns where training stands; see ``DataLoader``, which takes it with any number of ranks."""
        return self._options.identity.state(self._options.seed, self.cursor)

    def _epochs(self, shares: Generator[Share, None, None], n: int) -> Iterator[Iterator[Any]]:
        for number in range(self.cursor.epoch, n):
            epoch = self._epoch(shares, number, number + 1 == n)
            yield epoch
            for _ in epoch:  # all ranks take the rest of an epoch, which this one may have left
                pass

    def _epoch(
        self, shares: Generator[Share, None, None], number: int, is_last: bool
    ) -> Iterator[Any]:
        for share in shares:
            rows = share.rows
            if rows is None:
                break
            made = self._convert(rows)
            self.cursor = Cursor(number, self.cursor.row + share.num_rows)
            del share, rows
            yield made
            del made
        self.cursor = Cursor(number + 1)
        if is_last:
            shares.close()  # now: the process may end before it asks for more, and would be taken for lost

    def __reduce__(self) -> tuple[type[RankLoader], tuple[Seat, RankOptions]]:
        return RankLoader, (self._seat, replace(self._options, cursor=self.cursor))

    def __repr__(self) -> str:
        return f"RankLoader({self._options.rank} of {self._options.world})"


def coordinator_of(batches: Batches, world: int) -> Coordinator:
    """Returns what shares epochs among ranks.

    Args:
        batches: Whole batches, of all ranks.
        world: Number of ranks.
    """

    def begin(asked: Asked) -> Iterator[Step]:
        return _steps(Run(batches, Cursor(asked.epoch, asked.row), asked.num_epochs), world)

    return Coordinator(begin, world, "rank")


def _steps(run: Run, world: int) -> Iterator[Step]:
    """Yields the steps of all epochs, and a step without rows behind each epoch."""
    for epoch in run.epochs():
        for batch in epoch:
            bounds = [rank_bounds(batch.num_rows, rank, world) for rank in range(world)]
            shares = [batch.slice(first, last - first) for first, last in bounds]
            step = Step(batch.num_rows, shares)
            del batch, shares
            yield step
            del step
        yield Step(0, ())
