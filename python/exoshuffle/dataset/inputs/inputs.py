"""The protocol of a shuffle's inputs: files that can be cut at will, or blocks in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from exoshuffle.futures import Ref
from exoshuffle.operators.core.inputs import MapInput
from exoshuffle.operators.core.order import ByChance
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.steps.sample import Numbered
from exoshuffle.operators.steps.step import Step
from exoshuffle.plan.workload import Workload


class Input(Protocol):
    """One input of a shuffle: how it is measured, cut and read."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Applied to the rows as they are read, before the steps of the shuffle."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether the store holds the rows while they are read."""
        ...

    def measure(self, side: Side) -> Workload:
        """Measures the size of the rows as they will travel, from a few stretches of the input."""

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Any]:
        """Returns the items of the maps, each with about ``split_bytes`` of rows as they travel."""

    def decoding_bytes(self, side: Side) -> int:
        """Returns the memory that reading any item takes beside buffers and rows; see ``decoding``."""

    def num_rows(self, items: Sequence[Any], workload: Workload) -> list[float]:
        """Returns the number of rows of each item, above 0, without reading it: exactly, or estimated by its bytes."""

    def map_input(self, side: Side) -> MapInput:
        """Returns the reader of the maps."""

    def sample(self, side: Side, items: Sequence[tuple[int, Any]], num_rows: int) -> list[Ref]:
        """Starts tasks that each sample the keys of about ``num_rows`` rows of one item; items come with numbers."""


def numbers_rows(steps: Sequence[Step], side: Side) -> bool:
    """Whether rows get numbers from their place in the input."""
    return isinstance(side.order, ByChance) or any(isinstance(step, Numbered) for step in steps)


def by_bytes(sizes: Sequence[int], workload: Workload) -> list[float]:
    """Divides the rows of a workload among its items by their sizes."""
    density = max(workload.num_rows, 1) / max(sum(sizes), 1)
    return [max(size, 1) * density for size in sizes]


def evenly(items: list[Any], count: int) -> list[Any]:
    """Returns at most ``count`` of the items, evenly spread."""
    if len(items) <= count:
        return items
    return [items[i * len(items) // count] for i in range(count)]
