"""The protocol of a shuffle's inputs: files that can be cut at will, or blocks in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from exoshuffle import _native
from exoshuffle.futures import Ref, Value
from exoshuffle.operators.core.inputs import MapInput
from exoshuffle.operators.core.order import ByChance
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.steps.sample import Numbered
from exoshuffle.operators.steps.step import Step
from exoshuffle.plan.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

#: Rows of files may well take this many times the bytes of the files, because few are compressed by more; or so many
#: bytes each.
PACKED_SHARE = 20
LIKELY_ROW_BYTES = 16
_Item = TypeVar("_Item")


class Input(Protocol):
    """One input of a shuffle: how it is measured, cut and read."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Applied to the rows as they are read, before the steps of the shuffle."""
        ...

    @property
    def source(self) -> _native.Source | None:
        """The files that it reads; None where its rows come from elsewhere."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether the store holds the rows while they are read."""
        ...

    @property
    def known_rows(self) -> int | None:
        """Number of rows before the steps, if files tell it without being read."""
        ...

    @property
    def likely_bytes(self) -> int:
        """The most bytes that the rows before the steps may well take in memory; nothing is read for it."""
        ...

    @property
    def told_bytes(self) -> int:
        """Bytes of the rows before the steps in memory, as files and the store tell them; estimated if it is unmade."""
        ...

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The blocks that it reads; none where its rows come from elsewhere."""
        ...

    def pieces(self, num_bytes: int) -> list[_native.Split]:
        """Returns splits of about this size of all its files; none if it has no files."""

    def window_bytes(self, num_rows: int) -> int:
        """Returns about the bytes of so many rows before the steps; each counts as much as the mean of all."""

    def first(self, count: int) -> Input:
        """Returns the input without the rows that are surely not among its first; with all, if a step may drop rows."""

    def numbered(self, first_file: int) -> Self:
        """Returns the input with another number for its first file; one without files as it is."""

    def with_files(self, changed: Callable[[_native.Source], _native.Source]) -> Input:
        """Returns the input with other rows of its files; one without files as it is."""

    def most(self, schema: pa.Schema) -> Workload | None:
        """Returns the most rows and bytes that it can have; None if footers and the store do not tell."""

    def read_bytes(self, side: Side) -> int:
        """Returns about the bytes of the columns that are read, before filters and aggregates."""

    def num_pieces(self, num_bytes: int) -> int:
        """Returns about the number of pieces of this size."""

    def measure(self, side: Side) -> Workload:
        """Measures the size of the rows as they will travel, from a few stretches of the input."""

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Value]:
        """Returns the items of the maps, each with about ``split_bytes`` of rows as they travel."""

    def decoding_bytes(self, side: Side) -> int:
        """Returns the memory that reading any item takes beside buffers and rows; see ``decoding``."""

    def page_bytes(self, side: Side) -> int:
        """Returns the bytes of the largest part that is decoded in one piece, if it is large; 0 for none."""

    def num_rows(self, items: Sequence[Value], workload: Workload) -> list[float]:
        """Returns the number of rows of each item, above 0, without reading it: exactly, or estimated by its bytes."""

    def map_input(self, side: Side) -> MapInput:
        """Returns the reader of the maps."""

    def samples_parts(self, side: Side) -> bool:
        """Whether sampling an item reads a small part of it."""

    def sample(
        self, side: Side, items: Sequence[tuple[int, object]], num_rows: Sequence[int]
    ) -> list[Ref]:
        """Starts tasks that each sample the keys of about so many rows of one item; items come with numbers."""


class WithoutFiles:
    """The answers of an input that reads no files to questions about them."""

    source: None = None
    known_rows: int | None = None

    def pieces(self, num_bytes: int) -> list[_native.Split]:
        """See ``Input``."""
        del num_bytes
        return []

    def window_bytes(self, num_rows: int) -> int:
        """See ``Input``: nobody asks, because only files have windows."""
        return num_rows * LIKELY_ROW_BYTES

    def page_bytes(self, side: Side) -> int:
        """See ``Input``."""
        del side
        return 0

    def samples_parts(self, side: Side) -> bool:
        """See ``Input``."""
        del side
        return False

    def first(self, count: int) -> Self:
        """See ``Input``."""
        del count
        return self

    def numbered(self, first_file: int) -> Self:
        """See ``Input``."""
        del first_file
        return self

    def with_files(self, changed: Callable[[_native.Source], _native.Source]) -> Self:
        """See ``Input``."""
        del changed
        return self

    def num_pieces(self, num_bytes: int) -> int:
        """See ``Input``: nobody asks, because the number of rows is not known."""
        del num_bytes
        return 1


def numbers_rows(steps: Sequence[Step], side: Side) -> bool:
    """Whether rows get numbers from their place in the input."""
    return isinstance(side.order, ByChance) or any(isinstance(step, Numbered) for step in steps)


def by_bytes(sizes: Sequence[int], workload: Workload) -> list[float]:
    """Divides the rows of a workload among its items by their sizes."""
    density = max(workload.num_rows, 1) / max(sum(sizes), 1)
    return [max(size, 1) * density for size in sizes]


def evenly(items: list[_Item], count: int) -> list[_Item]:
    """Returns at most ``count`` of the items, evenly spread."""
    if len(items) <= count:
        return items
    return [items[i * len(items) // count] for i in range(count)]
