"""The inputs of the maps of a divided partition: slices of an earlier shuffle.

Guarantee: rows are handed on in the order of the slices, and checked as in a reduce (``checks.opened``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.checks import opened
from exoshuffle.operators.core.inputs import SAMPLE_SEED
from exoshuffle.operators.core.order import RowsConfig
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True)
class SliceInput:
    """Slices of a partition of an earlier shuffle, scattered anew; see ``MapInput``.

    Attributes:
        config: The configuration of the rows.
        tag: Which side of a join this is; 0 elsewhere.
        partition: Number of the partition of the slices.
    """

    config: RowsConfig
    tag: int
    partition: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """See ``MapInput``."""
        return ()

    def scatter(self, index: int, item: list[Buffer], assignment: bytes) -> _native.Scattered:
        """See ``MapInput``."""
        sorter = self.config.build()
        with opened(item, self.partition, tag=self.tag) as sections:
            return sorter.scatter_sections(sections, index, assignment, self.tag)

    def sample(self, index: int, item: list[Buffer], num_rows: int) -> bytes:
        """See ``MapInput``."""
        sorter = self.config.build()
        with opened(item, self.partition, tag=self.tag) as sections:
            sample: bytes = sorter.sample_sections(sections, index, num_rows, SAMPLE_SEED)
        return sample

    def rows(self, index: int, item: list[Buffer]) -> _native.Rows:
        """See ``MapInput``."""
        del index
        sections = _native.Sections(item, self.partition, None)
        return self.config.build().gather(sections, self.tag)
