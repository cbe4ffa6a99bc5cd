"""Joins with a side that is so small that every task gets it, and nothing is shuffled: which side, and its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.jobs.fitting import is_little, most_sent
from exoshuffle.dataset.jobs.joins import rows_size
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.unshuffled import ScanJob
from exoshuffle.dataset.tree.below import is_scanned
from exoshuffle.dataset.tree.nodes import Node, ShuffleNode, ShuffleOptions
from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.futures import Engine, Ref, get, slice_bytes
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.order import round_robin
from exoshuffle.operators.core.streams import as_reader
from exoshuffle.operators.join.broadcast import BROADCAST_SIDES
from exoshuffle.operators.repartition.shuffle import repartition_shuffle
from exoshuffle.plan.workload import Workload
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: A side of a join goes to every task, without a shuffle, up to this size and up to this share of the budget.
MAX_BROADCAST_BYTES = 16_000_000
BROADCAST_SHARE = 16
#: A fourth of the budget must also have room for its hash tables in all tasks that run at once. Each takes 150 bytes
#: for a row. A side of 1.2 million numbers, joined within 300 MB, took 435 MB and ended in an error of DuckDB.
BROADCAST_ROW_SHARE = 600
#: Each task makes a hash table of the side, of at most so many times the rows that it reads of the other one. 860,000
#: groups, joined to 2 million rows in 8 tasks, took 3.2 s of CPU, and take 2.1 in one piece.
MOST_ROWS_FOR_EACH = 2
#: Joins that only look up whether a key is there make no groups of the side, which is most of the work.
LOOK_UPS = ("semi", "anti", "cross")
#: Sizes are estimates mostly. A side that proves larger than this many times its share of the budget is shuffled.
BROADCAST_SLACK = 2


@dataclass(frozen=True)
class SmallSide:
    """A side of a join that every task can have.

    Attributes:
        side: 0 for the left side, 1 for the right side.
        schema: Schema of its rows.
        inputs: The inputs that make its rows.
    """

    side: int
    schema: pa.Schema
    inputs: list[Input]

    @cached_property
    def most(self) -> Workload | None:
        """The most that its rows can be, by footers and the store; None if these do not tell."""
        return most_sent(self.inputs, self.schema)

    @cached_property
    def size(self) -> Workload:
        """The size of its rows, as measured."""
        return rows_size(self.inputs, self.schema)


def small_side(
    node: ShuffleNode,
    engine: Engine,
    inputs: Callable[[Node], list[Input]],
    shuffled: Callable[[], ShuffleJob],
) -> SmallSide | None:
    """Returns the side of a join that every task gets; None if none is small enough, or a shuffle was asked for.

    Args:
        node: The join.
        engine: The engine that runs it.
        inputs: Returns the inputs of a side; runs what has to run for that.
        shuffled: Returns the job of the join as a shuffle, not measured.
    """
    join = node.join
    if join is None or (join.how != "cross" and node.options != ShuffleOptions()):
        return None
    sides = BROADCAST_SIDES[join.how]

    def small(side: int) -> SmallSide:
        child = node.children[side]
        return SmallSide(side, child.schema, inputs(child))

    def pays(side: int, size: Workload | None) -> bool:
        other = node.children[1 - side]
        if size is None or join.how in LOOK_UPS or not is_scanned(other):
            return True
        return size.num_rows <= MOST_ROWS_FOR_EACH * _task_rows(inputs(other), other.schema, engine)

    # Footers cost nothing; measuring a filtered file of 1.8 million rows took 0.12 s.
    for found in (small(side) for side in sides if is_scanned(node.children[side])):
        if is_small(found.most, engine) and pays(found.side, found.most):
            return found
    if all(map(is_scanned, node.children)) and is_little(shuffled()):
        return None
    # One after the other, since a side is made to be measured if it is no scan.
    for found in map(small, sides):
        size = _size_found(found)
        if is_small(size, engine) and pays(found.side, size):
            return found
    return None


def _task_rows(inputs: Sequence[Input], schema: pa.Schema, engine: Engine) -> float:
    """Returns about the rows that a task reads of a side before filters; no end of them where footers do not tell."""
    num_rows = [source.known_rows for source in inputs]
    if None in num_rows:
        return math.inf
    return sum(filter(None, num_rows)) / max(ScanJob(inputs, schema, engine).num_tasks, 1)


def _size_found(found: SmallSide) -> Workload | None:
    """Returns the size of a side; None where it cannot be read: the shuffle tells which limit would do."""
    try:
        with PlainErrors():
            return found.size
    except MemoryLimitError as error:
        if not error.row_bytes:
            raise
        return None


def is_small(size: Workload | None, engine: Engine) -> bool:
    """Whether every task can have a side of a join; not where its size is unknown."""
    if size is None or size.total_bytes > MAX_BROADCAST_BYTES:
        return False
    num_bytes, num_rows = _most_for_every_task(engine)
    return size.total_bytes <= num_bytes and size.num_rows <= num_rows


def _most_for_every_task(engine: Engine) -> tuple[int, int]:
    """Returns the most bytes and rows of a side for which the budget has room in every task."""
    budget = engine.budget_bytes
    return budget // BROADCAST_SHARE, budget // (BROADCAST_ROW_SHARE * engine.num_cpus)


def other_side(node: ShuffleNode, side: int) -> Node:
    """Returns the node that the tasks of a join read when each gets all rows of ``side``.

    A cross join that was given a strategy or a number of partitions deals out this node by these first.
    """
    other = node.children[1 - side]
    if node.options == ShuffleOptions():
        return other
    dealt = repartition_shuffle(other.schema, (), round_robin)
    return ShuffleNode((other,), dealt, node.options)


def refuse_options(node: ShuffleNode, engine: Engine) -> None:
    """Raises ``OptionsError`` if a cross join of two large sides was given a strategy or a number of partitions."""
    if node.options != ShuffleOptions():
        most_bytes = min(MAX_BROADCAST_BYTES, _most_for_every_task(engine)[0])
        raise OptionsError(
            f"a cross join of two sides of more than {format_bytes(most_bytes)} has its own partitions; "
            "leave out strategy and num_partitions, and repartition() its result"
        )


def side_table(refs: Sequence[Ref], schema: pa.Schema, engine: Engine) -> pa.Table | None:
    """Returns the rows of a side, which are in the store; None if they prove to be too many for every task.

    Rows that nobody looked at: files hide 36 texts of 20 MB among 240,000 short ones.
    """
    import pyarrow as pa

    most_bytes, most_rows = (BROADCAST_SLACK * most for most in _most_for_every_task(engine))
    if sum(map(sum, slice_bytes(refs))) > most_bytes:
        return None
    tables = [as_reader(_native.Rows.from_ipc(get(ref))).read_all() for ref in refs]
    table = pa.concat_tables([pa.Table.from_batches([], schema), *tables])
    return table if table.num_rows <= most_rows else None
