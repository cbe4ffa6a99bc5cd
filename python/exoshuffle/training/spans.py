"""The rows of files by their numbers: how many each file has, and which rows have which random numbers.

Guarantee: no file is read. Files tell their numbers of rows, and a row's random number follows from its place
(``operators/steps/sample.py``). So a resume finds the row where it goes on, and the rows of a batch, by arithmetic.
Cost: 40 ns per row of the dataset, in pieces of 2 MB at a time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from exoshuffle.dataset.inputs.file_input import FileInput, told_apart
from exoshuffle.dataset.tree.nodes import Node, Stepped, United, sources
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.steps.cast import Cast
from exoshuffle.operators.steps.columns import Drop, Nullable, Rename, Select, WithColumns
from exoshuffle.operators.steps.nulls import FillNull
from exoshuffle.operators.steps.sample import numbers, numbers_within, uint64

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows whose numbers are computed at once; each step of that makes an array of 0.25 MB. Pieces of 8 MB took as long.
_PIECE_ROWS = 32_768
#: More bytes than a file has, so that splits are as long as the format allows.
_ANY_BYTES = 2**62
#: Steps behind which each row is still there.
_KEEPING = (Cast, Drop, FillNull, Nullable, Rename, Select, WithColumns)


class Span(NamedTuple):
    """Rows of one file that follow each other.

    Attributes:
        file: Path of the file.
        file_index: Number of the file, as random orders know it.
        first_row: Number of the first row in the file.
        num_rows: How many rows these are.
    """

    file: str
    file_index: int
    first_row: int
    num_rows: int


def spans_of(node: Node) -> list[Span] | None:
    """Returns the rows below a tree, in order; None where files do not tell their number, or a step may drop some."""
    if not _keeps_rows(node) or node_rows(node) is None:
        return None
    return [
        Span(split.file, split.file_index, split.first_row, int(split.rows or 0))
        for source in _inputs(node)
        for split in source.pieces(_ANY_BYTES)
    ]


def node_rows(node: Node) -> int | None:
    """Returns the number of rows of all files below a tree; None where they do not tell it."""
    found = [source.rows for source in sources(node)]
    return None if None in found else sum(rows for rows in found if rows is not None)


def fingerprint(node: Node) -> str:
    """Returns 64 bits, as text, of what decides which rows come: names and sizes of the files, and conditions.

    The folder of the files and the time when they were written do not count, because files are copied elsewhere.
    """
    facts: list[object] = [_conditions(node)]
    for source in _inputs(node):
        facts.append((source.source.format, source.source.bytes))
        facts += [
            (os.path.basename(split.file), split.first_row, split.size)
            for split in source.pieces(_ANY_BYTES)
        ]
    return hashlib.blake2b(repr(facts).encode(), digest_size=8).hexdigest()


def _inputs(node: Node) -> list[FileInput]:
    """Returns the files below a tree, numbered as they are when the tree runs."""
    inputs = [FileInput(source) for source in sources(node)]
    if not _has_union(node):
        return inputs
    return [source for source in told_apart(inputs) if isinstance(source, FileInput)]


def _has_union(node: Node) -> bool:
    return isinstance(node, United) or any(map(_has_union, node.children))


def _keeps_rows(node: Node) -> bool:
    if isinstance(node, Stepped) and not isinstance(node.step, _KEEPING):
        return False
    return all(map(_keeps_rows, node.children))


def _conditions(node: Node) -> list[str]:
    """Returns the steps below a tree that may drop rows, or make others, as text."""
    found = [each for child in node.children for each in _conditions(child)]
    if isinstance(node, Stepped) and not isinstance(node.step, _KEEPING):
        # The text of a function has its address.
        found.append(node.label if node.step.is_function else repr(node.step))
    return found


@dataclass(frozen=True)
class Numbering:
    """The random numbers of rows.

    Attributes:
        spans: The rows.
        seed: The seed of the numbers.
        window: How many rows of a file stay together; None for none.
    """

    spans: Sequence[Span]
    seed: int
    window: int | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return sum(span.num_rows for span in self.spans)

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
        for span, drawn in self._pieces():
            is_below = pc.less(drawn, uint64(low))
            before += _count(is_below)
            is_inside = pc.invert(is_below)
            if high < 2**64:
                is_inside = pc.and_(is_inside, pc.less(drawn, uint64(high)))
            places = pc.indices_nonzero(is_inside)
            found += zip(
                drawn.take(places).to_pylist(),
                ((span.file, span.first_row + place) for place in places.to_pylist()),
                strict=True,
            )
        # Equal numbers stay in the order of the input.
        return before, sorted(found, key=lambda row: row[0])

    def _pieces(self) -> Iterator[tuple[Span, pa.Array]]:
        number = numbers if self.window is None else partial(numbers_within, self.window)
        for span in self.spans:
            for at in range(0, span.num_rows, _PIECE_ROWS):
                count = min(_PIECE_ROWS, span.num_rows - at)
                piece = span._replace(first_row=span.first_row + at, num_rows=count)
                yield piece, number(self.seed, span.file_index, piece.first_row, count)


def _count(mask: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(mask).as_py() or 0)
