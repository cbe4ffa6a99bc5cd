"""Hands the rows of a partition on, through steps if there are any, and divides partitions that are too large.

| Rows of a large partition | The way they go |
| --- | --- |
| stay as they come (``repartition``) | into a file: streamed, as it must stay one; into blocks: finished run by run |
| could be combined | combined, run by run of its slices, and finished as one |
| have several keys | shuffled again by other bits of the hash |
| have one key, and an aggregate counts values | dealt out by these values as well |
| have one key, or none | finished alone, if they fit into memory; else refused by name |

Rows that aggregates can combine travel uncombined only if keys hardly repeat. If one key repeats all the same, its rows
are combined here, and the groups are those of a shuffle whose maps combine. Functions that need a group whole
(``list``, ``median``, ``map_groups``) get it as Arrow data. It is read one run of slices at a time, and then freed.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.futures import get, remote
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.order import RowsConfig
from exoshuffle.operators.core.sinks import TableSink
from exoshuffle.operators.core.streams import as_reader, as_rows
from exoshuffle.operators.core.tasks import Finish
from exoshuffle.operators.division.dividing import again, in_pieces, too_large
from exoshuffle.operators.division.tasks import DividedTasks
from exoshuffle.operators.gather.combined import Combined, CombinedInput
from exoshuffle.operators.steps.step import Step, apply_steps
from exoshuffle.plan.division import Division, Large, Rejoined, Reshuffle, Streamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from exoshuffle.operators.core.tasks import TableTasks


@dataclass(frozen=True)
class Alone:
    """The memory to finish a partition that cannot be divided, beside its rows as Arrow data.

    Attributes:
        percent: Memory as a share of the rows.
        row_bytes: Further memory per row.
        more_bytes: Further memory, whatever the size.
        row_copies: Copies of a row beside that, such as pages of an encoder. They count where a row is large.
        sole: The memory if all rows have one key, where that is less.
    """

    percent: int = 200
    row_bytes: int = 110
    more_bytes: int = 0
    row_copies: int = 0
    sole: Alone | None = None

    @property
    def of_one_key(self) -> Alone:
        """The memory if all rows have one key."""
        return self.sole or self

    def memory(self, num_bytes: int, num_rows: int, max_row_bytes: int = 0) -> int:
        """Returns the memory for so many bytes and rows, with the rows, of which one may be far larger than others."""
        largest = max(num_bytes // max(1, num_rows), min(max_row_bytes, num_bytes))
        copied = self.row_copies * largest
        rows = num_bytes * (100 + self.percent) // 100 + num_rows * self.row_bytes
        return rows + copied + self.more_bytes


@dataclass(frozen=True)
class Gathered(Finish):
    """Keeps rows as they come, through steps if there are any.

    Attributes:
        config: The configuration of the rows.
        steps: The steps.
        combined: Makes fewer rows first, if a partition is larger than planned.
        recounted: Divides a partition of few keys that is still larger than planned.
        alone: The memory for a partition that stays larger than planned.
        sparing: Finishes such a partition with less memory, and in more time.
    """

    config: RowsConfig
    steps: tuple[Step, ...] = ()
    combined: Combined | None = None
    recounted: Recounted | None = None
    alone: Alone = Alone()
    sparing: Gathered | None = None

    @property
    def configs(self) -> tuple[RowsConfig, ...]:
        """See ``Finish``."""
        return (self.config,)

    def __call__(self, sections: _native.Sections) -> _native.Rows:
        """See ``Finish``."""
        rows = self.config.build().gather(sections)
        if not self.steps:
            return rows
        return as_rows(apply_steps(self.steps, as_reader(rows)))

    @property
    def uses_database(self) -> bool:
        """See ``Finish``."""
        return bool(self.steps)

    @property
    def streams_in_place(self) -> bool:
        """See ``Finish``."""
        if self.steps:
            return False
        in_place: bool = self.config.build().streams_in_place
        return in_place

    @property
    def hands_on(self) -> bool:
        """See ``Finish``."""
        return not self.steps

    def of_all(self, tables: Sequence[pa.Table]) -> pa.RecordBatchReader:
        """Makes the result of all rows; see ``Shuffle.whole``."""
        (rows,) = tables
        return apply_steps(self.steps, rows.to_reader())

    def whole_bytes(self, num_bytes: int, num_rows: int, percent: int, row_bytes: int) -> int:
        """See ``Finish``: there may be one group."""
        alone = self.alone.memory(num_bytes, num_rows) - num_bytes
        return max(alone, super().whole_bytes(num_bytes, num_rows, percent, row_bytes))

    def alone_bytes(self, num_bytes: int, num_rows: int) -> int:
        """See ``Finish``."""
        if self.recounted or self.combined:
            return 0
        ways = [self.alone.of_one_key, *([self.sparing.alone] if self.sparing else [])]
        return min(alone.memory(num_bytes, num_rows) for alone in ways)

    def divide(self, tasks: TableTasks, large: Large) -> Division:
        """See ``Finish``; the table above lists the cases."""
        if not self.steps:
            return self._passed_on(tasks, large)
        if self.combined:
            return Reshuffle(_combining(tasks, large, self.combined), num_partitions=1)
        if self.config.order.columns and not large.is_indivisible:
            return Reshuffle(again(tasks, large))
        if self.recounted:
            return _recounting(tasks, large, self.recounted)
        return self._divided_alone(tasks, large)

    def _passed_on(self, tasks: TableTasks, large: Large) -> Division:
        """Hands rows on as they come: none has to be seen as a whole, so nothing is moved again."""
        if tasks.sink.keeps_partitions:
            return Streamed(*_streaming(tasks, large))
        return in_pieces(tasks, large, large.runs(large.plan.max_partition_bytes))

    def _divided_alone(self, tasks: TableTasks, large: Large) -> Streamed:
        """Finishes a group that is needed whole, if it fits."""
        made, runs = _streaming(tasks, large)
        alone, num_rows = _cost_alone(made, large, runs, self.alone)
        size = large.num_bytes, num_rows, _long_row_bytes(large)
        needed, room = alone.memory(*size), _room_alone(large)
        if needed > room and self.sparing is not None:
            spared = self.sparing.alone.memory(*size)
            if spared < needed:
                made, needed = dataclasses.replace(made, finish=self.sparing), spared
        if needed > room:
            raise too_large(again(tasks, large), large, needed, room)
        # The memory that the function declares is added where the task is submitted.
        needed += large.plan.buffer_bytes - self.alone.more_bytes
        return Streamed(made, runs, needed)


@dataclass(frozen=True)
class Recounted:
    """Deals rows of one key out by values as well, since aggregates only count these.

    Attributes:
        spread: The rows to deal out, and the finish of a part.
        last: Finishes the rows of all parts together.
    """

    spread: Combined
    last: Gathered


def _combining(tasks: TableTasks, large: Large, combined: Combined) -> DividedTasks:
    """Returns the task set that combines the rows of a partition; it remains one, and may still be large."""
    made = again(tasks, large)
    inputs = (CombinedInput(made.inputs[0].config, large.partition, combined),)
    return dataclasses.replace(made, inputs=inputs, finish=combined.finish)


def _recounting(tasks: TableTasks, large: Large, recounted: Recounted) -> Rejoined:
    """Returns the task sets that deal the rows of a key out by counted values, and add up the counts."""
    made = _combining(tasks, large, recounted.spread)
    parts = dataclasses.replace(made, sink=TableSink())
    return Rejoined(
        Reshuffle(parts), dataclasses.replace(made, finish=recounted.last, sink=tasks.sink)
    )


def _streaming(tasks: TableTasks, large: Large) -> tuple[DividedTasks, list[range]]:
    """Returns the task set that reads a partition run by run and keeps its place in the result; and the runs."""
    made = dataclasses.replace(again(tasks, large), sink=tasks.sink, num_maps=tasks.num_maps)
    return made, large.runs(large.plan.split_bytes)


def _room_alone(large: Large) -> int:
    """Returns the memory that is left for a group beside one run of its slices, which may be one slice."""
    return large.plan.alone_bytes - max(0, max(large.sizes) - large.plan.split_bytes)


def _long_row_bytes(large: Large) -> int:
    """Returns the most bytes of a row of the partition where one is long; 0 if none has to be.

    No map has more rows than a split, unless one of them is larger than that.
    """
    most = large.plan.split_bytes * max(1, large.plan.merge_factor)
    largest = max(large.sizes)
    return largest if largest > most else 0


def _cost_alone(
    made: DividedTasks, large: Large, runs: list[range], alone: Alone
) -> tuple[Alone, int]:
    """Returns the memory to finish a partition, less if it is one key and that matters; and its number of rows."""
    slices = [large.slices(indices) for indices in runs]
    memory = large.plan.map_memory_bytes
    if alone.sole is not None:
        look = remote(made.sole_key, name="sole_key", executor="thread", memory=memory)
        is_one, _, counts = get(look.remote(slices))
        if is_one:
            return alone.sole, sum(counts[0])
    count = remote(made.count_rows, name="count_rows", executor="thread", memory=memory)
    return alone, get(count.remote(large.partition, slices))
