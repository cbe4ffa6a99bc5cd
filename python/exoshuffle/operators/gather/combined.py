"""Combines the rows of a large partition before they are finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import chunks_of, streamed
from exoshuffle.operators.core.at_once import rows_at_once
from exoshuffle.operators.core.checks import opened
from exoshuffle.operators.core.inputs import SAMPLE_SEED
from exoshuffle.operators.core.order import RowsConfig
from exoshuffle.operators.core.streams import as_reader, as_rows
from exoshuffle.operators.core.tasks import Finish
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer


@dataclass(frozen=True)
class Combined:
    """Makes fewer rows that mean the same to another finish.

    Attributes:
        function: Makes fewer rows of some. Its results for stretches of a partition, in order, finish as one.
        schema: The schema of these results.
        finish: Finishes these results.
        row_bytes: Bytes that the function takes for each row meanwhile.
    """

    function: Callable[[pa.Table], pa.Table]
    schema: pa.Schema
    finish: Finish
    row_bytes: int

    @property
    def config(self) -> RowsConfig:
        """The configuration of the combined rows."""
        return self.finish.configs[0]


@dataclass(frozen=True)
class CombinedInput:
    """Slices of a partition of a shuffle whose maps did not combine rows, combined here; see ``MapInput``.

    Cost: holds a chunk of rows, and the results of all rows before it.

    Attributes:
        source: The configuration of the rows in the slices.
        partition: Number of the partition of the slices.
        combined: How rows are combined.
    """

    source: RowsConfig
    partition: int
    combined: Combined

    @property
    def config(self) -> RowsConfig:
        """See ``MapInput``: the configuration of combined rows."""
        return self.combined.config

    @property
    def steps(self) -> tuple[Step, ...]:
        """See ``MapInput``."""
        return ()

    def scatter(self, index: int, item: list[Buffer], assignment: bytes) -> _native.Scattered:
        """See ``MapInput``."""
        return self.config.build().scatter_batches(self.rows(index, item), index, assignment)

    def sample(self, index: int, item: list[Buffer], num_rows: int) -> bytes:
        """See ``MapInput``. Cost: reads the whole item."""
        sorter, rows = self.config.build(), self.rows(index, item)
        sample: bytes = sorter.sample_batches(rows, index, num_rows, SAMPLE_SEED)
        return sample

    def rows(self, index: int, item: list[Buffer]) -> _native.Rows:
        """See ``MapInput``."""
        del index
        return as_rows(streamed(self.combined.schema, self._tables(item)))

    def _tables(self, item: list[Buffer]) -> Iterator[pa.Table]:
        with opened(item, self.partition) as sections:
            rows = as_reader(self.source.build().gather(sections))
            at_once = rows_at_once(self.combined.row_bytes)
            yield from map(self.combined.function, chunks_of(rows, num_rows=at_once))
