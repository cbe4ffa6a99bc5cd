"""A shuffle as data: what its maps do, where rows go, and what finishes a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from exoshuffle import _native
from exoshuffle.futures.options import Executor
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.order import Assign, Order, RowsConfig
from exoshuffle.operators.core.tasks import Finish
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: From all rows of each side, in their order, to the result: that of a single partition.
Whole: TypeAlias = "Callable[[Sequence[pa.Table]], pa.RecordBatchReader]"

#: Memory for grouping or joining a partition, beside it: its rows as Arrow and as the result, and a hash table.
#: Measured with keys and values of 8 bytes: 20 bytes per row and 150 to 300 per group. A join takes 110 to 170 per left
#: row.
COMBINE_PERCENT = 200
COMBINE_ROW_BYTES = 300


class Aggregation(Protocol):
    """An aggregation that one query of DuckDB computes, whatever the order of rows; see ``operators.one_query``."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Those by whose values rows are grouped."""
        ...

    @property
    def num_values(self) -> int:
        """The number of values that it keeps for a group."""
        ...

    @property
    def kept_row_bytes(self) -> int:
        """The bytes that it keeps of each row that it reads, beside those of its group."""
        ...

    @property
    def is_exact_inside(self) -> bool:
        """Whether the query may go on with its result, which needs no check: it keeps few values, and all fit."""
        ...

    @property
    def keeps_rows(self) -> bool:
        """Whether its result is rows that it reads; else these are groups."""
        ...

    def most_rows(self, num_rows: float) -> float:
        """Returns the most rows that its result has of so many."""
        ...

    def sql(self, names: Mapping[str, str], rows: str) -> str:
        """Returns the query over the rows of another one, which calls the columns by these names; keys come first."""
        ...

    def result(self, found: pa.Table) -> pa.Table:
        """Returns the rows of the operator from those of the query; raises ``InputError`` if a type has no room."""
        ...


@dataclass(frozen=True)
class Side:
    """The work of the maps of one input.

    Attributes:
        schema: The schema of the rows that travel, after the steps.
        order: The order of these rows.
        steps: Applied before rows are scattered.
        tag: Which side of a join this is; 0 elsewhere.
        row_copies: The most copies of a large row at once in what takes it, with the row itself; None if unknown.
    """

    schema: pa.Schema
    order: Order
    steps: tuple[Step, ...] = ()
    tag: int = 0
    row_copies: int | None = None


@dataclass(frozen=True)
class Shuffle:
    """A shuffle of one or two inputs.

    Attributes:
        name: The operator's name, for progress and plans.
        sides: The work of the maps of each input.
        assign: Makes the assignment of rows to partitions.
        is_sampled: Whether the assignment needs sampled keys.
        finish: Makes the result of a partition.
        schema: The schema of the result.
        keeps_rows: Whether the result is the rows of the input, all of them and unchanged.
        is_even: Whether partitions differ by chance alone, not by their keys.
        is_one_group: Whether all rows are one group.
        num_partitions: R, if only this number is possible.
        reduce_percent: Memory that finishing takes beside the partition, as a share of it.
        reduce_row_bytes: Further memory, per row of the partition.
        executor: Where tasks run.
        plain: The same shuffle without combining rows in maps, for inputs where less travels then.
        combines: Whether maps of this combine such rows, given the rows that maps of ``plain`` would send.
        by_values: Two shuffles in a row that give the same result for few keys; the first also goes by the values that
            are counted.
        whole: Makes the result of all rows in one task; None if the operator is always shuffled.
        narrowed: Makes the same shuffle for some columns of the result, of an input that has the columns of its side
            alone. None if it needs all of them.
        adds: Columns of the result beside those of the input, where its rows are those of the input.
        meets_by: Columns of the result that are equal for rows which meet, and come out as they were.
        aggregation: Makes the result of all rows by one query, with what comes before; None if no query does.
        unordered: Makes the same rows in another order, by a query that ends with many of them or goes on with them.
    """

    name: str
    sides: tuple[Side, ...]
    assign: Assign
    finish: Finish
    schema: pa.Schema
    is_sampled: bool = False
    keeps_rows: bool = False
    is_even: bool = False
    is_one_group: bool = False
    num_partitions: int | None = None
    reduce_percent: int = 0
    reduce_row_bytes: int = 0
    executor: Executor = "thread"
    plain: Shuffle | None = None
    combines: Callable[[pa.Table], bool] | None = None
    by_values: tuple[Shuffle, Shuffle] | None = None
    whole: Whole | None = None
    narrowed: Callable[[frozenset[str]], Shuffle] | None = None
    adds: tuple[str, ...] = ()
    meets_by: tuple[str, ...] = ()
    aggregation: Aggregation | None = None
    unordered: Aggregation | None = None

    @property
    def inside(self) -> Aggregation | None:
        """The aggregation of a query that goes on with the rows."""
        return self.aggregation or self.unordered

    @property
    def passed(self) -> tuple[str, ...]:
        """Columns of the result on which a filter takes out the same rows before the maps."""
        return tuple(self.schema.names) if self.keeps_rows else self.meets_by

    @property
    def num_columns(self) -> int:
        """The most columns of the rows on the way."""
        return max(len(self.schema), *(len(side.schema) for side in self.sides))

    @property
    def is_passed_on(self) -> bool:
        """Whether large partitions are read a run of slices at a time: handed on as they are, or the only one."""
        return self.finish.hands_on or self.is_one_group

    def alone_bytes(self, num_bytes: int, num_rows: int) -> int:
        """Returns the bytes that finishing all rows as one group takes; 0 if they are none, or can be divided."""
        return self.finish.alone_bytes(num_bytes, num_rows) if self.is_one_group else 0


def narrowing(
    make: Callable[[pa.Schema], Shuffle], schema: pa.Schema, read: Iterable[str] = ()
) -> Callable[[frozenset[str]], Shuffle]:
    """Returns ``Shuffle.narrowed`` of a shuffle whose result has the columns of its input.

    Args:
        make: Makes the shuffle for an input.
        schema: The columns of its input.
        read: Those that it needs itself.
    """
    import pyarrow as pa

    own = frozenset(read)

    def narrowed(needed: frozenset[str]) -> Shuffle:
        # One column at least has the number of rows.
        kept = needed | own
        fields = [field for field in schema if field.name in kept] or [schema.field(0)]
        return make(pa.schema(fields, schema.metadata))

    return narrowed


def rows_config(schema: pa.Schema, order: Order) -> RowsConfig:
    """Returns the configuration of rows of a schema, which are in memory."""
    return RowsConfig(_native.ReadOptions(), schema.serialize().to_pybytes(), order)
