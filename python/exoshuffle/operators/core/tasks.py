"""The task set of all operators on tables: map reads and scatters, merge concatenates, reduce finishes and hands over.

Guarantee: the bytes are the same whatever strategy, engine or parallelism ran it. Maps keep input order within a slice,
merges concatenate in map order, and a finish takes the slices of its partition in that order.

Operators differ in four things only, which are data here. These are what is read, the steps on the way, how rows are
assigned to partitions, and what finishes a partition.
"""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from exoshuffle import _native
from exoshuffle.futures import Value, allocate_block
from exoshuffle.futures.engine import BlockBuffer
from exoshuffle.futures.options import Executor
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.checks import opened, placed
from exoshuffle.operators.core.inputs import MapInput
from exoshuffle.operators.core.order import RowsConfig, by_hash_level
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.streams import own_errors
from exoshuffle.operators.steps.step import Step, functions_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from exoshuffle.plan.division import Division, Large


class Finish(ABC):
    """Makes the result of a partition; data that travels to the reduces."""

    @property
    @abstractmethod
    def configs(self) -> tuple[RowsConfig, ...]:
        """The configuration of the rows of each side."""

    @abstractmethod
    def __call__(self, sections: _native.Sections) -> _native.Rows:
        """Makes the rows of the partition (``_native.Rows``) from its sections (``_native.Sections``) in map order."""

    @abstractmethod
    def divide(self, tasks: TableTasks, large: Large) -> Division:
        """Returns how to divide a partition that is larger than planned; see ``DividingTaskSet``.

        Raises:
            LargeGroupError: No division fits within the memory limit.
        """

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps for the rows of a partition, once they are together."""
        return ()

    @property
    def streams_in_place(self) -> bool:
        """Whether the Arrow stream of a partition is made in its block: the size of the rows tells its size."""
        return False

    @property
    def hands_on(self) -> bool:
        """Whether rows stay as they come, so that no partition has to be seen whole."""
        return False

    @property
    def uses_database(self) -> bool:
        """Whether DuckDB makes the rows, which takes memory from then on."""
        return False

    @property
    def remedy(self) -> str:
        """Tells users what to do about a group that does not fit into memory."""
        return (
            "its function needs it whole; use one that does not (approx_quantile for median and quantile, "
            "approx_count_distinct for count_distinct), filter it"
        )

    def assignment(
        self, sorter: _native.Sorter, samples: Sequence[bytes], num_partitions: int, level: int
    ) -> bytes:
        """Returns where the rows of a divided partition go; ``level`` counts its divisions, this one included."""
        del samples
        return by_hash_level(sorter, num_partitions, level)

    def alone_bytes(self, num_bytes: int, num_rows: int) -> int:
        """Returns the bytes that finishing all rows as one group takes; 0 if they can be divided."""
        del num_bytes, num_rows
        return 0

    def whole_bytes(self, num_bytes: int, num_rows: int, percent: int, row_bytes: int) -> int:
        """Returns the bytes that finishing all rows in one task takes beside them.

        Args:
            num_bytes: Bytes of the rows as Arrow data.
            num_rows: Their number.
            percent: Memory of a reduce of the shuffle, as a share of its rows.
            row_bytes: Its memory for each row.
        """
        return num_bytes * percent // 100 + num_rows * row_bytes

    def result_rows(self, num_rows: Sequence[int]) -> int:
        """Estimates the rows of the result, from those of each side."""
        return sum(num_rows)

    def result_bytes(self, num_rows: Sequence[int], num_bytes: Sequence[int]) -> int | None:
        """Estimates the bytes of the result, from the rows and bytes of each side; None for as many as travel."""
        del num_rows, num_bytes
        return None


@dataclass
class TableTasks:
    """``TaskSet`` and ``StreamingTaskSet`` of the operators on tables.

    Attributes:
        states_are_slices: See ``SliceStates``.
        name: The operator's name, for errors.
        inputs: The readers and steps of the maps.
        starts: Number of the first map of each input.
        num_maps: Maps of all inputs; every reduce must get the output of each.
        assignment: Which partition each row goes to, as the native object serialises it.
        finish: Makes the result of a partition.
        sink: Takes that result.
        executor: Where tasks run; users' Python functions are better off in processes.
    """

    states_are_slices: ClassVar[bool] = True

    name: str
    inputs: tuple[MapInput, ...]
    starts: tuple[int, ...]
    num_maps: int
    assignment: bytes
    finish: Finish
    sink: Sink
    executor: Executor = "thread"

    def map(self, index: int, item: Value) -> BlockBuffer:
        """Reads an item and scatters its rows. Cost: two passes over the rows; moves each once."""
        source = self.inputs[bisect.bisect_right(self.starts, index) - 1]
        # Some rows are read only when their block is there.
        with placed(f"map {index} of {self.name}"), own_errors():
            scattered = source.scatter(index, item, self.assignment)
            block = allocate_block(scattered.offsets)
            scattered.write_into(block)
        return block

    def merge(self, *blocks: Value) -> BlockBuffer:
        """Concatenates blocks slice by slice. Cost: one copy of their bytes."""
        # If an object has one slice, its value is that slice, not a list of one.
        slices = [block if isinstance(block, list) else [block] for block in blocks]
        block = allocate_block(_native.merged_offsets(slices))
        _native.merge_into(slices, block)
        return block

    def fold(self, partition: int, state: Buffer | None, slices: list[Buffer]) -> BlockBuffer:
        """Concatenates the state of a partition and the slices of a round. Cost: one copy of their bytes.

        Why it does no more: the order of all rows, or all rows of a group, are known only at the end. ``reduce`` then
        checks what the sections of the state say of their rows.
        """
        del partition
        return self.merge(b"" if state is None else state, *slices)

    @property
    def reduce_returns(self) -> int | Literal["streaming"]:
        """See ``ManyResults``."""
        return self.sink.num_returns

    def reduce(self, partition: int, slices: list[Buffer]) -> object:
        """Finishes a partition and hands it to the sink.

        Raises:
            ShuffleCheckError: The rows are not those that the maps read; see ``exoshuffle.operators.core.checks``.
        """
        return handed(self.sink, self._reduced(partition, slices))

    def _reduced(self, partition: int, slices: list[Buffer]) -> Iterator[object]:
        place = f"the reduce of partition {partition} of {self.name}"
        with placed(place), opened(slices, partition, 0, self.num_maps) as sections, own_errors():
            yield from self.sink(partition, self.finish(sections))

    def functions_bytes(self, name: str) -> int:
        """Returns the memory declared by the users' functions that run in the tasks of this name."""
        if name in ("map", "sample"):
            return max(functions_bytes(source.steps) for source in self.inputs)
        if name not in ("reduce", "stream", "rejoin"):
            return 0
        return functions_bytes((*self.finish.steps, *self.sink.all_steps))

    def divide(self, large: Large) -> Division:
        """See ``DividingTaskSet``."""
        return self.finish.divide(self, large)
