"""Sorts a partition, and shuffles one that is too large again, by ranges of keys sampled in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.order import RowsConfig, by_range
from exoshuffle.operators.core.streams import as_reader
from exoshuffle.operators.core.tasks import Finish
from exoshuffle.operators.division.dividing import again
from exoshuffle.plan.division import Division, Large, Reshuffle, Whole

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.core.tasks import TableTasks


@dataclass(frozen=True)
class Sorted(Finish):
    """Sorts. Cost: 16 to 32 bytes per row; gathers each row once."""

    config: RowsConfig

    @property
    def configs(self) -> tuple[RowsConfig, ...]:
        """See ``Finish``."""
        return (self.config,)

    def __call__(self, sections: _native.Sections) -> _native.Rows:
        """See ``Finish``."""
        return self.config.build().sort(sections)

    def of_all(self, tables: Sequence[pa.Table]) -> pa.RecordBatchReader:
        """Sorts all rows; see ``Shuffle.whole``. Cost: also a copy of them as they travel."""
        sorter = self.config.build()
        (rows,) = tables
        scattered = sorter.scatter_batches(rows, 0, by_range(sorter, [], 1))
        block = bytearray(scattered.offsets[-1])
        scattered.write_into(block)
        return as_reader(sorter.sort(_native.Sections([block])))

    def divide(self, tasks: TableTasks, large: Large) -> Division:
        """See ``Finish``. Positions of rows divide equal keys, so an indivisible partition is a single row."""
        return Whole() if large.is_indivisible else Reshuffle(again(tasks, large), is_sampled=True)

    def assignment(
        self, sorter: _native.Sorter, samples: Sequence[bytes], num_partitions: int, level: int
    ) -> bytes:
        """See ``Finish``: by ranges, so that the parts follow each other in order."""
        del level
        return by_range(sorter, samples, num_partitions)

    @property
    def streams_in_place(self) -> bool:
        """See ``Finish``."""
        in_place: bool = self.config.build().streams_in_place
        return in_place
