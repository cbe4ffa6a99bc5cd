"""The random numbers of rows: which row comes where in a random order, found by arithmetic.

Guarantee: no file is read, because a row's number follows from its place (``operators/steps/sample.py``). So a resume
finds the partition where it goes on, and ``rows_of`` the rows of a batch. Cost: 30 ns for each row of the dataset, in
a few MB of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of
from exoshuffle.operators.steps.sample import numbers, numbers_at, numbers_within, uint64
from exoshuffle.training.file_rows import FileRows

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows whose numbers are computed at once; each step of that makes an array of 0.5 MB. So a row took 25 ns. It took 28
#: in pieces of half the size, and 84 in pieces of 4,096 rows.
_PIECE_ROWS = 65_536
#: Files of fewer rows are taken together: a piece takes 0.25 ms however few rows it has.
_FEW_ROWS = 4096


@dataclass(frozen=True)
class Numbering:
    """The random numbers of rows.

    Attributes:
        file_rows: The rows.
        seed: The seed of the numbers.
        window: How many rows of a file stay together; None for none.
    """

    file_rows: Sequence[FileRows]
    seed: int
    window: int | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return sum(rows.num_rows for rows in self.file_rows)

    def below(self, bounds: Sequence[int]) -> list[int]:
        """Returns for each bound how many rows have a smaller number."""
        import pyarrow.compute as pc

        totals = [0] * len(bounds)
        for _, drawn in self._pieces():
            for place, bound in enumerate(bounds):
                totals[place] += (
                    _count(pc.less(drawn, uint64(bound))) if bound < 2**64 else len(drawn)
                )
        return totals

    def first_partition(self, row: int, num_partitions: int) -> tuple[int, int]:
        """Returns a partition that has a row of the order or comes a little before it, and the rows before that one.

        Numbers are spread evenly, so the partition is guessed, and rows are counted at the guess and a little before.
        """
        guess = row * num_partitions // max(self.num_rows, 1)
        tried = sorted({max(0, guess - back) for back in (0, 1, 2, 1 + num_partitions // 16)} - {0})
        counts = self.below([-(-(first << 64) // num_partitions) for first in tried])
        fitting = [
            (first, before) for first, before in zip(tried, counts, strict=True) if before <= row
        ]
        return max(fitting, default=(0, 0))

    def rows(self, start: int, stop: int) -> list[tuple[str, int]]:
        """Returns some rows of the order, each as its file and its number there."""
        total = max(self.num_rows, 1)
        slack = 2 * (stop - start) + int(6 * total**0.5) + 1
        while True:
            low = max(0, (start - slack) << 64) // total
            high = min(2**64, ((stop + slack) << 64) // total)
            before, found = self._between(low, high)
            if before <= start and before + len(found) >= min(stop, self.num_rows):
                return [place for _, place in found[start - before : stop - before]]
            slack *= 8

    def _between(self, low: int, high: int) -> tuple[int, list[tuple[int, tuple[str, int]]]]:
        """Returns how many rows have numbers below ``low``, and the rows from there to ``high``, in order."""
        import pyarrow.compute as pc

        before = 0
        found: list[tuple[int, tuple[str, int]]] = []
        for piece, drawn in self._pieces():
            is_below = pc.less(drawn, uint64(low))
            before += _count(is_below)
            is_inside = pc.invert(is_below)
            if high < 2**64:
                is_inside = pc.and_(is_inside, pc.less(drawn, uint64(high)))
            places = pc.indices_nonzero(is_inside)
            found += zip(
                drawn.take(places).to_pylist(), _named(piece, places.to_pylist()), strict=True
            )
        # Equal numbers stay in the order of the input.
        return before, sorted(found, key=lambda row: row[0])

    def _pieces(self) -> Iterator[tuple[Sequence[FileRows], pa.Array]]:
        """Yields all rows in order, with their numbers: a part of a large file at a time, or several small files."""
        few: list[FileRows] = []
        num_few = 0
        for rows in self.file_rows:
            if few and (rows.num_rows >= _FEW_ROWS or num_few >= _PIECE_ROWS):
                yield few, self._numbers_of(few)
                few, num_few = [], 0
            if rows.num_rows < _FEW_ROWS:
                few.append(rows)
                num_few += rows.num_rows
                continue
            for at in range(0, rows.num_rows, _PIECE_ROWS):
                count = min(_PIECE_ROWS, rows.num_rows - at)
                piece = rows._replace(first_row=rows.first_row + at, num_rows=count)
                yield [piece], self._numbers_in(piece)
        if few:
            yield few, self._numbers_of(few)

    def _numbers_in(self, rows: FileRows) -> pa.Array:
        number = numbers if self.window is None else partial(numbers_within, self.window)
        return number(self.seed, rows.file_index, rows.first_row, rows.num_rows)

    def _numbers_of(self, several: Sequence[FileRows]) -> pa.Array:
        sources = [rows.file_index for rows in several for _ in range(rows.num_rows)]
        places = [rows.first_row + place for rows in several for place in range(rows.num_rows)]
        return numbers_at(
            self.seed, array_of(sources, _uint64()), array_of(places, _uint64()), self.window
        )


def _named(piece: Sequence[FileRows], places: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Yields the rows at places of a piece; places ascend."""
    wanted = iter(places)
    place = next(wanted, None)
    start = 0
    for rows in piece:
        while place is not None and place < start + rows.num_rows:
            yield rows.file, rows.first_row + place - start
            place = next(wanted, None)
        start += rows.num_rows


def _uint64() -> pa.DataType:
    import pyarrow as pa

    return pa.uint64()


def _count(mask: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(mask).as_py() or 0)
