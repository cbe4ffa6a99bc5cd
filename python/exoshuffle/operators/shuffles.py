"""Every operator that shuffles, as data: what its maps do, where rows go, and what finishes a partition."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.futures.callables import check_plain
from exoshuffle.futures.options import Executor
from exoshuffle.operators.core.at_once import AtOnce, InParts, Narrowing
from exoshuffle.operators.core.finishes import (
    Alone,
    Combined,
    Finish,
    Gathered,
    Joined,
    Recounted,
    Sorted,
)
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import (
    Assign,
    ByChance,
    ByKeys,
    ByRecordKey,
    Order,
    RowsConfig,
    by_even_range,
    by_hash,
    by_range,
    check_group_keys,
    round_robin,
)
from exoshuffle.operators.group_by.aggregate import GroupBy, Uncombined
from exoshuffle.operators.group_by.counted import CountedValues
from exoshuffle.operators.group_by.functions import Kept
from exoshuffle.operators.group_by.map_groups import MapGroups
from exoshuffle.operators.group_by.rows import check_keys
from exoshuffle.operators.steps.functions import ONE_TABLE, MapBatches
from exoshuffle.operators.steps.step import Step
from exoshuffle.operators.top_k.top import Best
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.distinct.distinct import Distinct
    from exoshuffle.operators.join.join import Join

#: Memory of grouping or joining a partition beside it: its rows as Arrow and as the result, and a hash table. Measured
#: with keys and values of 8 bytes: 20 bytes per row and 150 to 300 per group; a join 110 to 170 per left row.
COMBINE_PERCENT = 200
COMBINE_ROW_BYTES = 300
#: Where groups are few: their rows as Arrow, and 66 bytes for each value that is counted.
COUNT_PERCENT, COUNT_ROW_BYTES = 100, 80


@dataclass(frozen=True)
class Side:
    """What the maps of one input do.

    Attributes:
        schema: Of the rows that travel, after the steps.
        order: What these are ordered by.
        steps: Applied before rows are scattered.
        tag: Which side of a join this is; 0 elsewhere.
    """

    schema: pa.Schema
    order: Order
    steps: tuple[Step, ...] = ()
    tag: int = 0


@dataclass(frozen=True)
class Shuffle:
    """A shuffle of one or two inputs.

    Attributes:
        name: Of the operator, for progress and plans.
        sides: What the maps of each input do.
        assign: Makes the assignment of rows to partitions.
        is_sampled: Whether that needs sampled keys.
        finish: What becomes of a partition.
        schema: Of the result.
        keeps_rows: Whether the result has as many rows as the input.
        is_even: Whether partitions differ by chance alone, not by their keys.
        num_partitions: R, if it can only be this.
        reduce_percent: Memory that finishing takes, as a share of the partition, beside the partition itself.
        reduce_row_bytes: And further, per row of it.
        executor: Where tasks run.
        plain: The same without combining rows in maps, for where less travels then.
        combines: Whether maps of this combine such rows, given those that maps of ``plain`` would send.
        by_values: Two shuffles, one behind the other, that make the same of few keys: the first goes by the values that
            are counted as well.
    """

    name: str
    sides: tuple[Side, ...]
    assign: Assign
    finish: Finish
    schema: pa.Schema
    is_sampled: bool = False
    keeps_rows: bool = False
    is_even: bool = False
    num_partitions: int | None = None
    reduce_percent: int = 0
    reduce_row_bytes: int = 0
    executor: Executor = "thread"
    plain: Shuffle | None = None
    combines: Callable[[pa.Table], bool] | None = None
    by_values: tuple[Shuffle, Shuffle] | None = None

    @property
    def is_passed_on(self) -> bool:
        """Whether large partitions are read a run of slices at a time: handed on as they are, or the only one."""
        if not isinstance(self.finish, Gathered):
            return False
        return not self.finish.steps or self.is_one_group

    @property
    def is_one_group(self) -> bool:
        """Whether all rows are one group."""
        return self.name == "group_by" and self.num_partitions == 1

    def alone_bytes(self, num_bytes: int, num_rows: int) -> int:
        """What finishing all rows as one group takes; 0 where they can be divided, or are not one."""
        finish = self.finish
        if not isinstance(finish, Gathered) or not self.is_one_group or finish.recounted:
            return 0
        if finish.combined is not None:
            return 0
        return finish.alone.of_one_key.memory(num_bytes, num_rows)

    @property
    def streams_in_place(self) -> bool:
        """Whether the Arrow stream of a partition is made in its block: its size is known from that of the rows."""
        if not isinstance(self.finish, Sorted | Gathered) or self.finish.steps:
            return False
        in_place: bool = self.finish.config.build().streams_in_place
        return in_place


def rows_config(schema: pa.Schema, order: Order, read_options: str = "{}") -> RowsConfig:
    """The configuration of rows of a schema; ``read_options`` where they are read from files."""
    return RowsConfig(read_options, schema.serialize().to_pybytes(), order)


def sort(schema: pa.Schema, order: ByKeys | ByRecordKey) -> Shuffle:
    """Partitions by key ranges, each sorted; stable.

    Why sort in the reduce alone: a partition fits into memory by plan, so sorting earlier would only sort twice.
    """
    finish = Sorted(rows_config(schema, order))
    return Shuffle(
        "sort", (Side(schema, order),), by_range, finish, schema, is_sampled=True, keeps_rows=True
    )


def top_k(schema: pa.Schema, keys: tuple[SortKey, ...], count: int) -> Shuffle:
    """The first rows of a sort: maps keep those of their split, one reduce those of all, in order."""
    best, names = Best(keys, count), tuple(schema.names)
    partial, final = Narrowing(best.kept, schema, names), AtOnce(best.ranked, schema, names)
    return _meeting("top_k", (), (partial,), schema, final, schema)


def random_shuffle(schema: pa.Schema, seed: int, window: int | None = None) -> Shuffle:
    """A uniform permutation: every row draws a number of 64 bits and rows are sorted by it.

    So the number of rows that go from a map to a partition is multinomial, the order within a partition is an
    independent uniform permutation, and the result does not depend on how many maps and partitions there are. Within
    windows of so many rows, the numbers of a window are neighbours (``crates/kernels/src/permutation.rs``).
    """
    order = ByChance(seed, window)
    finish = Sorted(rows_config(schema, order))
    side = Side(schema, order)
    name, is_even = _of_windows(window)
    return Shuffle(name, (side,), by_range, finish, schema, keeps_rows=True, is_even=is_even)


def numbered_shuffle(schema: pa.Schema, column: str, window: int | None = None) -> Shuffle:
    """``random_shuffle`` of rows that have their numbers in a column."""
    made = sort(schema, ByKeys((SortKey(column),)))
    name, is_even = _of_windows(window)
    return dataclasses.replace(
        made, name=name, assign=by_even_range, is_sampled=False, is_even=is_even
    )


def _of_windows(window: int | None) -> tuple[str, bool]:
    """The name of a random shuffle, and whether its partitions differ by the chance of single rows alone."""
    if window is None:
        return "random_shuffle", True
    return f"random_shuffle within windows of {counted(window, 'row')}", False


def repartition(schema: pa.Schema, keys: Sequence[str], assign: Assign) -> Shuffle:
    """Partitions in input order: by hash or by range of keys, or dealt out in turn without any."""
    order = ByKeys(tuple(SortKey(key) for key in keys))
    finish = Gathered(rows_config(schema, order))
    return Shuffle(
        "repartition",
        (Side(schema, order),),
        assign,
        finish,
        schema,
        is_sampled=assign is by_range,
        keeps_rows=True,
        is_even=assign is round_robin,
    )


def partition_by(
    schema: pa.Schema, keys: Sequence[str], behind: tuple[SortKey, ...] = ()
) -> Shuffle:
    """Rows with equal keys meet, and come next to each other, in the order of other keys, else as before.

    Why sorted in the reduce: what writes folders has one file open at a time then, however many keys there are.
    """
    first = tuple(SortKey(key) for key in keys)
    finish = Sorted(rows_config(schema, ByKeys((*first, *behind))))
    side = Side(schema, ByKeys(first))
    return Shuffle("partition_by", (side,), by_hash, finish, schema, keeps_rows=True)


def group_by(grouping: GroupBy) -> Shuffle:
    """Groups of equal keys, aggregated: as far as it goes by the maps, then by the reduces.

    Raises:
        SchemaError: A key cannot be one.
    """
    check_group_keys(grouping.schema, grouping.keys)
    shuffle = _aggregation(grouping)
    if not grouping.combines:
        return shuffle
    assert isinstance(shuffle.finish, Gathered)
    values = CountedValues(grouping)
    recounted = _recounted(values)
    finish = dataclasses.replace(shuffle.finish, recounted=recounted)
    shuffle = dataclasses.replace(shuffle, finish=finish)
    if not grouping.keys:
        return shuffle
    plain = _aggregation(Uncombined(grouping.schema, grouping.keys, grouping.aggregates))
    assert isinstance(plain.finish, Gathered)
    combined = Combined(grouping.combined, grouping.partial_schema, finish, grouping.row_cost)
    finish = dataclasses.replace(plain.finish, combined=combined)
    by_values = _by_values(values, recounted)
    plain = dataclasses.replace(plain, finish=finish, by_values=by_values)
    return dataclasses.replace(
        shuffle, plain=plain, combines=grouping.combining_pays, by_values=by_values
    )


def _recounted(values: CountedValues) -> Recounted | None:
    """How to divide groups by values that are counted; None if there are none, or rows cannot be dealt out by them."""
    grouping, result = values.grouping, values.result
    names, schema = list(values.columns.values()), grouping.partial_schema
    with contextlib.suppress(SchemaError):
        check_group_keys(schema, names)
        order = ByKeys(tuple(SortKey(name) for name in (*grouping.keys, *names)))
        counted = AtOnce(values.counted, result.partial_schema, tuple(schema.names))
        first = Gathered(rows_config(schema, order), (counted,))
        last = AtOnce(result.final, result.output_schema, tuple(result.partial_schema.names))
        keys = ByKeys(tuple(SortKey(key) for key in grouping.keys))
        end = Gathered(rows_config(result.partial_schema, keys), (last,))
        return (
            Recounted(Combined(values.spread, schema, first, grouping.row_cost), end)
            if names
            else None
        )
    return None


def _by_values(
    values: CountedValues, recounted: Recounted | None
) -> tuple[Shuffle, Shuffle] | None:
    """Rows meet by keys and counted values; what is made of them, by keys.

    None if that cannot be, or where maps send several rows of a key beside the values: those would not be divided.
    """
    grouping, result = values.grouping, values.result
    others = (part for part in grouping.parts if part not in values.columns)
    if recounted is None or any(isinstance(part.kind, Kept) for part in others):
        return None
    dealt = InParts(values.dealt, grouping.partial_schema, grouping.columns)
    ways: tuple[tuple[Gathered, pa.Schema, tuple[Step, ...], pa.Schema], ...] = (
        (recounted.spread.finish, grouping.partial_schema, (dealt,), result.partial_schema),
        (recounted.last, result.partial_schema, (), result.output_schema),
    )
    first, second = (
        Shuffle(
            "group_by",
            (Side(travelling, finish.config.order, steps),),
            by_hash,
            finish,
            schema,
            reduce_percent=COUNT_PERCENT,
            reduce_row_bytes=COUNT_ROW_BYTES,
        )
        for finish, travelling, steps, schema in ways
    )
    return first, second


def _aggregation(grouping: GroupBy) -> Shuffle:
    partial = InParts(
        grouping.partial, grouping.partial_schema, grouping.columns, grouping.row_cost
    )
    final = AtOnce(grouping.final, grouping.output_schema, tuple(partial.schema.names))
    made = _meeting("group_by", grouping.keys, (partial,), partial.schema, final, final.schema)
    alone = Alone(*grouping.group_cost, sole=Alone(*grouping.sole_group_cost))
    return _finished_alone(made, alone)


def map_groups(
    schema: pa.Schema,
    keys: Sequence[str],
    call: MapBatches,
    learnt: Callable[[MapBatches, pa.Schema], MapBatches],
) -> Shuffle:
    """Groups of equal keys, each handed to a user's function.

    Args:
        schema: Of the rows.
        keys: The columns that are equal within a group.
        call: How to call the function.
        learnt: Finds the schema of what the function returns, if it is not known.

    Raises:
        OptionsError: A key twice, or no function.
        SchemaError: A key is unknown, or cannot be one.
    """
    if not callable(call.function):
        raise OptionsError(f"map_groups needs a function, and got {shown(call.function)}")
    check_plain("map_groups", call.function, ONE_TABLE)
    check_keys(schema, keys)
    check_group_keys(schema, keys)
    step = MapGroups(tuple(keys), learnt(call, schema))
    final = step.output_schema(schema)
    shuffle = _meeting("map_groups", keys, (), schema, step, final)
    # A group alone is handed over as it came; a function that declares nothing may copy it once.
    declared = call.memory_bytes
    shuffle = _finished_alone(shuffle, Alone(0 if declared else 100, 0, declared))
    return dataclasses.replace(shuffle, executor="process")


def distinct(rows: Distinct) -> Shuffle:
    """The first row of every key in input order: among those of a map, then of a partition.

    Raises:
        SchemaError: A key cannot be one.
    """
    check_group_keys(rows.schema, rows.keys)
    names = tuple(rows.schema.names)
    partial = InParts(rows.partial, rows.schema, names)
    final = AtOnce(rows.final, rows.schema, names)
    return _meeting("distinct", rows.keys, (partial,), rows.schema, final, rows.schema)


def join(joined: Join) -> Shuffle:
    """Both sides are dealt out by a hash of their keys, and joined partition by partition."""
    sides = []
    for tag, (schema, steps, keys) in enumerate(joined.sides):
        order = ByKeys(tuple(SortKey(key) for key in keys))
        sides.append(Side(schema, order, steps, tag))
    left, right = (rows_config(side.schema, side.order) for side in sides)
    return Shuffle(
        "join",
        tuple(sides),
        by_hash,
        Joined(joined, left, right),
        joined.output_schema,
        reduce_percent=COMBINE_PERCENT,
        reduce_row_bytes=COMBINE_ROW_BYTES,
    )


def _meeting(
    name: str,
    keys: Sequence[str],
    partial: tuple[Step, ...],
    travelling: pa.Schema,
    final: Step,
    schema: pa.Schema,
) -> Shuffle:
    """Rows with equal keys meet; without any key all rows do, in one partition."""
    order = ByKeys(tuple(SortKey(key) for key in keys))
    return Shuffle(
        name,
        (Side(travelling, order, partial),),
        by_hash if keys else round_robin,
        Gathered(rows_config(travelling, order), (final,)),
        schema,
        num_partitions=None if keys else 1,
        reduce_percent=COMBINE_PERCENT,
        reduce_row_bytes=COMBINE_ROW_BYTES,
    )


def _finished_alone(shuffle: Shuffle, alone: Alone) -> Shuffle:
    """The shuffle, of whose partitions one that is finished alone takes that."""
    assert isinstance(shuffle.finish, Gathered)
    return dataclasses.replace(shuffle, finish=dataclasses.replace(shuffle.finish, alone=alone))
