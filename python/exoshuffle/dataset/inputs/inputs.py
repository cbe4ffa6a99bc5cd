"""The inputs of a shuffle: files that can be cut at will, or blocks that an earlier shuffle made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.inputs.decoding import decoding_bytes
from exoshuffle.dataset.inputs.hive import partitions_of
from exoshuffle.futures import Ref, Refs, RemoteFunction, current_engine, get, remote, slice_bytes
from exoshuffle.futures.options import Executor
from exoshuffle.operators.batches import chunks_of
from exoshuffle.operators.core.inputs import BatchInput, MapInput, SplitInput
from exoshuffle.operators.core.order import ByChance, RowsConfig, by_range
from exoshuffle.operators.core.readers import BlockReader, FileReader, splits_of
from exoshuffle.operators.core.shuffle import Side, rows_config
from exoshuffle.operators.steps.sample import Numbered
from exoshuffle.operators.steps.step import (
    Step,
    apply_steps,
    executor_of,
    functions_bytes,
    required_columns,
)
from exoshuffle.plan.grouping import neighbours
from exoshuffle.plan.workload import Workload, ceil_div

if TYPE_CHECKING:
    import pyarrow as pa

#: Number of stretches of an input that are read to find the mean and the largest row, and of rows in each.
MEASURED_STRETCHES = 8
MEASURED_ROWS = 256
#: Size of a stretch: a few pages of each column are decoded for it (for 4 GB, 64 MB took 0.38 s in all, 4 MB 0.03 s).
MEASURED_BYTES = 4_000_000
#: Rows are dealt out to splits as if all had one size. Where rows of a stretch are this much larger, splits shrink:
#: without that, a ``distinct`` of rows of 240 bytes and as many of 84 kB peaked at 310 MB within 300. Splits shrink at
#: most by the number of stretches: one file with a single row of 1 MB beside 2 million rows made 341,000 splits.
UNEVEN_PERCENT, MOST_UNEVEN_PERCENT = 150, 100 * MEASURED_STRETCHES
#: Weighing holds this much of the steps' results at a time.
WEIGHED_BYTES = 8_000_000
#: Stretches are chosen from the beginnings of at most this many splits, however large the input is.
MAX_CANDIDATES = 1024
#: Number of rows in a stretch that are measured one by one, to find the largest.
WEIGHED_ROWS = 32
#: Memory for weighing a block, beside the block and in its sizes: its rows after the steps, and as they travel.
WEIGHED_COPIES = 3
#: Numbers of files of an input, and of parts of a shuffle, fit into this many bits.
FILE_BITS = 32
#: Where rows of text files are numbered, splits have at least this size, and there are at most about this many.
NUMBERED_BYTES = 1_000_000
MAX_NUMBERED = 16_384
#: Most blocks that a map reads: each is an argument, and engines do not cope well with thousands of arguments.
MAX_TOGETHER = 256
#: Memory of a row of text while it is read and handed on, in its sizes: a decoder's buffer, which doubles, its column,
#: and the result of a map, an encoder or a function. A large row took 3.6 to 5.7 sizes (sort, scan, map_batches).
ROW_COPIES = 7
#: Several tasks at once may read rows of text up to this size, whatever the limit.
MIN_ROW_BYTES = 4_000_000
#: Memory of a page while it is decoded, in its sizes: as it is stored, decompressed, and the rows that refer to it.
PAGE_COPIES = 4
#: Every page up to this size is decoded. The plan counts larger pages if they are the first of their column.
MIN_PAGE_BYTES = 25_000_000
#: Size of stretches from which keys are sampled where there are steps: these stretches are read whole.
SAMPLED_BYTES = 1_000_000
#: Most such stretches that stand for one item, where files are small.
MAX_SAMPLED_TOGETHER = 16


class Input(Protocol):
    """One input of a shuffle: how it is measured, cut and read."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Applied to the rows as they are read, before the steps of the shuffle."""
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


@dataclass(frozen=True)
class FileInput:
    """Files, with steps on the way.

    Attributes:
        source: The files.
        steps: Applied to the rows as they are read, before the steps of the shuffle.
        first_file: Number of the first file, where rows of several inputs must be told apart.
    """

    source: _native.Source
    steps: tuple[Step, ...] = ()
    first_file: int = 0

    def measure(self, side: Side) -> Workload:
        """See ``Input``."""
        if self.source.bytes == 0:
            return Workload(0, 0)
        return dataclasses.replace(
            self._measured(side, self.decoding_bytes(side)),
            decoding_bytes=self.decoding_bytes(side),
            num_columns=len(side.schema),
        )

    def _measured(self, side: Side, memory_bytes: int) -> Workload:
        source = self.source
        every = self._stretches(MEASURED_BYTES)
        if not every:
            return Workload(0, 0)
        # Sizes of text are sizes of the files, which lack the values of partition columns.
        if self.steps + side.steps or (is_text(source) and partitions_of(source).num_columns):
            return self._measured_stepped(self._stepped(side), every, memory_bytes)
        chosen = evenly(every, MEASURED_STRETCHES)
        sorter = self.map_input(side).config.build()
        found = [sorter.measure([split], MEASURED_ROWS, 0) for split in chosen]
        largest = max(most for *_, most in found)
        if source.rows is None:
            total = sum(row_bytes for _, row_bytes, _ in found)
            mean = max(1.0, total / max(sum(rows for rows, *_ in found), 1))
            return Workload(source.memory_bytes, int(source.memory_bytes / mean), largest)
        # Weighs by the bytes that files tell: a stretch of large rows has few rows, but as many bytes as the others.
        sizes = [
            (max(1, split.bytes), split.size * row_bytes / max(rows, 1))
            for split, (rows, row_bytes, _) in zip(chosen, found, strict=True)
        ]
        share = sum(size for _, size in sizes) / sum(told for told, _ in sizes)
        total = max(source.rows, int(source.memory_bytes * share))
        return Workload(total, source.rows, largest, dense_percent=_dense_percent(sizes))

    def _measured_stepped(
        self, stepped: BatchInput, every: list[_native.Split], memory_bytes: int
    ) -> Workload:
        """Measures the size of the rows after the steps.

        Small files are measured with their neighbours, as maps read them, because few keys come twice in one small
        file. Measured one by one, 10,000 files with the same 1,000 keys seemed to have 6.3 million groups.
        """
        count = self._num_together(every, MEASURED_BYTES)
        groups = [tuple(every[at : at + count]) for at in range(0, len(every), count)]
        chosen = evenly(groups, MEASURED_STRETCHES)
        read = [tuple(split.beginning(MEASURED_BYTES) for split in group) for group in chosen]
        share = len(groups) / len(chosen) * _rows_of(chosen) / _rows_of(read)
        # A worker process may die in any stretch; then a function runs again over that stretch only.
        count = len(read) if _executor(stepped) == "process" else min(2, len(read))
        parts = [read[at::count] for at in range(count)]
        return _together(_weighed(stepped, parts, share, memory_bytes))

    def _num_together(self, stretches: Sequence[_native.Split], num_bytes: int) -> int:
        """Returns how many stretches have ``num_bytes`` together; 1 where files are not small."""
        mean = max(1, self.source.memory_bytes // max(len(stretches), 1))
        return min(MAX_SAMPLED_TOGETHER, max(1, num_bytes // mean))

    def _stretches(self, num_bytes: int) -> list[_native.Split]:
        return self.source.splits(max(num_bytes, self.source.memory_bytes // MAX_CANDIDATES))

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Any]:
        """See ``Input``."""
        del side
        # Where the size of travelling rows is unknown, the size of the files counts.
        total = max(workload.total_bytes, workload.read_bytes) or max(self.source.memory_bytes, 1)
        target = max(1, split_bytes * self.source.memory_bytes // total)
        if workload.dense_percent > UNEVEN_PERCENT:
            target = max(1, target * 100 // workload.dense_percent)
        num_bytes = target
        if self._numbers_text:
            # The files alone determine these splits.
            num_bytes = max(NUMBERED_BYTES, self.source.bytes // MAX_NUMBERED)
        together = self.source.splits_together(num_bytes, target, self.first_file)
        return [tuple(splits) if len(splits) > 1 else splits[0] for splits in together]

    @property
    def _numbers_text(self) -> bool:
        """Whether rows are numbered that come from files which do not tell the numbers of rows."""
        return bool(self.steps) and isinstance(self.steps[0], Numbered) and is_text(self.source)

    def num_rows(self, items: Sequence[Any], workload: Workload) -> list[float]:
        """See ``Input``."""
        sizes = [sum(split.size for split in splits_of(item)) for item in items]
        return list(sizes) if self.source.rows is not None else _by_bytes(sizes, workload)

    def pieces(self, num_bytes: int) -> list[_native.Split]:
        """Cuts the files into splits of about this size."""
        return self.source.splits(num_bytes, self.first_file)

    def map_input(self, side: Side) -> MapInput:
        """See ``Input``."""
        if self.steps + side.steps:
            return self._stepped(side)
        source = self.source
        return SplitInput(RowsConfig(bounded(source), source.schema_ipc, side.order), side.tag)

    def _stepped(self, side: Side) -> BatchInput:
        steps = self.steps + side.steps
        schema = schema_of(self.source)
        columns = required_columns(steps, schema, side.schema.names)
        reader = FileReader(bounded(self.source), self.source.schema_ipc, columns)
        return BatchInput(reader, steps, _config(side), side.tag)

    def decoding_bytes(self, side: Side) -> int:
        """See ``Input``."""
        steps = self.steps + side.steps
        schema = schema_of(self.source)
        columns = required_columns(steps, schema, side.schema.names) if steps else schema.names
        return decoding_bytes(self.source, columns)

    def sample(self, side: Side, items: Sequence[tuple[int, Any]], num_rows: int) -> list[Ref]:
        """See ``Input``."""
        map_input = self.map_input(side)
        run = _sampling(map_input, self.decoding_bytes(side))
        if isinstance(map_input, BatchInput):
            # Steps cannot be applied to single rows of a split, so short stretches stand for the split.
            every = self._stretches(SAMPLED_BYTES)
            count = self._num_together(every, SAMPLED_BYTES)
            chosen = evenly(every, len(items) * count)
            stretches = [split.beginning(SAMPLED_BYTES) for split in chosen]
            groups = [tuple(stretches[at : at + count]) for at in range(0, len(stretches), count)]
            items = [(index, group) for (index, _), group in zip(items, groups, strict=False)]
        return [run.remote(map_input, index, item, num_rows) for index, item in items]


@dataclass(frozen=True)
class BlockInput:
    """Blocks that an earlier shuffle made, one or several per partition, with steps on the way.

    Attributes:
        refs: References to Arrow IPC streams.
        steps: Applied to the rows as they are read, before the steps of the shuffle.
    """

    refs: tuple[Ref, ...]
    steps: tuple[Step, ...] = ()

    def measure(self, side: Side) -> Workload:
        """See ``Input``."""
        chosen = evenly(list(self.refs), MEASURED_STRETCHES)
        if not chosen:
            return Workload(0, 0)
        share = len(self.refs) / len(chosen)
        engine = current_engine()
        most = max(sum(sizes) for sizes in slice_bytes(chosen))
        memory = min(WEIGHED_COPIES * most, engine.budget_bytes // (2 * engine.num_cpus))
        measured = _weighed(self.map_input(side), chosen, share, memory)
        largest = max(work.total_bytes for work in measured)
        return dataclasses.replace(_together(measured), max_item_bytes=int(largest / share))

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Any]:
        """See ``Input``; several blocks of an item are in the order of the input, and so are their rows.

        Where rows are numbered, they are known by their block, so each block is an item by itself.
        """
        if not workload.total_bytes or _numbers_rows(self.steps, side):
            return list(self.refs)
        sizes = [sum(each) for each in slice_bytes(self.refs)]
        # A map holds its blocks, beside the rows that it makes of them.
        target = split_bytes * sum(sizes) // max(workload.total_bytes, sum(sizes))
        return [
            Refs(self.refs[i] for i in group) if len(group) > 1 else self.refs[group[0]]
            for group in neighbours(sizes, target, MAX_TOGETHER)
        ]

    def decoding_bytes(self, side: Side) -> int:
        """See ``Input``: blocks are read where they lie."""
        del side
        return 0

    def num_rows(self, items: Sequence[Any], workload: Workload) -> list[float]:
        """See ``Input``."""
        blocks = [tuple(item) if isinstance(item, Refs) else (item,) for item in items]
        sizes = [sum(map(sum, slice_bytes(each))) for each in blocks]
        return _by_bytes(sizes, workload)

    def map_input(self, side: Side) -> MapInput:
        """See ``Input``."""
        return BatchInput(BlockReader(), self.steps + side.steps, _config(side), side.tag)

    def sample(self, side: Side, items: Sequence[tuple[int, Any]], num_rows: int) -> list[Ref]:
        """See ``Input``."""
        map_input = self.map_input(side)
        run = _sampling(map_input)
        return [run.remote(map_input, index, item, num_rows) for index, item in items]


@dataclass(frozen=True)
class UnmadeInput:
    """The result of a shuffle that has not run.

    Attributes:
        workload: Its estimated size.
        num_blocks: The number of its partitions.
        steps: Steps behind it.
    """

    workload: Workload
    num_blocks: int
    steps: tuple[Step, ...] = ()

    def measure(self, side: Side) -> Workload:
        """See ``Input``."""
        del side
        return self.workload

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Any]:
        """See ``Input``."""
        if not workload.total_bytes or _numbers_rows(self.steps, side):
            return [None] * self.num_blocks
        sizes = [ceil_div(workload.total_bytes, self.num_blocks)] * self.num_blocks
        return [None for _ in neighbours(sizes, split_bytes, MAX_TOGETHER)]

    def decoding_bytes(self, side: Side) -> int:
        """See ``Input``."""
        del side
        return 0

    def num_rows(self, items: Sequence[Any], workload: Workload) -> list[float]:
        """See ``Input``."""
        return _by_bytes([1] * len(items), workload)

    def map_input(self, side: Side) -> MapInput:
        """See ``Input``."""
        return BatchInput(BlockReader(), self.steps, _config(side))

    def sample(self, side: Side, items: Sequence[tuple[int, Any]], num_rows: int) -> list[Ref]:
        """See ``Input``."""
        del side, items, num_rows
        return []


def _numbers_rows(steps: Sequence[Step], side: Side) -> bool:
    """Whether rows get numbers from their place in the input."""
    return isinstance(side.order, ByChance) or any(isinstance(step, Numbered) for step in steps)


def _by_bytes(sizes: Sequence[int], workload: Workload) -> list[float]:
    """Divides the rows of a workload among its items by their sizes."""
    density = max(workload.num_rows, 1) / max(sum(sizes), 1)
    return [max(size, 1) * density for size in sizes]


def weigh(map_input: BatchInput, items: Any, share: float) -> Workload:
    """Reads items (a list of splits, or a block) whole, measures their rows, and multiplies the sizes by ``share``."""
    sorter = map_input.config.build()
    everything = by_range(sorter, [], 1)
    rows = num_bytes = largest = 0
    sizes: list[tuple[int, float]] = []
    for item in items if isinstance(items, list) else [items]:
        # A block comes without its number.
        place = map_input.reader.place(0, item) if isinstance(items, list) else None
        read = map_input.read(item).read_all()
        sizes.append((read.num_rows, read.nbytes))
        # The result of steps may be far larger than memory.
        for table in chunks_of(
            apply_steps(map_input.steps, read.to_reader(), place), num_bytes=WEIGHED_BYTES
        ):
            rows += table.num_rows
            num_bytes += sorter.scatter_batches(table, 0, everything).row_bytes
            for row in evenly(list(range(table.num_rows)), WEIGHED_ROWS):
                single = sorter.scatter_batches(table.slice(row, 1), 0, everything)
                largest = max(largest, single.row_bytes)
    return Workload(
        int(num_bytes * share),
        int(rows * share),
        largest,
        read_bytes=int(sum(size for _, size in sizes) * share),
        dense_percent=_dense_percent(sizes),
    )


def _dense_percent(stretches: Sequence[tuple[int, float]]) -> int:
    """Returns the size of rows in the stretch with the largest, in percent of the mean size.

    ``stretches`` has the rows of each (or the bytes that they should have) and their bytes. A stretch that is smaller
    than others is a small file: no split of it is too large, whatever its rows are.
    """
    num_rows = sum(rows for rows, _ in stretches)
    num_bytes = sum(size for _, size in stretches)
    if not num_rows or not num_bytes:
        return 100
    means = [size / max(rows, 1) for rows, size in stretches if size * len(stretches) >= num_bytes]
    return min(MOST_UNEVEN_PERCENT, int(100 * max(means) * num_rows / num_bytes))


def measuring(
    measure: Callable[..., Any], map_input: MapInput, memory_bytes: int = 0
) -> RemoteFunction:
    """Returns the remote function of a task that measures rows as they are read."""
    memory_bytes += _declared_bytes(map_input)
    return remote(measure, name="measure", memory=memory_bytes, executor=_executor(map_input))


def _weighed(
    map_input: MapInput, parts: Sequence[Any], share: float, memory_bytes: int = 0
) -> list[Workload]:
    """Weighs parts of the items, side by side."""
    run = measuring(weigh, map_input, memory_bytes)
    weighed: list[Workload] = get([run.remote(map_input, part, share) for part in parts])
    return weighed


def _together(measured: Sequence[Workload]) -> Workload:
    return Workload(
        sum(work.total_bytes for work in measured),
        sum(work.num_rows for work in measured),
        max(work.max_row_bytes for work in measured),
        read_bytes=sum(work.read_bytes for work in measured),
        dense_percent=max(work.dense_percent for work in measured),
    )


def _executor(map_input: MapInput) -> Executor:
    return executor_of("thread", map_input.steps if isinstance(map_input, BatchInput) else ())


def _sampling(map_input: MapInput, decoding_bytes: int = 0) -> RemoteFunction:
    memory = decoding_bytes + _declared_bytes(map_input)
    return remote(sample_keys, name="sample", memory=memory, executor=_executor(map_input))


def _declared_bytes(map_input: MapInput) -> int:
    return functions_bytes(map_input.steps if isinstance(map_input, BatchInput) else ())


def sample_keys(map_input: MapInput, index: int, item: Any, num_rows: int) -> bytes:
    """Task that runs before a shuffle by range; see ``MapInput.sample``."""
    return map_input.sample(index, item, num_rows)


def evenly(items: list[Any], count: int) -> list[Any]:
    """Returns at most ``count`` of the items, evenly spread."""
    if len(items) <= count:
        return items
    return [items[i * len(items) // count] for i in range(count)]


def schema_of(source: _native.Source) -> pa.Schema:
    """Returns the schema of the rows of files."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(source.schema_ipc))


def bounded(source: _native.Source) -> _native.ReadOptions:
    """Returns the options of the reader of files, with the longest row of text or page that memory has room for.

    Longer rows and pages than all tasks have memory for at once are read by one task at a time.
    """
    engine = current_engine()
    at_once = max(MIN_ROW_BYTES, engine.budget_bytes // (ROW_COPIES * engine.num_cpus))
    row = page = None
    if is_text(source):
        row = max(MIN_ROW_BYTES, engine.budget_bytes // ROW_COPIES)
    elif source.format == "parquet":
        planned, _ = source.working_bytes(set(schema_of(source).names))
        share = engine.budget_bytes // (PAGE_COPIES * engine.num_cpus)
        page = max(MIN_PAGE_BYTES, planned, share)
    return source.read_options.with_limits(row, page, at_once)


def is_text(source: _native.Source) -> bool:
    """Whether files do not tell how many rows they have."""
    return FORMATS[source.format].is_text


def told_apart(inputs: Sequence[Input]) -> list[Input]:
    """Numbers the files of a union's inputs: no two files get one number, and no file gets that of a part."""
    return [
        dataclasses.replace(source, first_file=number << FILE_BITS)
        if isinstance(source, FileInput)
        else source
        for number, source in enumerate(inputs, 1)
    ]


def _rows_of(groups: Sequence[tuple[_native.Split, ...]]) -> int:
    """Returns the number of rows of splits, or 1 if that is not known."""
    return sum(split.rows or 0 for group in groups for split in group) or 1


def _config(side: Side) -> RowsConfig:
    return rows_config(side.schema, side.order)
