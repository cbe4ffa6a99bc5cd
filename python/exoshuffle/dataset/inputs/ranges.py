"""Numbers in a row as an input: each task makes the numbers of its part, so that none are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.inputs.file_sizes import MEASURED_ROWS
from exoshuffle.dataset.inputs.inputs import (
    LIKELY_ROW_BYTES,
    WithoutFiles,
    by_bytes,
    evenly,
    numbers_rows,
)
from exoshuffle.dataset.inputs.weighing import MEASURED_STRETCHES, sampled, together, weighed
from exoshuffle.futures import Ref, Value
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import int64
from exoshuffle.operators.core.inputs import BatchInput
from exoshuffle.operators.core.shuffle import Side, rows_config
from exoshuffle.operators.core.streams import as_rows
from exoshuffle.operators.kernels import call
from exoshuffle.operators.sql.relational import row_numbers
from exoshuffle.operators.steps.place import Place
from exoshuffle.operators.steps.step import Step
from exoshuffle.plan.workload import Workload, ceil_div

if TYPE_CHECKING:
    import pyarrow as pa

#: The column that has the numbers.
COLUMN = "id"
#: Size of a number as it travels: a byte says whether it is null.
ROW_BYTES = 9
#: Numbers in a batch.
BATCH_ROWS = 65_536
#: Numbers in a part, where nobody asks for its size; and most parts: each is an item in the program's memory. The parts
#: of 10**14 numbers took 18 GB.
PART_ROWS = 1_048_576
MAX_PARTS = 65_536


def schema_of_range() -> pa.Schema:
    """Returns the schema of the rows."""
    import pyarrow as pa

    return pa.schema([pa.field(COLUMN, pa.int64())])


@dataclass(frozen=True)
class RangeReader:
    """Makes the numbers of an item, which is a ``range``."""

    def open(self, item: range) -> Any:
        """See ``Reader``."""
        import pyarrow as pa

        schema = schema_of_range()

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, len(item), BATCH_ROWS):
                part = item[start : start + BATCH_ROWS]
                numbers = row_numbers(len(part))
                if part.step != 1:
                    numbers = call("multiply", numbers, int64(part.step))
                numbers = call("add", numbers, int64(part.start))
                yield pa.RecordBatch.from_arrays([numbers], schema=schema)

        return as_rows(pa.RecordBatchReader.from_batches(schema, batches()))

    def place(self, index: int, item: range) -> Place:
        """See ``Reader``."""
        return Place.of_part(index, str(item))


@dataclass(frozen=True)
class RangeInput(WithoutFiles):
    """Numbers, with steps on the way.

    Attributes:
        numbers: The numbers.
        steps: Applied to the rows as they are made, before the steps of the shuffle.
    """

    numbers: range
    steps: tuple[Step, ...] = ()
    is_held = False
    refs = ()

    @property
    def likely_bytes(self) -> int:
        """See ``Input``."""
        return len(self.numbers) * LIKELY_ROW_BYTES

    @property
    def told_bytes(self) -> int:
        """See ``Input``."""
        return len(self.numbers) * ROW_BYTES

    def most(self, schema: pa.Schema) -> Workload | None:
        """See ``Input``."""
        del schema
        return None

    def read_bytes(self, side: Side) -> int:
        """See ``Input``."""
        del side
        return self.told_bytes

    def measure(self, side: Side) -> Workload:
        """See ``Input``."""
        count = len(self.numbers)
        if not self.steps + side.steps or not count:
            return Workload(count * ROW_BYTES, count, ROW_BYTES if count else 0)
        size = min(count, MEASURED_ROWS * MEASURED_STRETCHES)
        chosen = [
            self.numbers[start : start + size]
            for start in evenly(list(range(0, count, max(size, count // 1024))), MEASURED_STRETCHES)
        ]
        share = count / sum(map(len, chosen))
        return together(weighed(self.map_input(side), [[each] for each in chosen], share))

    def cut(self, side: Side, split_bytes: int, workload: Workload) -> list[Value]:
        """See ``Input``; where rows are numbered, they are known by their part, whose size is always the same."""
        count = len(self.numbers)
        rows = max(PART_ROWS, ceil_div(count, MAX_PARTS))
        if workload.total_bytes and not numbers_rows(self.steps, side):
            rows = max(1, split_bytes * count // workload.total_bytes)
        return [self.numbers[start : start + rows] for start in range(0, count, rows)]

    def decoding_bytes(self, side: Side) -> int:
        """See ``Input``: nothing is decoded."""
        del side
        return 0

    def num_rows(self, items: Sequence[Value], workload: Workload) -> list[float]:
        """See ``Input``."""
        return by_bytes([len(item) for item in items], workload)

    def map_input(self, side: Side) -> BatchInput:
        """See ``Input``."""
        return BatchInput(
            RangeReader(), self.steps + side.steps, rows_config(side.schema, side.order), side.tag
        )

    def sample(
        self, side: Side, items: Sequence[tuple[int, object]], num_rows: Sequence[int]
    ) -> list[Ref]:
        """See ``Input``."""
        return sampled(self.map_input(side), items, num_rows)
