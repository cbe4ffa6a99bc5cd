"""Chooses how the first rows of a tree are found, and makes that job: by one query, in one piece, or map by map.

Without a sort, parts of the result are taken one after the other until there are enough rows.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from exoshuffle.dataset.inputs.leading import first_of, leading
from exoshuffle.dataset.jobs.fitting import fitting_job
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.making import Making
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.top import TopJob
from exoshuffle.dataset.jobs.unshuffled import LimitJob, ScanJob
from exoshuffle.dataset.jobs.whole import WholeJob, in_one_piece
from exoshuffle.dataset.tree.below import is_unordered
from exoshuffle.dataset.tree.nodes import LimitNode, ShuffleNode, ShuffleOptions
from exoshuffle.operators.core.shuffle import Shuffle, Side
from exoshuffle.operators.sort.shuffle import sort_keys
from exoshuffle.operators.steps.step import Step
from exoshuffle.plan.workload import ResultPlace

if TYPE_CHECKING:
    from exoshuffle.dataset.inputs.inputs import Input
    from exoshuffle.dataset.jobs.one_query import OneQueryJob
    from exoshuffle.operators.core.keys import SortKey


def first_rows_job(
    node: LimitNode, making: Making, results: ResultPlace, behind: tuple[Step, ...]
) -> Job:
    """Returns the job of the first rows of a tree; runs the shuffles below it.

    Args:
        node: The limit.
        making: Makes what lies below it.
        results: Where its parts will go.
        behind: Steps that the caller will apply to the parts on the way.
    """
    job = top_query_job(node, making, behind)
    return job or _stepwise_job(node, making, results, behind)


def top_query_job(
    node: LimitNode, making: Making, behind: tuple[Step, ...] = ()
) -> OneQueryJob | None:
    """Returns the job that finds the first rows of a sort, and all below, by one query; None if there is none."""
    sort = node.child
    if not isinstance(sort, ShuffleNode) or sort_keys(sort.shuffle) is None:
        return None
    if not is_unordered(sort.children[0]):
        return None
    from exoshuffle.dataset.jobs.one_query import one_query_job

    otherwise = functools.partial(_stepwise_job, node, making, "batches", behind)
    return one_query_job(sort, behind, making, otherwise, node.count)


def whole_top_job(
    node: LimitNode, making: Making, behind: tuple[Step, ...] = ()
) -> WholeJob | None:
    """Returns the job that finds the first rows of a sort in one piece; None if it does not run so."""
    top = _top_of(node)
    if top is None:
        return None
    sort = cast("ShuffleNode", node.child).shuffle
    engine = making.engine

    def shuffled(shuffle: Shuffle, inputs: Sequence[tuple[Input, Side]]) -> Job | None:
        # The maps have left out other rows, and these are too many to choose among them at once.
        del shuffle
        sides = [(source, sort.sides[0]) for source, _ in inputs]
        job = ShuffleJob(sides, sort, ShuffleOptions(), engine, "batches", making.progress, behind)
        return LimitJob(job, node.count, engine) if fitting_job(job) else None

    again = functools.partial(_limit_job, node, making, "batches", behind)
    return in_one_piece(_top_job(node, top, making, behind), top.options, shuffled, again)


def top_job(
    node: LimitNode, making: Making, results: ResultPlace, behind: tuple[Step, ...] = ()
) -> ShuffleJob | None:
    """Returns the job that finds the first rows of a sort without sorting all.

    None if the rows are of no sort, or too many. None also if the sort was given a strategy or a number of partitions:
    it is then done as asked.
    """
    top = _top_of(node)
    if top is None or top.options.is_whole:
        return None
    job = _top_job(node, top, making, behind, results)
    return job if job.fits else None


def _stepwise_job(
    node: LimitNode, making: Making, results: ResultPlace, behind: tuple[Step, ...]
) -> Job:
    return whole_top_job(node, making, behind) or _limit_job(node, making, results, behind)


def _limit_job(
    node: LimitNode, making: Making, results: ResultPlace, behind: tuple[Step, ...]
) -> Job:
    top = top_job(node, making, results, behind)
    if top is not None:
        return top
    job = making.job(node.child, "batches", behind)
    if isinstance(job, ScanJob):
        job = dataclasses.replace(job, inputs=first_of(job.inputs, node.count))
    return LimitJob(job, node.count, making.engine)


def _top_of(node: LimitNode) -> ShuffleNode | None:
    """Returns the shuffle that finds the first rows of a sort; None if rows are of none, or of one with options."""
    sort = node.child
    if not isinstance(sort, ShuffleNode):
        return None
    from exoshuffle.operators.top_k.shuffle import top_k_shuffle

    keys = sort_keys(sort.shuffle)
    if keys is None or not (sort.options.is_whole or sort.options == ShuffleOptions()):
        return None
    return ShuffleNode(sort.children, top_k_shuffle(sort.schema, keys, node.count), sort.options)


def _top_job(
    node: LimitNode,
    top: ShuffleNode,
    making: Making,
    behind: tuple[Step, ...],
    results: ResultPlace = "batches",
) -> TopJob:
    key = cast("Sequence[SortKey]", sort_keys(cast("ShuffleNode", node.child).shuffle))[0]
    return TopJob(
        [(leading(source, key, node.count), side) for source, side in making.inputs_of(top)],
        top.shuffle,
        ShuffleOptions(),
        making.engine,
        results,
        making.progress,
        behind,
        count=node.count,
    )
