"""What finishes a partition, as data: sorting, handing rows on through steps, joining; and what large ones take.

Guarantee: slices are taken in the order in which they come, so that the result does not depend on how they were made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from exoshuffle.operators.core.order import RowsConfig
from exoshuffle.operators.core.tasks import as_reader, as_rows
from exoshuffle.operators.steps.step import Step, apply_steps

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.join.join import Join


class Finish(Protocol):
    """What becomes of a partition."""

    def __call__(self, sections: Any) -> Any:
        """The rows of the partition (``_native.Rows``), from its sections (``_native.Sections``) in map order."""


@dataclass(frozen=True)
class Sorted:
    """Sorts. Cost: 16 to 32 bytes per row; gathers each row once."""

    config: RowsConfig
    steps: ClassVar[tuple[Step, ...]] = ()

    def __call__(self, sections: Any) -> Any:
        """See ``Finish``."""
        return self.config.build().sort(sections)


@dataclass(frozen=True)
class Alone:
    """What finishing a partition takes that cannot be divided, beside its rows as Arrow data.

    Attributes:
        percent: As a share of them,
        row_bytes: and further, per row,
        more_bytes: and whatever their size is.
        sole: What it takes if all rows have one key, where that is less.
    """

    percent: int = 200
    row_bytes: int = 110
    more_bytes: int = 0
    sole: Alone | None = None

    @property
    def of_one_key(self) -> Alone:
        """What it takes if all rows have one key."""
        return self.sole or self

    def memory(self, num_bytes: int, num_rows: int) -> int:
        """Of so many rows, with the rows."""
        return num_bytes * (100 + self.percent) // 100 + num_rows * self.row_bytes + self.more_bytes


@dataclass(frozen=True)
class Gathered:
    """Keeps rows as they come, through steps if there are any.

    Attributes:
        config: What the rows are.
        steps: What to do with them.
        combined: How to make fewer of them first, for a partition that is larger than planned.
        recounted: How to divide one of few keys that is larger than planned all the same.
        alone: What a partition takes that stays larger than planned.
    """

    config: RowsConfig
    steps: tuple[Step, ...] = ()
    combined: Combined | None = None
    recounted: Recounted | None = None
    alone: Alone = Alone()

    def __call__(self, sections: Any) -> Any:
        """See ``Finish``."""
        rows = self.config.build().gather(sections)
        if not self.steps:
            return rows
        return as_rows(apply_steps(self.steps, as_reader(rows)))


@dataclass(frozen=True)
class Combined:
    """How rows become fewer that say the same to another finish.

    Attributes:
        function: From some rows to fewer. What it makes of stretches of a partition, in order, finishes as one.
        schema: Of what it makes.
        finish: What finishes that.
        row_bytes: What that takes for each row meanwhile.
    """

    function: Callable[[pa.Table], pa.Table]
    schema: pa.Schema
    finish: Gathered
    row_bytes: int


@dataclass(frozen=True)
class Recounted:
    """How rows of one key are dealt out by values as well, since these are counted only.

    Attributes:
        spread: What is dealt out, and what finishes a part.
        last: What finishes the rows that all parts have made, as one.
    """

    spread: Combined
    last: Gathered


@dataclass(frozen=True)
class Joined:
    """Joins the two sides of a partition, which travelled with tags 0 and 1."""

    join: Join
    left: RowsConfig
    right: RowsConfig

    def __call__(self, sections: Any) -> Any:
        """See ``Finish``."""
        import pyarrow as pa

        sides = [
            as_reader(config.build().gather(sections, tag)).read_all()
            for tag, config in enumerate((self.left, self.right))
        ]
        batches = self.join.run(*sides)
        return as_rows(pa.RecordBatchReader.from_batches(self.join.output_schema, batches))
