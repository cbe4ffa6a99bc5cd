"""The task set of all operators on tables: map reads and scatters, merge concatenates, reduce finishes and hands over.

Guarantee: the same bytes whatever strategy, engine or parallelism ran it: maps keep input order within a slice, merges
concatenate in map order, and what finishes a partition takes its slices in that order.

Operators differ in four things only, which are data here: what is read, the steps applied on the way, how rows are
assigned to partitions, and what finishes a partition.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from exoshuffle import _native
from exoshuffle.errors import InputError
from exoshuffle.futures import allocate_block
from exoshuffle.futures.options import Executor
from exoshuffle.operators.core.checks import opened, placed
from exoshuffle.operators.core.order import RowsConfig
from exoshuffle.operators.core.readers import Reader, splits_of
from exoshuffle.operators.steps.sample import Numbered
from exoshuffle.operators.steps.step import Step, apply_steps, functions_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.core.finishes import Finish
    from exoshuffle.shuffle.division import Division, Large

#: Samples need not differ from run to run.
SAMPLE_SEED = 0


class MapInput(Protocol):
    """One input of a shuffle, as its maps see it."""

    @property
    def config(self) -> RowsConfig:
        """What the rows are that it scatters."""
        ...

    def scatter(self, index: int, item: Any, assignment: bytes) -> Any:
        """Reads an item as map number ``index`` and finds where each row goes (``_native.Scattered``)."""

    def sample(self, index: int, item: Any, num_rows: int) -> bytes:
        """Key tuples of about ``num_rows`` rows of an item, with their positions."""

    def rows(self, index: int, item: Any) -> Any:
        """The rows of item number ``index`` (``_native.Rows``)."""


@dataclass(frozen=True)
class SplitInput:
    """Splits of files, scattered as they are: everything happens in one native call.

    Attributes:
        config: How to read and order.
        tag: Which side of a join this is; 0 elsewhere.
    """

    config: RowsConfig
    tag: int = 0

    def scatter(self, index: int, item: Any, assignment: bytes) -> Any:
        """See ``MapInput``."""
        return self.config.build().scatter(list(splits_of(item)), index, assignment, self.tag)

    def sample(self, index: int, item: Any, num_rows: int) -> bytes:
        """See ``MapInput``. Cost: decodes a few pages of the key columns."""
        splits = list(splits_of(item))
        sample: bytes = self.config.build().sample(splits, index, num_rows, SAMPLE_SEED)
        return sample

    def rows(self, index: int, item: Any) -> Any:
        """See ``MapInput``."""
        del index
        config = self.config
        return _native.Rows.scan(config.read_options, config.schema, list(splits_of(item)))


@dataclass(frozen=True)
class BatchInput:
    """Anything that can be read, with steps on the way.

    Attributes:
        reader: How to read.
        steps: What to do with the batches.
        config: How to order what comes out of them.
        tag: As in ``SplitInput``.
    """

    reader: Reader
    steps: tuple[Step, ...]
    config: RowsConfig
    tag: int = 0

    def open(self, index: int, item: Any) -> pa.RecordBatchReader:
        """The batches of item number ``index``, after the steps."""
        place = self.reader.place(index, item)
        if len(splits_of(item)) == 1 or not self._num_numberings:
            return apply_steps(self.steps, self.read(item), place)
        others = self.steps[self._num_numberings :]
        return apply_steps(others, self._numbered(index, item), place)

    def _numbered(self, index: int, splits: Sequence[Any]) -> pa.RecordBatchReader:
        """The batches of all splits, numbered split by split; each is opened when those before it have been read."""
        import pyarrow as pa

        def opened(split: Any) -> pa.RecordBatchReader:
            place = self.reader.place(index, split)
            return apply_steps(self.steps[: self._num_numberings], self.read(split), place)

        first = opened(splits[0])
        others = (batch for split in splits[1:] for batch in opened(split))
        return pa.RecordBatchReader.from_batches(first.schema, itertools.chain(first, others))

    @property
    def _num_numberings(self) -> int:
        """Steps that number rows come first: see ``dataset.sampling``."""
        return sum(1 for _ in itertools.takewhile(lambda s: isinstance(s, Numbered), self.steps))

    def read(self, item: Any) -> pa.RecordBatchReader:
        """The batches of an item, before the steps."""
        return as_reader(self.reader.open(item))

    def scatter(self, index: int, item: Any, assignment: bytes) -> Any:
        """See ``MapInput``."""
        return self.config.build().scatter_batches(
            as_rows(self.open(index, item)), index, assignment, self.tag
        )

    def sample(self, index: int, item: Any, num_rows: int) -> bytes:
        """See ``MapInput``. Cost: reads the whole item."""
        sorter = self.config.build()
        sample: bytes = sorter.sample_batches(self.open(index, item), index, num_rows, SAMPLE_SEED)
        return sample

    def rows(self, index: int, item: Any) -> Any:
        """See ``MapInput``."""
        return as_rows(self.open(index, item)) if self.steps else self.reader.open(item)


class Sink(Protocol):
    """Takes the rows of a partition (``_native.Rows``) and makes the result of a task from them, or its results."""

    @property
    def num_returns(self) -> int | Literal["streaming"]:
        """1, or how a task says that it yields several results; as in ``TaskOptions``."""
        ...

    @property
    def keeps_partitions(self) -> bool:
        """Whether a partition has to stay one result where rows are only handed on: somebody counts on its file."""
        ...

    def __call__(self, partition: int, rows: Any) -> Iterator[Any]:
        """Takes the partition and yields the results of the task; one, unless it says otherwise."""

    def within(self, partition: int) -> Sink:
        """The sink for the parts of a partition, in whose place they come."""


@dataclass
class TableTasks:
    """``TaskSet`` and ``StreamingTaskSet`` of the operators on tables.

    Attributes:
        states_are_slices: See ``StreamingTaskSet``.
        name: Of the operator, for errors.
        inputs: What is read.
        starts: Number of the first map of each input.
        num_maps: Maps of all inputs; every reduce must get the output of each.
        assignment: Which partition each row goes to, as the native object serialises it.
        finish: What becomes of a partition.
        sink: What to do with that.
        executor: Where tasks run: user's Python functions are better off in processes.
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

    def map(self, index: int, item: Any) -> Any:
        """Reads an item and scatters its rows. Cost: two passes over the rows; moves each once."""
        source = self.inputs[bisect.bisect_right(self.starts, index) - 1]
        with placed(f"map {index} of {self.name}"):
            with own_errors():
                scattered = source.scatter(index, item, self.assignment)
            block = allocate_block(scattered.offsets)
            scattered.write_into(block)
        return block

    def merge(self, *blocks: Any) -> Any:
        """Concatenates blocks slice by slice. Cost: one copy of their bytes."""
        # The value of an object of one slice is that slice, not a list of one.
        slices = [block if isinstance(block, list) else [block] for block in blocks]
        block = allocate_block(_native.merged_offsets(slices))
        _native.merge_into(slices, block)
        return block

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        """Concatenates the state of a partition and the slices of a round. Cost: one copy of their bytes.

        Why no more: the order of all rows, or all rows of a group, are known at the end; and what the sections of the
        state say of their rows is checked there, with ``reduce``.
        """
        del partition
        return self.merge(b"" if state is None else state, *slices)

    @property
    def reduce_returns(self) -> int | Literal["streaming"]:
        """See ``TaskSet``."""
        return self.sink.num_returns

    def reduce(self, partition: int, slices: list[Any]) -> Any:
        """Finishes a partition and hands it to the sink.

        Raises:
            ShuffleCheckError: The rows are not those that the maps read; see ``exoshuffle.operators.core.checks``.
        """
        return handed(self.sink, self._reduced(partition, slices))

    def _reduced(self, partition: int, slices: list[Any]) -> Iterator[Any]:
        place = f"the reduce of partition {partition} of {self.name}"
        with placed(place), opened(slices, partition, 0, self.num_maps) as sections, own_errors():
            yield from self.sink(partition, self.finish(sections))

    def functions_bytes(self, name: str) -> int:
        """What users' functions have declared to take that run in the tasks of this name."""
        if name in ("map", "sample"):
            return max(functions_bytes(getattr(source, "steps", ())) for source in self.inputs)
        if name not in ("reduce", "stream", "rejoin"):
            return 0
        return functions_bytes((*getattr(self.finish, "steps", ()), *sink_steps(self.sink)))

    def divide(self, large: Large) -> Division:
        """See ``DividingTaskSet``."""
        from exoshuffle.operators.division.dividing import divide

        return divide(self, large)


def sink_steps(sink: Sink) -> tuple[Step, ...]:
    """What a sink, and those behind it, do to rows before they take them."""
    behind = getattr(sink, "sink", None)
    steps: tuple[Step, ...] = getattr(sink, "steps", ())
    return steps if behind is None else (*steps, *sink_steps(behind))


def handed(sink: Sink, results: Iterator[Any]) -> Any:
    """What a task returns whose results are those of a sink: the one that there is, or a generator of them.

    The last one comes when ``results`` has ended, with what is checked at the end: a single one never comes unchecked.
    """
    if sink.num_returns == "streaming":
        return _held_back(results)
    (result,) = results
    return result


def _held_back(results: Iterator[Any]) -> Iterator[Any]:
    last = next(results)
    for result in results:
        yield last
        last = result
    yield last


def as_reader(rows: Any) -> pa.RecordBatchReader:
    """Batches of ``_native.Rows``.

    A failure to make them, of which an Arrow stream carries no more than the text, is raised as what it is.
    """
    import pyarrow as pa

    batches = pa.RecordBatchReader.from_stream(rows)

    def checked() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except pa.ArrowException as error:
            rows.raise_failure()
            raise InputError(str(error).removeprefix("External error: ")) from error

    return pa.RecordBatchReader.from_batches(batches.schema, checked())


def as_rows(batches: pa.RecordBatchReader) -> Any:
    """Batches as ``_native.Rows``, to be consumed within ``own_errors``."""
    import pyarrow as pa

    kept = pa.RecordBatchReader.from_batches(batches.schema, _keeping_errors(batches))
    return _native.Rows.from_batches(kept)


#: The error that ended the batches which this thread consumes.
_ended = threading.local()


def _keeping_errors(batches: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except GeneratorExit:  # whoever consumes them failed, and says why
        raise
    except BaseException as error:  # a function may leave by sys.exit
        _ended.error = error
        raise


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """Around native code that consumes batches made in Python: what they raise comes through as it was.

    An Arrow stream carries no more than the text of an error.
    """
    _ended.error = None
    try:
        yield
    except Exception:
        kept, _ended.error = _ended.error, None
        if kept is None:
            raise
        context = kept.__context__
        try:
            raise kept
        finally:
            # What the function itself had in hand, and not that a stream ended.
            kept.__context__ = context
