"""The tasks of a partition that is divided, or reduced alone; the finish decides which of them run."""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.futures import SliceRef, allocate_block, get
from exoshuffle.futures.engine import BlockBuffer
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.checks import check_all_read, check_each, maps_of, opened, placed
from exoshuffle.operators.core.sink import handed
from exoshuffle.operators.core.streams import as_reader, as_rows, own_errors
from exoshuffle.operators.core.tasks import TableTasks
from exoshuffle.operators.kernels import call
from exoshuffle.operators.sql.groups import first_rows
from exoshuffle.operators.sql.lengths import row_bytes
from exoshuffle.operators.sql.relational import take
from exoshuffle.operators.steps.step import apply_steps

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: Keys weighed in one query, to name the largest group.
_CANDIDATES = 1000
#: Characters of each value of a key in a message.
_MAX_KEY_LENGTH = 200
#: The last slice of a map's result: the maps whose output it has read.
_READ = struct.Struct("<QQ")


@dataclass
class DividedTasks(TableTasks):
    """The task set of a divided partition.

    Attributes:
        level: How often its rows have been divided, this time included.
        partition: Number of the partition.
        num_read: Number of maps of the shuffle that made it.
    """

    level: int = 1
    partition: int = 0
    num_read: int = 0

    def map(self, index: int, item: list[Buffer]) -> BlockBuffer:
        """Scatters the rows of slices; a last slice, after those for the parts, says which maps the rows are of."""
        source = self.inputs[bisect.bisect_right(self.starts, index) - 1]
        with self._placed():
            maps = maps_of(item, self.partition)
            with own_errors():
                scattered = source.scatter(index, item, self.assignment)
            offsets = scattered.offsets
            end = offsets[-1]
            block = allocate_block([*offsets, end + _READ.size])
            with memoryview(block) as view:
                with view[:end] as slices:
                    scattered.write_into(slices)
                _READ.pack_into(view, end, maps.start, maps.stop)
        return block

    def check(self, read: list[Buffer]) -> None:
        """See ``ReshuffleTaskSet``: checks that each input has been read from the first to the last map."""
        runs = [range(*_READ.unpack(maps)) for maps in read]
        num_runs = len(runs) // len(self.inputs)
        with self._placed():
            for start in range(0, len(runs), num_runs):
                check_all_read(runs[start : start + num_runs], self.num_read)

    def _placed(self) -> contextlib.AbstractContextManager[None]:
        return placed(f"the division of partition {self.partition} of {self.name}")

    def sample(self, index: int, slices: list[Buffer], num_rows: int) -> bytes:
        """See ``ReshuffleTaskSet``."""
        with self._placed():
            return self.inputs[0].sample(index, slices, num_rows)

    def assigned(self, samples: Sequence[bytes], num_partitions: int) -> DividedTasks:
        """See ``ReshuffleTaskSet``."""
        sorter = self.inputs[0].config.build()
        assignment = self.finish.assignment(sorter, samples, num_partitions, self.level)
        return dataclasses.replace(self, assignment=assignment)

    def stream(self, partition: int, runs: list[list[SliceRef]]) -> object:
        """Hands the rows of a partition on, one run of slices after the other, through steps if there are any."""
        return handed(self.sink, self._streamed(partition, runs))

    def _streamed(self, partition: int, runs: list[list[SliceRef]]) -> Iterator[object]:
        with placed(f"the reduce of partition {partition} of {self.name}"), own_errors():
            batches = apply_steps(self.finish.steps, self._batches(partition, runs))
            yield from self.sink(partition, as_rows(batches))

    def rejoin(self, partition: int, tables: list[pa.Table]) -> object:
        """Finishes the results of the parts of a partition."""
        return handed(self.sink, self._rejoined(partition, tables))

    def _rejoined(self, partition: int, tables: list[pa.Table]) -> Iterator[object]:
        import pyarrow as pa

        with own_errors():
            batches = apply_steps(self.finish.steps, pa.concat_tables(tables).to_reader())
            yield from self.sink(partition, as_rows(batches))

    def sole_key(self, runs: list[list[SliceRef]]) -> tuple[bool, bool, list[list[int]]]:
        """Returns whether all rows have one key, whether that is null, and how many rows of each side each run has.

        If there are several keys, the rest is False and empty.
        """
        import pyarrow as pa

        keys: list[pa.Table] = []
        counts: list[list[int]] = []
        for source in self.inputs:
            names = source.config.order.columns
            counts.append([])
            for index, run in enumerate(runs):
                rows = as_reader(source.rows(index, get(run))).read_all().select(names)
                counts[-1].append(rows.num_rows)
                found = take(rows, first_rows(rows, names))
                if found.num_rows > 1:
                    return False, False, []
                keys.append(found.rename_columns([f"k{index}" for index in range(len(names))]))
        try:
            firsts = pa.concat_tables(keys, promote_options="permissive")
        except pa.ArrowException:  # the types of both sides are alike, but not to pyarrow
            return False, False, []
        is_one = len(first_rows(firsts, firsts.column_names)) == 1
        return is_one, any(column.null_count for column in firsts.columns), counts

    def count_rows(self, partition: int, runs: list[list[SliceRef]]) -> int:
        """Returns how many rows a partition has. Cost: fetches all of it, and looks at headers."""
        return sum(_native.Sections(get(run), partition, None).num_rows for run in runs)

    def _batches(self, partition: int, runs: list[list[SliceRef]]) -> pa.RecordBatchReader:
        """Returns the rows of all runs; each run must begin with the map after the last one of the run before."""
        import pyarrow as pa

        sorter = self.inputs[0].config.build()

        def batches() -> Iterator[pa.RecordBatch]:
            seen = 0
            for number, run in enumerate(runs, 1):
                end = self.num_maps if number == len(runs) else None
                with opened(get(run), partition, seen, end) as sections:
                    yield from as_reader(sorter.gather(sections))
                seen += len(sections)

        nothing = as_reader(sorter.gather(_native.Sections([])))
        return pa.RecordBatchReader.from_batches(nothing.schema, batches())

    def largest_group(self, runs: list[list[SliceRef]]) -> tuple[str, float]:
        """Returns the key whose rows have most bytes, as text, and about which share of all bytes that is.

        A group of one long row is larger than others of more rows.
        """
        sizes: collections.Counter[str] = collections.Counter()
        total = 0
        for source in self.inputs:
            for index, run in enumerate(runs):
                rows = as_reader(source.rows(index, get(run))).read_all()
                weights = row_bytes(rows)
                total += call("sum", weights).as_py() or 0
                sizes.update(weighed_keys(rows, source.config.order.columns, weights))
        key, size = next(iter(sizes.most_common(1)), ("", 0))
        return key, size / max(total, 1)


@dataclass
class PieceTasks(DividedTasks):
    """The task set of a partition whose slices are shared out among the reduces.

    Attributes:
        pieces: For every piece, the maps of each of its slices; empty if the strategy does not say.
    """

    pieces: tuple[tuple[range, ...], ...] = ()

    def _reduced(self, partition: int, slices: list[Buffer]) -> Iterator[object]:
        """See ``reduce``; ``partition`` is the number of the piece."""
        place = f"the reduce of piece {partition} of partition {self.partition} of {self.name}"
        with placed(place):
            if self.pieces:
                check_each(slices, self.partition, self.pieces[partition])
            with opened(slices, self.partition) as sections, own_errors():
                yield from self.sink(partition, self.finish(sections))


def _shortened(value: object) -> str:
    """Returns a value of a key as text for a message."""
    text = repr(value)
    return text if len(text) <= _MAX_KEY_LENGTH else f"{text[:_MAX_KEY_LENGTH]}…"


def weighed_keys(rows: pa.Table, names: Sequence[str], weights: pa.ChunkedArray) -> dict[str, int]:
    """Returns how many bytes the rows of the largest keys have, of so many for each row."""
    from exoshuffle.operators.sql.relational import as_python, computed, storable

    # The new names differ in more than case, as DuckDB requires.
    listed = [f"k{index}" for index in range(len(names))]
    keyed = storable(rows.select(names)).rename_columns(listed)
    told = f"{', '.join(listed)}, sum(size)::BIGINT AS total"
    found = computed(
        f"SELECT {told} FROM t GROUP BY ALL ORDER BY total DESC LIMIT {_CANDIDATES}",  # noqa: S608  made here
        t=keyed.append_column("size", weights),
    )
    keys = zip(*(map(as_python, found.column(i)) for i in range(len(names))), strict=True)
    texts = (
        ", ".join(f"{name}={_shortened(value)}" for name, value in zip(names, key, strict=True))
        for key in keys
    )
    return dict(zip(texts, found.column(len(names)).to_pylist(), strict=True))
