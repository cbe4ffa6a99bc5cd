"""The inputs of maps: columns of splits of files as they are, or batches with steps on the way."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from exoshuffle import _native
from exoshuffle.futures import Value
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.choosing import ChoosingReader
from exoshuffle.operators.core.order import ByChance, RowsConfig
from exoshuffle.operators.core.picking import PickingReader
from exoshuffle.operators.core.readers import FileReader, Reader, splits_of
from exoshuffle.operators.core.streams import as_reader, as_rows
from exoshuffle.operators.steps.step import Step, apply_steps

if TYPE_CHECKING:
    import pyarrow as pa


#: Samples need not differ from run to run.
SAMPLE_SEED = 0


class MapInput(Protocol):
    """One input of a shuffle, as its maps see it."""

    @property
    def config(self) -> RowsConfig:
        """The configuration of the rows that it scatters."""
        ...

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that it applies to rows on their way."""
        ...

    def scatter(self, index: int, item: Value, assignment: bytes) -> _native.Scattered:
        """Reads an item as map number ``index`` and finds where each row goes."""

    def sample(self, index: int, item: Value, num_rows: int) -> bytes:
        """Returns the key tuples of about ``num_rows`` rows of an item, with their positions."""

    def rows(self, index: int, item: Value) -> _native.Rows:
        """Returns the rows of item number ``index``."""


@dataclass(frozen=True)
class SplitInput:
    """Splits of files, scattered as they are: everything happens in one native call.

    Why columns are chosen there, too: a choice that was a step had a shuffle of 29 numbers go by batches of Arrow. That
    took twice the CPU time.

    Attributes:
        config: How to read and order.
        tag: Which side of a join this is; 0 elsewhere.
    """

    config: RowsConfig
    tag: int = 0

    @property
    def steps(self) -> tuple[Step, ...]:
        """See ``MapInput``."""
        return ()

    def scatter(self, index: int, item: Value, assignment: bytes) -> _native.Scattered:
        """See ``MapInput``."""
        return self.config.build().scatter(splits_of(item), index, assignment, self.tag)

    def sample(self, index: int, item: Value, num_rows: int) -> bytes:
        """See ``MapInput``. Cost: decodes a few pages of the key columns."""
        return self.config.build().sample(splits_of(item), index, num_rows, SAMPLE_SEED)

    def rows(self, index: int, item: Value) -> _native.Rows:
        """See ``MapInput``."""
        del index
        config = self.config
        if config.file_schema is None:
            return _native.Rows.scan(config.read_options, config.schema, splits_of(item))
        return self.in_batches().reader.open(item)

    def in_batches(self) -> BatchInput:
        """Returns the input of the same rows, which reads them as batches."""
        import pyarrow as pa

        config = self.config
        columns = tuple(pa.ipc.read_schema(pa.py_buffer(config.schema)).names)
        reader = FileReader(config.read_options, config.file_schema or config.schema, columns)
        return BatchInput(reader, (), config, self.tag)


@dataclass(frozen=True)
class BatchInput:
    """Anything that can be read, with steps on the way.

    Attributes:
        reader: How to read.
        steps: The steps for the batches.
        config: How to order what comes out of them.
        tag: As in ``SplitInput``.
    """

    reader: Reader
    steps: tuple[Step, ...]
    config: RowsConfig
    tag: int = 0

    def open(self, index: int, item: Value) -> pa.RecordBatchReader:
        """Returns the batches of item number ``index``, after the steps."""
        place = self.reader.place(index, item)
        if isinstance(self.reader, ChoosingReader):
            return apply_steps(self.steps[1:], self.reader.numbered_rows(index, item), place)
        if isinstance(self.reader, PickingReader):
            return apply_steps(self.steps, self.reader.picked(item), place)
        if len(splits_of(item)) == 1 or not self._num_numberings:
            return apply_steps(self.steps, self.read(item), place)
        others = self.steps[self._num_numberings :]
        return apply_steps(others, self._numbered(index, item), place)

    def _numbered(self, index: int, splits: Sequence[Value]) -> pa.RecordBatchReader:
        """Returns the batches of all splits, numbered split by split; opens each when its turn comes."""
        import pyarrow as pa

        def opened(split: Value) -> pa.RecordBatchReader:
            place = self.reader.place(index, split)
            return apply_steps(self.steps[: self._num_numberings], self.read(split), place)

        first = opened(splits[0])
        others = (batch for split in splits[1:] for batch in opened(split))
        return pa.RecordBatchReader.from_batches(first.schema, itertools.chain(first, others))

    @property
    def _num_numberings(self) -> int:
        """Steps that number rows come first: see ``dataset.tree.sampling``."""
        return sum(1 for _ in itertools.takewhile(lambda s: s.numbers is not None, self.steps))

    def read(self, item: Value) -> pa.RecordBatchReader:
        """Returns the batches of an item, before the steps."""
        return as_reader(self.reader.open(item))

    def scatter(self, index: int, item: Value, assignment: bytes) -> _native.Scattered:
        """See ``MapInput``."""
        sorter, rows = self.config.build(), as_rows(self.open(index, item))
        if isinstance(self.config.order, ByChance) and isinstance(self.reader, FileReader):
            # Their steps keep each row: see ``dataset.tree.sampling``.
            return sorter.scatter_rows_of(rows, splits_of(item), index, assignment)
        return sorter.scatter_batches(rows, index, assignment, self.tag)

    def sample(self, index: int, item: Value, num_rows: int) -> bytes:
        """See ``MapInput``. Cost: reads the whole item."""
        sorter = self.config.build()
        return sorter.sample_batches(self.open(index, item), index, num_rows, SAMPLE_SEED)

    def rows(self, index: int, item: Value) -> _native.Rows:
        """See ``MapInput``."""
        return as_rows(self.open(index, item)) if self.steps else self.reader.open(item)
