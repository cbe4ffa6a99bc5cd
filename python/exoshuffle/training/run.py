"""One iteration over a loader: begins epochs, takes their parts, cuts them into batches, and knows the next row.

Guarantee: a row counts as handed over when its batch is, not when it was made ahead. The next epoch is begun, at the
pace of this one, only if the iteration will come to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.jobs.bad_rows import write_bad_rows
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.errors import OptionsError, ShuffleCheckError
from exoshuffle.futures import Engine, current_engine
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.tensors import Convert
from exoshuffle.training.cutting import Cutting
from exoshuffle.training.orders import Begun, Order
from exoshuffle.training.pace import Pace, no_pace
from exoshuffle.training.shares import Shares
from exoshuffle.training.state import Cursor
from exoshuffle.training.upcoming import Upcoming

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Batches:
    """The batches that a loader hands out.

    Attributes:
        order: The order of an epoch.
        num_rows: Rows of an epoch; None where files do not tell.
        seed_of: From the number of an epoch to the seed of its order.
        shares: How batches are cut.
        convert: From record batches to what the program gets.
    """

    order: Order
    num_rows: int | None
    seed_of: Callable[[int], int]
    shares: Shares
    convert: Convert


class Run:
    """An iteration.

    Args:
        batches: The batches that it hands out.
        cursor: The row where it begins.
        num_epochs: The epoch before which it ends.
    """

    def __init__(self, batches: Batches, cursor: Cursor, num_epochs: int) -> None:
        self._batches = batches
        self._num_epochs = num_epochs
        self._upcoming: Upcoming | None = None
        self._is_over = False
        #: The next row.
        self.cursor = cursor

    def epochs(self) -> Iterator[Iterator[Any]]:
        """Yields the batches of each epoch. Rows of an epoch that the program leaves for the next one are left out."""
        try:
            while self.cursor.epoch < self._num_epochs:
                number = self.cursor.epoch
                epoch = self.epoch()
                yield epoch
                epoch.close()
                if self.cursor.epoch == number:
                    self.cursor = Cursor(number + 1)
        finally:
            self.end()

    def epoch(self) -> Generator[Any, None, None]:
        """Yields the batches of the epoch that the next row is in, from that row on."""
        number, row = self.cursor.epoch, self.cursor.row
        engine = current_engine()
        try:
            with PlainErrors():
                begun = self._begun(number, row, engine)
                pace = self._following(number + 1, begun, engine)
                rows = _Rows(row, begun.num_skipped)
                batches = begun.batches(pace)
                cutting = Cutting(self._batches.convert)
                del begun
                for share in self._batches.shares.of(rows.of(batches)):
                    self._check_current()
                    made = cutting.of(share)
                    self.cursor = Cursor(number, self.cursor.row + share.num_rows)
                    del share
                    yield made
                    del made
                self._check_rows(number, rows.num_rows)
        except GeneratorExit:
            raise
        except BaseException:
            self.end()
            raise
        self.cursor = Cursor(number + 1)

    def end(self) -> None:
        """Ends the iteration, and what was begun for its next epoch."""
        self._is_over = True
        upcoming, self._upcoming = self._upcoming, None
        if upcoming is not None:
            upcoming.abandon()

    def _check_current(self) -> None:
        if self._is_over:
            raise OptionsError(
                "this iteration ended when another one of the same loader began; use one at a time, or make a loader "
                "for each"
            )

    def _begun(self, number: int, row: int, engine: Engine) -> Begun:
        self._check_current()
        upcoming, self._upcoming = self._upcoming, None
        if upcoming is not None:
            return upcoming.take()
        for node in self._batches.order.nodes:
            write_bad_rows(node, engine)
        return self._begin(number, row, engine, no_pace()).started(engine.num_cpus)

    def _begin(self, number: int, row: int, engine: Engine, pace: Pace) -> Begun:
        return self._batches.order.begin(self._batches.seed_of(number), row, pace, engine)

    def _following(self, number: int, begun: Begun, engine: Engine) -> Pace:
        """Begins the next epoch, if there will be one, at the pace that is returned."""
        pace = Pace(begun.num_parts)
        if number < self._num_epochs:
            begin = functools.partial(self._begin, number, 0, engine)
            self._upcoming = Upcoming(begin, pace, engine.num_cpus)
        return pace

    def _check_rows(self, number: int, num_rows: int) -> None:
        expected = self._batches.num_rows
        if expected is not None and num_rows != expected:
            raise ShuffleCheckError(
                f"epoch {number} has {expected} rows, and {num_rows} came out; the result is wrong, so run it again, "
                "and report this if it comes back"
            )
        if num_rows == 0:
            raise OptionsError(
                "DataLoader got a dataset without any row; loosen its filters, or give files with rows"
            )


class _Rows:
    """The rows of an epoch from one on, counted.

    Args:
        row: Number of the first row that is wanted.
        num_skipped: How many rows come before it.
    """

    def __init__(self, row: int, num_skipped: int) -> None:
        self._left = num_skipped
        #: Number of the row behind those that came.
        self.num_rows = row

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields them; leaves the first ones out."""
        for batch in batches:
            skipped = min(self._left, batch.num_rows)
            self._left -= skipped
            self.num_rows += batch.num_rows - skipped
            yield batch.slice(skipped)
            del batch
