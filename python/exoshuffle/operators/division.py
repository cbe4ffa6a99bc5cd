"""What operators on tables do about a partition that is larger than planned, by what finishes it.

| Finish | Large partition |
| --- | --- |
| sorting | shuffled again by ranges of keys sampled in it; positions divide equal keys |
| grouping, distinct, joining | shuffled again by other bits of the hash (``hash_assignment`` with the next level) |
| grouping, of rows that could be combined | combined, run by run of its slices, and finished as one |
| none (``repartition``) | into a file: streamed, as it must stay one; into blocks: finished run by run |

What no hash divides is one key. A join cuts the larger side and joins each piece with all of the smaller one, where the
kind of join allows it. Rows that aggregates can combine travel as they are only where keys hardly repeat; if one does
all the same, its rows are combined now, and the groups are those of a shuffle whose maps combine. What needs a group
whole (``list``, ``median``, ``map_groups`` …) gets it if it fits into memory alone, and is refused by name if not.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exoshuffle import _native
from exoshuffle.errors import LargeGroupError
from exoshuffle.futures import SliceRef, allocate_block, get, remote
from exoshuffle.operators.checks import check_all_read, check_each, maps_of, opened, placed
from exoshuffle.operators.order import ByKeys, RowsConfig, by_hash_level, by_range
from exoshuffle.operators.slice_inputs import CombinedInput, SliceInput
from exoshuffle.operators.table import (
    Combined,
    Finish,
    Gathered,
    Joined,
    Sorted,
    TableTasks,
    as_reader,
    as_rows,
    handed,
    own_errors,
)
from exoshuffle.shuffle.division import Again, Division, Large, Pieces, Streamed, Whole
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: Sides of which a join must see all rows to know what matches nothing; the other one can be cut.
_NEEDS_WHOLE = {
    "inner": "",
    "left": "right",
    "semi": "right",
    "anti": "right",
    "right": "left",
    "full": "left right",
}
#: Keys counted in one go, to name the largest group.
_CANDIDATES = 1000
#: Characters of each value of a key in a message.
_MAX_KEY_LENGTH = 200
#: The last slice of what maps return: which maps they have read the output of.
_READ = struct.Struct("<QQ")


@dataclass
class DividedTasks(TableTasks):
    """The task set of a divided partition.

    Attributes:
        level: How often its rows have been divided, with this time.
        partition: Number of the partition.
        num_read: Maps of the shuffle that made it.
    """

    level: int = 1
    partition: int = 0
    num_read: int = 0

    def map(self, index: int, item: list[Any]) -> Any:
        """Scatters the rows of slices; the slice behind those for the parts says which maps they are of."""
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

    def check(self, read: list[Any]) -> None:
        """See ``AgainTaskSet``: each input has been read from the first to the last map."""
        runs = [range(*_READ.unpack(maps)) for maps in read]
        num_runs = len(runs) // len(self.inputs)
        with self._placed():
            for start in range(0, len(runs), num_runs):
                check_all_read(runs[start : start + num_runs], self.num_read)

    def _placed(self) -> contextlib.AbstractContextManager[None]:
        return placed(f"the division of partition {self.partition} of {self.name}")

    def sample(self, index: int, slices: list[Any], num_rows: int) -> bytes:
        """See ``AgainTaskSet``."""
        with self._placed():
            return self.inputs[0].sample(index, slices, num_rows)

    def assigned(self, samples: Sequence[bytes], num_partitions: int) -> DividedTasks:
        """See ``AgainTaskSet``."""
        sorter = self.inputs[0].config.build()
        if isinstance(self.finish, Sorted):
            assignment = by_range(sorter, samples, num_partitions)
        else:
            assignment = by_hash_level(sorter, num_partitions, self.level)
        return dataclasses.replace(self, assignment=assignment)

    def stream(self, partition: int, runs: list[list[SliceRef]]) -> Any:
        """Hands the rows of a partition on, run of slices by run of slices."""
        return handed(self.sink, self._streamed(partition, runs))

    def _streamed(self, partition: int, runs: list[list[SliceRef]]) -> Iterator[Any]:
        with placed(f"the reduce of partition {partition} of {self.name}"), own_errors():
            yield from self.sink(partition, as_rows(self._batches(partition, runs)))

    def _batches(self, partition: int, runs: list[list[SliceRef]]) -> pa.RecordBatchReader:
        """The rows of all runs, of which each has to begin with the map behind the last one of the run before."""
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
        """The key that most rows have, as text, and about which share of them that is."""
        counts: collections.Counter[str] = collections.Counter()
        num_rows = 0
        for source in self.inputs:
            for index, run in enumerate(runs):
                rows = as_reader(source.rows(index, get(run))).read_all()
                num_rows += rows.num_rows
                counts.update(_counted(rows, _key_columns(source.config)))
        key, count = next(iter(counts.most_common(1)), ("", 0))
        return key, count / max(num_rows, 1)


@dataclass
class PieceTasks(DividedTasks):
    """The task set of a partition of which every reduce gets some slices.

    Attributes:
        pieces: For every piece the maps that each of its slices is of; none if the strategy does not say.
    """

    pieces: tuple[tuple[range, ...], ...] = ()

    def _reduced(self, partition: int, slices: list[Any]) -> Iterator[Any]:
        """See ``reduce``; ``partition`` is the number of the piece."""
        place = f"the reduce of piece {partition} of partition {self.partition} of {self.name}"
        with placed(place):
            if self.pieces:
                check_each(slices, self.partition, self.pieces[partition])
            with opened(slices, self.partition) as sections, own_errors():
                yield from self.sink(partition, self.finish(sections))


def divide(tasks: TableTasks, large: Large) -> Division:
    """What to do about a large partition; see ``DividingTaskSet``.

    Raises:
        LargeGroupError: Nothing can be done within the memory limit.
    """
    finish = tasks.finish
    if isinstance(finish, Sorted):
        return Whole() if large.is_indivisible else Again(_again(tasks, large, finish.config), True)
    if isinstance(finish, Gathered) and not finish.steps:
        return _passed_on(tasks, large, finish)
    if isinstance(finish, Gathered) and finish.combined:
        return Again(_combining(tasks, large, finish.config, finish.combined), num_partitions=1)
    configs = (finish.left, finish.right) if isinstance(finish, Joined) else _only_config(finish)
    if _key_columns(configs[0]) and not large.is_indivisible:
        return Again(_again(tasks, large, *configs), num_sides=len(configs))
    if isinstance(finish, Joined):
        pieces = _join_pieces(finish.join.how, tasks.starts[1], large)
        if pieces:
            return _in_pieces(tasks, large, configs, pieces)
    if large.num_bytes <= large.plan.max_whole_bytes:
        return Whole()
    raise _too_large(_again(tasks, large, *configs), large)


def _only_config(finish: Finish) -> tuple[RowsConfig]:
    if not isinstance(finish, Gathered):
        raise TypeError(f"nothing is known of how {type(finish).__name__} divides; add it here")
    return (finish.config,)


def _key_columns(config: RowsConfig) -> list[str]:
    order = config.order
    return [key.column for key in order.keys] if isinstance(order, ByKeys) else []


def _again(tasks: TableTasks, large: Large, *configs: RowsConfig) -> DividedTasks:
    """The task set for the rows of a partition."""
    inputs = tuple(SliceInput(config, tag, large.partition) for tag, config in enumerate(configs))
    num_runs = len(large.runs(large.plan.split_bytes))
    num_maps = num_runs * len(configs)
    return DividedTasks(
        tasks.name,
        inputs,
        tuple(range(0, num_maps, num_runs)),
        num_maps,
        b"",
        tasks.finish,
        tasks.sink.within(large.partition),
        tasks.executor,
        large.level + 1,
        large.partition,
        tasks.num_maps,
    )


def _combining(
    tasks: TableTasks, large: Large, config: RowsConfig, combined: Combined
) -> DividedTasks:
    """The task set that combines the rows of a partition, which remains one and may still be large then."""
    made = _again(tasks, large, config)
    inputs = (CombinedInput(config, large.partition, combined),)
    return dataclasses.replace(made, inputs=inputs, finish=combined.finish)


def _passed_on(tasks: TableTasks, large: Large, finish: Gathered) -> Division:
    """Rows stay as they come: nothing has to be seen as a whole, so nothing is moved again."""
    if tasks.sink.keeps_partitions:
        made = _again(tasks, large, finish.config)
        made = dataclasses.replace(made, sink=tasks.sink, num_maps=tasks.num_maps)
        return Streamed(made, large.runs(large.plan.split_bytes))
    return _in_pieces(tasks, large, (finish.config,), large.runs(large.plan.max_partition_bytes))


def _in_pieces(
    tasks: TableTasks, large: Large, configs: Sequence[RowsConfig], pieces: Sequence[Sequence[int]]
) -> Pieces:
    """Reduces that get some of the slices each."""
    maps = [tuple(large.maps[index] for index in piece) for piece in pieces] if large.maps else ()
    made = _again(tasks, large, *configs)
    return Pieces(PieceTasks(**vars(made), pieces=tuple(maps)), pieces)


def _join_pieces(how: str, num_left: int, large: Large) -> list[list[int]]:
    """Which slices to join at a time, left ones first; none if that cannot be done.

    The blocks are those of a divided partition, unmerged: first those of the left side, then those of the right one.
    """
    sides = {"left": range(num_left), "right": range(num_left, len(large.sizes))}
    sizes = {side: sum(large.sizes[i] for i in indices) for side, indices in sides.items()}
    whole = [side for side in sides if side in _NEEDS_WHOLE[how]]
    # Small pieces, which can be joined at the same time, if the side that stays whole leaves room in them.
    limits = (large.plan.max_partition_bytes, large.plan.max_whole_bytes)
    fitting = [limit for limit in limits if all(2 * sizes[side] <= limit for side in whole)]
    if len(whole) == 2 or not fitting:
        return []
    limit = fitting[0]
    # Each side that may be cut gets half of the room; or all that the other one, which may not, leaves.
    rooms = dict.fromkeys(sides, limit - sizes[whole[0]] if whole else limit // 2)
    runs = {
        side: [indices] if side in whole else large.runs(rooms[side], indices.start, indices.stop)
        for side, indices in sides.items()
    }
    return [[*left, *right] for left in runs["left"] for right in runs["right"]]


def _too_large(tasks: DividedTasks, large: Large) -> LargeGroupError:
    """The error that names the group."""
    runs = [large.slices(indices) for indices in large.runs(large.plan.split_bytes)]
    run = remote(
        tasks.largest_group,
        name="largest_group",
        executor=tasks.executor,
        memory=large.plan.map_memory_bytes,
    )
    key, share = get(run.remote(runs))
    finish = tasks.finish
    if isinstance(finish, Joined):
        remedy = f"a join with how={finish.join.how!r} needs it whole; swap the sides, filter it"
    else:
        remedy = (
            "its function needs it whole; use one that does not (approx_quantile for median and quantile, "
            "approx_count_distinct for count_distinct), filter it"
        )
    return LargeGroupError(
        f"the rows of key {key} take about {format_bytes(int(share * large.num_bytes))}, and the memory limit leaves "
        f"{format_bytes(large.plan.max_whole_bytes)} for one group: {remedy}, or raise memory_limit"
    )


def _shortened(value: Any) -> str:
    """A value of a key, for a message."""
    text = repr(value)
    return text if len(text) <= _MAX_KEY_LENGTH else f"{text[:_MAX_KEY_LENGTH]}…"


def _counted(rows: pa.Table, names: list[str]) -> dict[str, int]:
    """How many rows the most frequent keys have."""
    from exoshuffle.operators.relational import as_python, computed, storable

    # Under names that differ in more than case, as DuckDB wants them.
    listed = [f"k{index}" for index in range(len(names))]
    counted = computed(
        f"SELECT {', '.join(listed)}, count(*) FROM t GROUP BY ALL ORDER BY count(*) DESC LIMIT {_CANDIDATES}",  # noqa: S608
        t=storable(rows.select(names)).rename_columns(listed),
    )
    keys = zip(*(map(as_python, counted.column(i)) for i in range(len(names))), strict=True)
    texts = (
        ", ".join(f"{name}={_shortened(value)}" for name, value in zip(names, key, strict=True))
        for key in keys
    )
    return dict(zip(texts, counted.column(len(names)).to_pylist(), strict=True))
