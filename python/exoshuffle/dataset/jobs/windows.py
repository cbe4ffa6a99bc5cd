"""A random shuffle within windows: windows come in random order, and so do the rows of each; rows move no further.

Guarantee: the order depends only on the seed, on the files and on the size of a window. Nothing is kept between tasks,
so nothing is spilled. A window is a split that ``Source.splits`` cuts for two thirds of its size. It is a stretch of
one file, of whole row groups where these are small. It holds no more than was asked for where the format tells how
large rows are. Small windows are not read here: see ``small_window``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.arguments import is_whole
from exoshuffle.dataset.inputs.file_input import rows_of
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.tree.nodes import Node, sources
from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.futures import Engine, Ref, RefStream, remote
from exoshuffle.futures.options import Executor
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.inputs import MapInput
from exoshuffle.operators.core.order import ByChance, by_range
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.streams import as_reader, as_rows, own_errors
from exoshuffle.operators.steps.sample import numbers
from exoshuffle.operators.steps.step import executor_of, functions_bytes
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import BUFFER_BYTES
from exoshuffle.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: Windows get random numbers like the rows of a file with this number, which no input has.
_WINDOWS = 2**64 - 1
#: Smaller windows are written together, up to this size: a task and a file take some milliseconds each.
PART_BYTES = 32_000_000
#: Windows below this size, or below this share of a row group, are not read one by one: see ``small_window``.
SMALL_BYTES = 256_000
GROUP_SHARE = 4
#: Memory of a task, in windows: the window as it is read, as rows, and as batches again.
_COPIES = 3


@dataclass(frozen=True)
class Window:
    """Rows that are shuffled among each other.

    Attributes:
        input_index: The input that they come from.
        number: Number of the window, in input order.
        item: The split to read.
        is_source: Whether its rows are numbered as those of a source of its own, as rows behind steps are. Else they
            are numbered as those of their file.
    """

    input_index: int
    number: int
    item: _native.Split
    is_source: bool

    @property
    def place(self) -> tuple[int, int]:
        """The source and the number of its first row, by which rows get random numbers."""
        if self.is_source:
            return self.number, 0
        return self.item.file_index, self.item.first_row


@dataclass
class WindowJob:
    """Shuffles windows.

    Attributes:
        inputs: The files to read.
        schema: Schema of the rows.
        seed: Seed of the order.
        window: Number of rows, or a size as text.
        engine: The engine that runs it.
        first_window: Number of the first window that is made, in the order in which they come out.
    """

    inputs: Sequence[Input]
    schema: pa.Schema
    seed: int
    window: int | str
    engine: Engine
    plan: ShufflePlan | None = None
    first_window: int = 0

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``."""
        side = Side(self.schema, ByChance(self.seed))
        map_inputs = tuple(source.map_input(side) for source in self.inputs)
        steps = [step for source in self.inputs for step in source.steps]
        executor = executor_of("thread", (*steps, *sink.all_steps))
        run = remote(
            # As code, a function that closes over too much is refused before it is copied.
            functools.partial(shuffle_windows, map_inputs, sink),
            num_returns=sink.num_returns,
            memory=self.task_memory_bytes(executor) + functions_bytes(sink.all_steps),
            name="window",
            executor=executor,
        )
        for part, windows in enumerate(self.parts):
            yield run.remote(windows, part)

    @cached_property
    def parts(self) -> list[list[Window]]:
        """The windows that each task shuffles."""
        windows = self.windows[self.first_window :]
        together = max(1, PART_BYTES // max(max(self._sizes, default=0), 1))
        return [windows[start : start + together] for start in range(0, len(windows), together)]

    @property
    def num_tasks(self) -> int:
        """The number of tasks: one for each part."""
        return len(self.parts)

    @cached_property
    def _sizes(self) -> list[int]:
        if isinstance(self.window, str):
            return [parse_bytes(self.window)] * len(self.inputs)
        return [source.window_bytes(self.window) for source in self.inputs]

    @cached_property
    def windows(self) -> list[Window]:
        """All windows, in the order in which they come out."""
        windows: list[Window] = []
        for index, (source, size) in enumerate(zip(self.inputs, self._sizes, strict=True)):
            for item in source.pieces(max(1, size * 2 // 3)):
                windows.append(Window(index, len(windows), item, bool(source.steps)))
        order: list[int] = numbers(self.seed, _WINDOWS, 0, len(windows)).to_pylist()
        return [windows[number] for _, number in sorted(zip(order, range(len(order)), strict=True))]

    def task_memory_bytes(self, executor: Executor) -> int:
        """Returns the working memory of a task, on any executor, with the memory that functions on the way declare.

        Raises:
            MemoryLimitError: The budget is smaller.
        """
        del executor
        largest = max(self._sizes, default=0)
        side = Side(self.schema, ByChance(self.seed))
        decoding = max((source.decoding_bytes(side) for source in self.inputs), default=0)
        declared = max((functions_bytes(source.steps) for source in self.inputs), default=0)
        memory = _COPIES * largest + BUFFER_BYTES + decoding + declared
        if memory > self.engine.budget_bytes:
            raise MemoryLimitError(
                f"shuffling a window of {format_bytes(largest)} takes {format_bytes(memory)}, and the memory limit "
                f"leaves {format_bytes(self.engine.budget_bytes)}; choose a smaller window, or leave it out"
            )
        return memory


def check_window(window: object) -> None:
    """Raises ``OptionsError`` unless ``window`` is a number of rows or a size, above zero."""
    size = parse_bytes(window) if isinstance(window, str) else window
    if not is_whole(size) or size < 1:
        raise OptionsError(
            f"window is {window!r}; it must be a number of rows or a size such as '64MB', above 0"
        )


def small_window(node: Node, window: int | str) -> int | None:
    """Returns the number of rows of a window that is too small to be read by itself; None for a larger window.

    Reading windows of 1,000 rows one by one took 4.4 s of processor time for a million rows in one row group. A shuffle
    of all rows, by numbers that keep the rows of a window together, took 0.3 s.
    """
    inputs = sources(node)
    total = sum(source.memory_bytes for source in inputs)
    num_rows = max(1, sum(map(rows_of, inputs)))
    size = parse_bytes(window) if isinstance(window, str) else window * total // num_rows
    group_bytes = total // max(sum(source.num_groups for source in inputs), 1)
    is_text = not any(source.num_groups for source in inputs)
    if size >= SMALL_BYTES and (is_text or GROUP_SHARE * size >= group_bytes):
        return None
    return max(1, size * num_rows // max(total, 1)) if isinstance(window, str) else int(window)


def shuffle_windows(
    map_inputs: Sequence[MapInput], sink: Sink, windows: Sequence[Window], part: int
) -> object:
    """Task: shuffles windows, and hands them to a sink one after the other. Cost: one window at a time in memory."""
    return handed(sink, _handed_on(map_inputs, windows, part, sink))


def _handed_on(
    map_inputs: Sequence[MapInput], windows: Sequence[Window], part: int, sink: Sink
) -> Iterator[object]:
    import pyarrow as pa

    schema = pa.ipc.read_schema(pa.py_buffer(map_inputs[0].config.schema))
    batches = (batch for window in windows for batch in _shuffled(map_inputs, window))
    with own_errors():
        yield from sink(part, as_rows(pa.RecordBatchReader.from_batches(schema, batches)))


def _shuffled(map_inputs: Sequence[MapInput], window: Window) -> pa.RecordBatchReader:
    map_input = map_inputs[window.input_index]
    sorter = map_input.config.build()
    whole = by_range(sorter, [], 1)
    with own_errors():
        if window.is_source:
            rows = map_input.rows(window.number, window.item)
            scattered = sorter.scatter_batches(rows, window.number, whole)
        else:
            scattered = map_input.scatter(window.number, window.item, whole)
    block = bytearray(scattered.offsets[-1])
    scattered.write_into(block)
    return as_reader(sorter.sort(_native.Sections([block], 0, window.number)))
