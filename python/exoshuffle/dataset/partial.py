"""``Partial``: what a program that watches groups gets after each round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Partial:
    """The estimates for all groups after a round.

    Attributes:
        fraction: Share of the input that was read, 0 < fraction <= 1: by rows, or by bytes where rows are not known.
        table: The groups that were seen, with estimates for the whole input; see ``Aggregated.stream``.
        seed: Seed of the order in which the input is read.
    """

    fraction: float
    table: pa.Table
    seed: int
