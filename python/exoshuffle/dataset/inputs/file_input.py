"""Files as an input: how they are measured, cut, read and sampled.

Steps that come first and only choose columns are no steps here: the reader does that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.inputs.decoding import decoding_bytes
from exoshuffle.dataset.inputs.file_sizes import (
    Look,
    Plain,
    Stepped,
    decoded_bytes,
    measured,
    num_together,
    stretches,
)
from exoshuffle.dataset.inputs.hive import partitions_of
from exoshuffle.dataset.inputs.inputs import LIKELY_ROW_BYTES, PACKED_SHARE, Input, by_bytes, evenly
from exoshuffle.dataset.inputs.reading import bounded, is_text, schema_of
from exoshuffle.dataset.inputs.weighing import UNEVEN_PERCENT, sampled
from exoshuffle.dataset.inputs.widths import is_fixed, least_row_bytes, width
from exoshuffle.futures import Ref, Value
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.choosing import ChoosingReader, choice
from exoshuffle.operators.core.inputs import BatchInput, SplitInput
from exoshuffle.operators.core.order import ByKeys, RowsConfig
from exoshuffle.operators.core.picking import PickingReader
from exoshuffle.operators.core.readers import FileReader, splits_of
from exoshuffle.operators.core.shuffle import Side, rows_config
from exoshuffle.operators.sql.parsing import parse_expression
from exoshuffle.operators.steps.sample import Numbered
from exoshuffle.operators.steps.step import (
    Step,
    columns_first,
    copies_behind,
    required_columns,
)
from exoshuffle.plan.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa

#: Numbers of files of an input, and of parts of a shuffle, fit into this many bits.
FILE_BITS = 32
#: Where rows of text files are numbered, splits have at least this size, and there are at most about this many.
NUMBERED_BYTES = 1_000_000
MAX_NUMBERED = 16_384
#: Columns of a filter are read before the others if these are so many times as many. Two columns, of which a filter
#: tests one, took 0.90 to 1.08 of the CPU time in two passes, and three columns 0.75 to 0.87.
OTHERS_PER_TESTED = 2
#: Size of stretches from which keys are sampled where there are steps: these stretches are read whole.
SAMPLED_BYTES = 1_000_000


AnyInput = TypeVar("AnyInput", bound=Input)


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
    is_held = False
    refs = ()

    @property
    def known_rows(self) -> int | None:
        """See ``Input``."""
        return self.source.rows

    @property
    def likely_bytes(self) -> int:
        """See ``Input``."""
        rows = self.source.rows or 0
        return max(self.source.bytes * PACKED_SHARE, rows * LIKELY_ROW_BYTES)

    @property
    def told_bytes(self) -> int:
        """See ``Input``."""
        return self.source.memory_bytes

    def most(self, schema: pa.Schema) -> Workload | None:
        """See ``Input``."""
        makes_rows = any(step.makes_rows for step in self.steps)
        rows = self.source.rows
        if rows is None or makes_rows or not all(map(is_fixed, schema.types)):
            return None
        return Workload(int(rows * least_row_bytes(schema)), rows)

    def read_bytes(self, side: Side) -> int:
        """See ``Input``."""
        schema = schema_of(self.source)
        read = required_columns((*self.steps, *side.steps), schema, side.schema.names)
        share = width(schema.field(name).type for name in read) / width(schema.types)
        return int(self.source.memory_bytes * min(1.0, share))

    def window_bytes(self, num_rows: int) -> int:
        """See ``Input``."""
        return max(1, num_rows * self.source.memory_bytes // max(rows_of(self.source), 1))

    def num_pieces(self, num_bytes: int) -> int:
        """See ``Input``."""
        return self.source.memory_bytes // num_bytes + len(self.source.files)

    def measure(self, side: Side) -> Workload:
        """See ``Input``."""
        if self.source.bytes == 0:
            return Workload(0, 0)
        columns = self._columns(side)
        decoding = decoding_bytes(self.source, columns, self._row_copies(side), is_planned=True)
        # Sizes of text are sizes of the files, which lack the values of partition columns.
        is_widened = is_text(self.source) and partitions_of(self.source).num_columns
        schema, steps = self._read(side)
        # Files tell the sizes of rows with all of their columns.
        is_alike = self.source.rows is not None and all(map(is_fixed, schema.types))
        is_part = schema.names != schema_of(self.source).names and not is_alike
        look: Look
        if is_widened or steps or is_part:
            look = Stepped(self.source, self._stepped(side), decoding)
        else:
            look = Plain(self.source, self._plain(side), decoding, tuple(columns))
        found = measured(self.source, look, columns)
        reader = bounded(self.source, self._row_copies(side))
        # Functions of users may take longer than reading: all CPUs should run them.
        has_function = any(step.is_function for step in self.steps)
        together = 0 if has_function else decoded_bytes(self.source, len(columns), found)
        return dataclasses.replace(
            found,
            decoding_bytes=decoding,
            decoded_bytes=together,
            reading_limit_bytes=reader.enough_bytes(found.max_row_bytes) or 0,
        )

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Value]:
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

    def num_rows(self, items: Sequence[Value], workload: Workload) -> list[float]:
        """See ``Input``."""
        sizes = [sum(split.size for split in splits_of(item)) for item in items]
        return list(sizes) if self.source.rows is not None else by_bytes(sizes, workload)

    def numbered(self, first_file: int) -> FileInput:
        """See ``Input``."""
        return dataclasses.replace(self, first_file=first_file)

    def with_files(self, changed: Callable[[_native.Source], _native.Source]) -> FileInput:
        """See ``Input``."""
        return dataclasses.replace(self, source=changed(self.source))

    def first(self, count: int) -> FileInput:
        """See ``Input``."""
        if not all(step.keeps_all for step in self.steps) or self.source.rows is None:
            return self
        return dataclasses.replace(self, source=self.source.first_rows(count))

    def pieces(self, num_bytes: int) -> list[_native.Split]:
        """See ``Input``."""
        return self.source.splits(num_bytes, self.first_file)

    def map_input(self, side: Side) -> SplitInput | BatchInput:
        """See ``Input``."""
        _, steps = self._read(side)
        return self._stepped(side) if steps else self._plain(side)

    def _plain(self, side: Side) -> SplitInput:
        source, (schema, _) = self.source, self._read(side)
        options, files = bounded(source, side.row_copies), source.schema_ipc
        config = RowsConfig(options, files, side.order)
        if schema.names != schema_of(source).names:
            config = RowsConfig(options, schema.serialize().to_pybytes(), side.order, files)
        return SplitInput(config, side.tag)

    def _stepped(self, side: Side) -> BatchInput:
        _, steps = self._read(side)
        return BatchInput(
            self._reader(steps, tuple(self._columns(side)), self._row_copies(side)),
            steps,
            rows_config(side.schema, side.order),
            side.tag,
        )

    def _reader(
        self, steps: tuple[Step, ...], columns: tuple[str, ...], row_copies: int | None
    ) -> FileReader:
        """Returns the reader of some columns, for steps of which the first may leave out rows."""
        options, schema = bounded(self.source, row_copies), self.source.schema_ipc
        if not steps or not FORMATS[self.source.format].skips_rows:
            return FileReader(options, schema, columns)
        chosen = choice(steps)
        if chosen is not None:
            return ChoosingReader(options, schema, columns, *chosen)
        condition = steps[0].condition_sql
        if condition is not None:
            tested = parse_expression(condition, schema_of(self.source)).columns
            if 0 < len(tested) * OTHERS_PER_TESTED <= len(columns) - len(tested):
                return PickingReader(options, schema, columns, condition, tested)
        return FileReader(options, schema, columns)

    def decoding_bytes(self, side: Side) -> int:
        """See ``Input``."""
        return decoding_bytes(self.source, self._columns(side), self._row_copies(side))

    def page_bytes(self, side: Side) -> int:
        """See ``Input``; of several columns with large pages, about as much as one of these takes."""
        columns = set(self._columns(side))
        working, _ = self.source.working_bytes(columns)
        return min(working, self.source.longest_row_bytes(columns))

    def _row_copies(self, side: Side) -> int | None:
        """Returns the most copies of a large row in what takes the rows, if that is known."""
        _, steps = self._read(side)
        return copies_behind(steps, side.row_copies)

    def _read(self, side: Side) -> tuple[pa.Schema, tuple[Step, ...]]:
        """Returns the columns that the reader chooses, in their order, and the steps behind it."""
        return columns_first(self.steps + side.steps, schema_of(self.source))

    def _columns(self, side: Side) -> Sequence[str]:
        """Returns the columns that are read."""
        schema, steps = self._read(side)
        return required_columns(steps, schema, side.schema.names) if steps else schema.names

    def samples_parts(self, side: Side) -> bool:
        """See ``Input``; of text, which does not tell the number of its rows, a sample reads a megabyte."""
        _, steps = self._read(side)
        return not steps and self.source.rows is not None

    def sample(
        self, side: Side, items: Sequence[tuple[int, object]], num_rows: Sequence[int]
    ) -> list[Ref]:
        """See ``Input``."""
        map_input = self.map_input(side)
        if map_input.steps:
            # Steps cannot be applied to single rows of a split, so short stretches stand for the split.
            every = stretches(self.source, SAMPLED_BYTES)
            count = num_together(self.source, every, SAMPLED_BYTES)
            chosen = evenly(every, len(items) * count)
            read = [split.beginning(SAMPLED_BYTES) for split in chosen]
            groups = [tuple(read[at : at + count]) for at in range(0, len(read), count)]
            items = [(index, group) for (index, _), group in zip(items, groups, strict=False)]
        return sampled(map_input, items, num_rows[: len(items)], self.decoding_bytes(side))


def rows_of(source: _native.Source) -> int:
    """Returns the number of rows of files, or an estimate. Cost: measures files that do not tell it."""
    if source.rows is not None:
        return source.rows
    return FileInput(source).measure(Side(schema_of(source), ByKeys())).num_rows


def told_apart(inputs: Sequence[AnyInput]) -> list[AnyInput]:
    """Numbers the files of a union's inputs: no two files get one number, and no file gets that of a part."""
    return [source.numbered(number << FILE_BITS) for number, source in enumerate(inputs, 1)]
