"""What the maps of a divided partition read: slices of an earlier shuffle, as they are or with their rows combined.

Guarantee: rows are handed on in the order of the slices, and checked as a reduce would (``checks.opened``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exoshuffle import _native
from exoshuffle.operators.batches import chunks_of, streamed
from exoshuffle.operators.core.at_once import rows_at_once
from exoshuffle.operators.core.checks import opened
from exoshuffle.operators.core.finishes import Combined
from exoshuffle.operators.core.order import RowsConfig
from exoshuffle.operators.core.tasks import SAMPLE_SEED, as_reader, as_rows

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SliceInput:
    """Slices of a partition of an earlier shuffle, scattered anew; see ``MapInput``.

    Attributes:
        config: What the rows are.
        tag: Which side of a join this is; 0 elsewhere.
        partition: Number of the partition that they are of.
    """

    config: RowsConfig
    tag: int
    partition: int

    def scatter(self, index: int, item: list[Any], assignment: bytes) -> Any:
        """See ``MapInput``."""
        sorter = self.config.build()
        with opened(item, self.partition, tag=self.tag) as sections:
            return sorter.scatter_sections(sections, index, assignment, self.tag)

    def sample(self, index: int, item: list[Any], num_rows: int) -> bytes:
        """See ``MapInput``."""
        sorter = self.config.build()
        with opened(item, self.partition, tag=self.tag) as sections:
            sample: bytes = sorter.sample_sections(sections, index, num_rows, SAMPLE_SEED)
        return sample

    def rows(self, index: int, item: list[Any]) -> Any:
        """See ``MapInput``."""
        del index
        sections = _native.Sections(item, self.partition, None)
        return self.config.build().gather(sections, self.tag)


@dataclass(frozen=True)
class CombinedInput:
    """Slices of a partition of a shuffle whose maps did not combine rows, combined here; see ``MapInput``.

    Cost: holds a chunk of rows, and what came of all before it.

    Attributes:
        source: What the rows in the slices are.
        partition: Number of the partition that they are of.
        combined: What is made of them.
    """

    source: RowsConfig
    partition: int
    combined: Combined

    @property
    def config(self) -> RowsConfig:
        """See ``MapInput``: that of combined rows."""
        return self.combined.finish.config

    def scatter(self, index: int, item: list[Any], assignment: bytes) -> Any:
        """See ``MapInput``."""
        return self.config.build().scatter_batches(self.rows(index, item), index, assignment)

    def sample(self, index: int, item: list[Any], num_rows: int) -> bytes:
        """See ``MapInput``. Cost: reads the whole item."""
        sorter, rows = self.config.build(), self.rows(index, item)
        sample: bytes = sorter.sample_batches(rows, index, num_rows, SAMPLE_SEED)
        return sample

    def rows(self, index: int, item: list[Any]) -> Any:
        """See ``MapInput``."""
        del index
        return as_rows(streamed(self.combined.schema, self._tables(item)))

    def _tables(self, item: list[Any]) -> Iterator[pa.Table]:
        with opened(item, self.partition) as sections:
            rows = as_reader(self.source.build().gather(sections))
            at_once = rows_at_once(self.combined.row_bytes)
            yield from map(self.combined.function, chunks_of(rows, num_rows=at_once))
