"""Chooses how a join runs, and makes its job: a side for every task, pieces that meet, or a shuffle of fewer rows.

The choice needs what lies below the join: its inputs, and for a side that every task gets all rows of that side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.decoding import naming
from exoshuffle.dataset.jobs.joins import CrossJob, rows_size
from exoshuffle.dataset.jobs.making import Making
from exoshuffle.dataset.jobs.merge_joins import MergeJoinJob, SortedSide, limit_to_join
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.jobs.sieving import filtered_side, narrowed_scan, sieved
from exoshuffle.dataset.jobs.small_sides import (
    SmallSide,
    other_side,
    refuse_options,
    side_table,
    small_side,
)
from exoshuffle.dataset.jobs.unshuffled import ScanJob, SteppedJob
from exoshuffle.dataset.tree.nodes import MergeJoinNode, Node, ShuffleNode, ShuffleOptions
from exoshuffle.errors import MemoryLimitError
from exoshuffle.operators.join.broadcast import BroadcastJoin

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.dataset.jobs.job import Job
    from exoshuffle.dataset.jobs.shuffle import ShuffleJob
    from exoshuffle.futures import Ref
    from exoshuffle.operators.steps.step import Step
    from exoshuffle.plan.workload import ResultPlace


def unshuffled_join(
    node: ShuffleNode, making: Making, results: ResultPlace, behind: tuple[Step, ...]
) -> Job | None:
    """Returns the job of a join that needs no shuffle; None if it needs one."""
    join = node.join
    assert join is not None
    small = join_side(node, making)
    table = None if small is None else _small_table(node.children[small.side], small, making)
    if small is not None and table is not None:
        job = making.job(other_side(node, small.side), results, behind)
        job = narrowed_scan(job, node, small.side, table)
        return SteppedJob(job, (BroadcastJoin(join, small.side, table),))
    if join.how != "cross":
        return None
    left, right = map(making.blocks, cross_sides(node, making))
    return CrossJob(join, left, right, making.engine)


def join_side(node: ShuffleNode, making: Making) -> SmallSide | None:
    """Returns the side of a join that every task gets; None if none is small enough, or a shuffle was asked for."""
    return small_side(node, making.engine, making.inputs, lambda: making.unmeasured(node))


def cross_sides(node: ShuffleNode, making: Making) -> tuple[ScanJob, ScanJob]:
    """Returns the jobs that read the pieces of both sides of a cross join without a small side.

    Raises:
        OptionsError: The join was given a strategy or a number of partitions.
    """
    refuse_options(node, making.engine)
    left, right = (
        ScanJob(making.inputs(child), child.schema, making.engine) for child in node.children
    )
    return left, right


def merge_join_job(node: MergeJoinNode, making: Making) -> MergeJoinJob:
    """Returns the job of a sort-merge join; runs the shuffles below it."""
    try:
        with PlainErrors():
            left, right = (_merged_side(node, side, making) for side in range(2))
    except MemoryLimitError as error:
        if not error.row_bytes:
            raise
        raise naming(error, limit_to_join(making.engine, error.row_bytes)) from None
    job = MergeJoinJob(node.join, (left, right), making.engine)
    job.check_fits()
    return job


def shuffled_join(
    node: ShuffleNode, making: Making, shuffled: Callable[[], ShuffleJob]
) -> ShuffleJob:
    """Returns the job of a join that is shuffled; it sends fewer rows of a large side, where that pays.

    Args:
        node: The join.
        making: Makes what lies below it.
        shuffled: Returns the job that sends all rows.
    """
    side = filtered_side(node, making.unmeasured(node))
    if side is None or node.join is None:
        return shuffled()
    blocks = _stored(node.children[1 - side], making)
    return sieved(shuffled(), node.join, side, blocks)


def _stored(node: Node, making: Making) -> Sequence[Ref]:
    """Puts the rows of a tree into the store, where all who read it find them; returns their blocks."""
    match making.inputs(node):
        case [source] if source.is_held and not source.steps:
            return source.refs
    blocks = making.blocks(making.job(node, "blocks"))
    making.keep(node, blocks)
    return blocks


def _merged_side(node: MergeJoinNode, side: int, making: Making) -> SortedSide:
    """Returns a side with its sort, and with a scan unless the user said how to sort."""
    child, ordered = node.children[side], node.sorted_child(side)
    inputs = making.inputs(child)
    is_scanned = node.options == ShuffleOptions()
    return SortedSide(
        rows_size(inputs, child.schema),
        ScanJob(inputs, child.schema, making.engine) if is_scanned else None,
        lambda: making.job(ordered, "blocks"),
    )


def _small_table(node: Node, small: SmallSide, making: Making) -> pa.Table | None:
    """Reads all rows of a side; None if they prove to be too many, and then its input are the rows in the store."""
    refs = making.blocks(ScanJob(small.inputs, small.schema, making.engine))
    table = side_table(refs, small.schema, making.engine)
    if table is None:
        making.keep(node, refs)
    return table
