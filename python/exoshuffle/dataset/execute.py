"""Turns a tree of operations into a job.

The last shuffle streams into the caller's sink. Those before it leave blocks in the store, which spills blocks that do
not fit. The result of each is measured anew before the next shuffle is planned.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, cast

from exoshuffle import _native
from exoshuffle.dataset.inputs.block_input import BlockInput, UnmadeInput
from exoshuffle.dataset.inputs.file_input import FileInput, told_apart
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.inputs.leading import first_of, leading
from exoshuffle.dataset.inputs.narrowing import narrowed
from exoshuffle.dataset.inputs.ranges import RangeInput
from exoshuffle.dataset.jobs.combining import counts_by_values, lighter
from exoshuffle.dataset.jobs.fitting import fitting_job, why_shuffled
from exoshuffle.dataset.jobs.following import collected
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.top import TopJob
from exoshuffle.dataset.jobs.unshuffled import LimitJob, ScanJob, SteppedJob, piece_bytes
from exoshuffle.dataset.jobs.whole import FromStore, WholeJob
from exoshuffle.dataset.tree.below import without_steps
from exoshuffle.dataset.tree.nodes import (
    Files,
    Given,
    LimitNode,
    MergeJoinNode,
    Node,
    ShuffleNode,
    ShuffleOptions,
    StageNode,
    UnionNode,
    WindowNode,
)
from exoshuffle.dataset.tree.uses import uses_of
from exoshuffle.errors import ClosedError, OptionsError
from exoshuffle.futures import Engine, Ref, RefStream, slice_bytes
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.core.shuffle import Shuffle, Side
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.sort.shuffle import sort_keys
from exoshuffle.operators.steps.step import Step
from exoshuffle.plan.workload import ResultPlace

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.dataset.jobs.merge_joins import MergeJoinJob, SortedSide
    from exoshuffle.dataset.jobs.one_query import OneQueryJob
    from exoshuffle.dataset.jobs.small_sides import SmallSide
    from exoshuffle.dataset.jobs.stages.job import StagedJob
    from exoshuffle.dataset.jobs.windows import WindowJob
    from exoshuffle.operators.core.keys import SortKey

MadeInput = BlockInput | UnmadeInput


@dataclass
class Execution:
    """Makes jobs of trees.

    Attributes:
        engine: Where they run.
        progress: Told of the plan of every shuffle.
    """

    engine: Engine
    progress: Progress | None = None
    #: Results by node: a result is asked for twice, to be measured and to be read, and is made once.
    _made: dict[int, MadeInput] = field(default_factory=dict, init=False, repr=False)
    #: Files with the rows that filters may keep, by the ids of files and steps, which are kept alive.
    _narrow: dict[tuple[int, ...], tuple[_native.Source, tuple[Step, ...], _native.Source]] = field(
        default_factory=dict, init=False, repr=False
    )
    #: How many read each node of the tree of the first job, by the node's id.
    _uses: Counter[int] = field(default_factory=Counter, init=False, repr=False)
    #: The two shuffles that make groups, by the node that they replace.
    _by_values: dict[int, ShuffleNode] = field(default_factory=dict, init=False, repr=False)

    def job(self, node: Node, results: ResultPlace, behind: tuple[Step, ...] = ()) -> Job:
        """Returns the job of a tree; runs the shuffles below the last one.

        Args:
            node: The tree.
            results: Where its parts will go.
            behind: Steps that the caller will apply to the parts on the way.
        """
        self.look_at(node)
        below, steps = without_steps(node)
        if isinstance(below, Files | Given | UnionNode) or id(below) in self._made:
            # The scan gets the steps, so that it does not read columns which no step needs.
            return ScanJob(self.inputs(node), node.schema, self.engine)
        if isinstance(below, StageNode):
            return self.staged_job(node, behind)
        job = self._job(below, results, (*steps, *behind))
        return SteppedJob(job, steps) if steps else job

    def _job(
        self,
        node: ShuffleNode | MergeJoinNode | LimitNode | WindowNode,
        results: ResultPlace,
        behind: tuple[Step, ...],
    ) -> Job:
        if isinstance(node, ShuffleNode):
            job = self._join_job(node, results, behind) or self.query_job(node, results, behind)
            return job or self._stepwise_job(node, results, behind)
        if isinstance(node, MergeJoinNode):
            return self.merge_join_job(node)
        if isinstance(node, WindowNode):
            return self.window_job(node)
        job = self.top_query_job(node, behind)
        return job or self._stepwise_top_job(node, results, behind)

    def _stepwise_top_job(
        self, node: LimitNode, results: ResultPlace, behind: tuple[Step, ...]
    ) -> Job:
        return self.whole_top_job(node, behind) or self._limit_job(node, results, behind)

    def _limit_job(self, node: LimitNode, results: ResultPlace, behind: tuple[Step, ...]) -> Job:
        top = self.top_job(node, results, behind)
        if top is not None:
            return top
        job = self.job(node.child, "batches", behind)
        if isinstance(job, ScanJob):
            job = dataclasses.replace(job, inputs=first_of(job.inputs, node.count))
        return LimitJob(job, node.count, self.engine)

    def query_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...] = ()
    ) -> OneQueryJob | None:
        """Returns the job that runs an operator, and what is below it, by one query; None if there is none."""
        is_sort = sort_keys(node.shuffle) is not None
        if node.shuffle.aggregation is None and not (is_sort and _has_parts(node)):
            return None
        from exoshuffle.dataset.jobs.one_query import one_query_job

        otherwise = functools.partial(self._stepwise_job, node, results, behind)
        return one_query_job(node, behind, self, otherwise)

    def top_query_job(self, node: LimitNode, behind: tuple[Step, ...] = ()) -> OneQueryJob | None:
        """Returns the job that finds the first rows of a sort, and all below, by one query; None if there is none."""
        sort = node.child
        if not isinstance(sort, ShuffleNode) or sort_keys(sort.shuffle) is None:
            return None
        if not _has_parts(sort):
            return None
        from exoshuffle.dataset.jobs.one_query import one_query_job

        otherwise = functools.partial(self._stepwise_top_job, node, "batches", behind)
        return one_query_job(sort, behind, self, otherwise, node.count)

    def look_at(self, root: Node) -> None:
        """Counts who reads what in a tree; the first one counts."""
        self._uses = self._uses or uses_of(root)

    def num_readers(self, node: Node) -> int:
        """Returns how many nodes of the tree of the first job read this one."""
        return self._uses[id(node)]

    def _stepwise_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...]
    ) -> Job:
        job = self.whole_job(node, results, behind)
        return job or self._sieved_job(node, results, behind)

    def _sieved_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...]
    ) -> ShuffleJob:
        """Returns the job of a shuffle; that of a join sends fewer rows of a large side, where that pays."""
        if node.join is None:
            return self.shuffle_job(node, results, behind)
        from exoshuffle.dataset.jobs.sieving import filtered_side, sieved

        side = filtered_side(node, self._unmeasured(node))
        if side is None:
            return self.shuffle_job(node, results, behind)
        stored = self._stored(node.children[1 - side])
        return sieved(self.shuffle_job(node, results, behind), node.join, side, stored)

    def _stored(self, node: Node) -> BlockInput:
        """Puts the rows of a tree into the store, where all who read it find them."""
        match self.inputs(node):
            case [BlockInput(steps=()) as stored]:
                return stored
        stored = BlockInput(tuple(self._blocks(self.job(node, "blocks"))))
        self._made[id(node)] = stored
        return stored

    def whole_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...] = ()
    ) -> WholeJob | None:
        """Returns the job that runs an operator in one piece; None if it has to be shuffled.

        Raises:
            OptionsError: One piece was asked for, and this operator does not run in one.
        """

        def shuffled(shuffle: Shuffle, inputs: Sequence[tuple[Input, Side]]) -> Job | None:
            return fitting_job(self._plain_job(shuffle, inputs, results, behind))

        job = self._unmeasured(node, results, behind)
        again = functools.partial(self.shuffle_job, node, results, behind)
        return self._in_one_piece(job, node.options, shuffled, again)

    def whole_top_job(self, node: LimitNode, behind: tuple[Step, ...] = ()) -> WholeJob | None:
        """Returns the job that finds the first rows of a sort in one piece; None if it does not run so."""
        top = _top_of(node)
        if top is None:
            return None
        sort = cast("ShuffleNode", node.child).shuffle

        def shuffled(shuffle: Shuffle, inputs: Sequence[tuple[Input, Side]]) -> Job | None:
            # The maps have left out other rows, and these are too many to choose among them at once.
            del shuffle
            sides = [(source, sort.sides[0]) for source, _ in inputs]
            job = fitting_job(self._plain_job(sort, sides, "batches", behind))
            return job and LimitJob(job, node.count, self.engine)

        def again() -> Job:
            return self._limit_job(node, "batches", behind)

        job = self._top_job(node, top, behind)
        return self._in_one_piece(job, top.options, shuffled, again)

    def _in_one_piece(
        self,
        job: ShuffleJob,
        options: ShuffleOptions,
        shuffled: FromStore,
        again: Callable[[], Job],
    ) -> WholeJob | None:
        """Returns the job that does in one piece what another would shuffle; None if that has to be."""
        why_not = why_shuffled(job, options)
        if not why_not:
            return WholeJob(
                job.inputs, job.shuffle, self.engine, shuffled, again, job, options.is_whole
            )
        if options.is_whole:
            raise OptionsError(
                f'strategy="whole" runs an operator without a shuffle, and {why_not}; leave out strategy'
            )
        return None

    def _unmeasured(
        self, node: ShuffleNode, results: ResultPlace = "blocks", behind: tuple[Step, ...] = ()
    ) -> ShuffleJob:
        return self._plain_job(node.shuffle, self._inputs_of(node), results, behind)

    def _plain_job(
        self,
        shuffle: Shuffle,
        inputs: Sequence[tuple[Input, Side]],
        results: ResultPlace,
        behind: tuple[Step, ...],
    ) -> ShuffleJob:
        """Returns the job of a shuffle as it is, without a choice of what its maps send."""
        return ShuffleJob(
            inputs, shuffle, ShuffleOptions(), self.engine, results, self.progress, behind
        )

    def window_job(self, node: WindowNode) -> WindowJob:
        """Returns the job of a shuffle within windows."""
        from exoshuffle.dataset.jobs.windows import WindowJob

        return WindowJob(self.inputs(node.child), node.schema, node.seed, node.window, self.engine)

    def staged_job(self, node: Node, behind: tuple[Step, ...] = ()) -> StagedJob:
        """Returns the job of a pipeline: the stages above the first rows that no stage makes, and their source."""
        from exoshuffle.dataset.jobs.stages.job import StagedJob
        from exoshuffle.dataset.jobs.stages.planning import fused

        below, steps = without_steps(node)
        parts = list[tuple[StageNode, tuple[Step, ...]]]()
        while isinstance(below, StageNode) and id(below) not in self._made:
            parts.insert(0, (below, steps))
            node = below.child
            below, steps = without_steps(node)
        source = self.job(node, "blocks", behind)
        return StagedJob(source, fused(parts), self.engine)

    def merge_join_job(self, node: MergeJoinNode) -> MergeJoinJob:
        """Returns the job of a sort-merge join; runs the shuffles below it."""
        from exoshuffle.dataset.jobs.merge_joins import MergeJoinJob

        left, right = (self._merged_side(node, side) for side in range(2))
        return MergeJoinJob(node.join, (left, right), self.engine)

    def _merged_side(self, node: MergeJoinNode, side: int) -> SortedSide:
        """Returns a side with its sort, and with a scan unless the user said how to sort."""
        from exoshuffle.dataset.jobs.joins import rows_size
        from exoshuffle.dataset.jobs.merge_joins import SortedSide

        child, ordered = node.children[side], node.sorted_child(side)
        inputs = self.inputs(child)
        is_scanned = node.options == ShuffleOptions()
        return SortedSide(
            rows_size(inputs, child.schema),
            ScanJob(inputs, child.schema, self.engine) if is_scanned else None,
            lambda: self.job(ordered, "blocks"),
        )

    def top_job(
        self, node: LimitNode, results: ResultPlace, behind: tuple[Step, ...] = ()
    ) -> ShuffleJob | None:
        """Returns the job that finds the first rows of a sort without sorting all.

        None if the rows are of no sort, or too many; also if the sort was given a strategy or a number of partitions,
        because it is then done as asked.
        """
        top = _top_of(node)
        if top is None or top.options.is_whole:
            return None
        job = self._top_job(node, top, behind, results)
        return job if job.fits else None

    def _top_job(
        self,
        node: LimitNode,
        top: ShuffleNode,
        behind: tuple[Step, ...],
        results: ResultPlace = "batches",
    ) -> TopJob:
        key = cast("Sequence[SortKey]", sort_keys(cast("ShuffleNode", node.child).shuffle))[0]
        return TopJob(
            [(leading(source, key, node.count), side) for source, side in self._inputs_of(top)],
            top.shuffle,
            ShuffleOptions(),
            self.engine,
            results,
            self.progress,
            behind,
            count=node.count,
        )

    def _join_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...]
    ) -> Job | None:
        """Returns the job of a join that needs no shuffle; None if it needs one."""
        join = node.join
        if join is None:
            return None
        from exoshuffle.dataset.jobs.joins import CrossJob
        from exoshuffle.dataset.jobs.sieving import narrowed_scan
        from exoshuffle.dataset.jobs.small_sides import other_side
        from exoshuffle.operators.join.broadcast import BroadcastJoin

        small = self.small_side(node)
        table = None if small is None else self._small_table(node.children[small.side], small)
        if small is not None and table is not None:
            job = self.job(other_side(node, small.side), results, behind)
            job = narrowed_scan(job, node, small.side, table)
            return SteppedJob(job, (BroadcastJoin(join, small.side, table),))
        if join.how != "cross":
            return None
        left, right = map(self._blocks, self.cross_sides(node))
        return CrossJob(join, left, right, self.engine)

    def small_side(self, node: ShuffleNode) -> SmallSide | None:
        """Returns the side of a join that every task gets; None if none is small enough, or a shuffle was asked for."""
        if node.join is None:
            return None
        from exoshuffle.dataset.jobs.small_sides import small_side

        return small_side(node, self.engine, self.inputs, lambda: self._unmeasured(node))

    def cross_sides(self, node: ShuffleNode) -> tuple[ScanJob, ScanJob]:
        """Returns the jobs that read the pieces of both sides of a cross join without a small side.

        Raises:
            OptionsError: The join was given a strategy or a number of partitions.
        """
        from exoshuffle.dataset.jobs.small_sides import refuse_options

        refuse_options(node, self.engine)
        left, right = (
            ScanJob(self.inputs(child), child.schema, self.engine) for child in node.children
        )
        return left, right

    def _blocks(self, job: Job) -> list[Ref]:
        """Puts the result of a job into the store."""
        # The sink makes a stream of blocks of each partition.
        streams = job.run(BlocksSink(piece_bytes(self.engine)))
        return collected(cast("Iterator[RefStream]", streams), self.engine.num_cpus)

    def _small_table(self, node: Node, small: SmallSide) -> pa.Table | None:
        """Reads all rows of a side; None if they prove to be too many, and then its input are the rows in the store."""
        from exoshuffle.dataset.jobs.small_sides import side_table

        refs = self._blocks(ScanJob(small.inputs, small.schema, self.engine))
        table = side_table(refs, small.schema, self.engine)
        if table is None:
            self._made[id(node)] = BlockInput(tuple(refs))
        return table

    def shuffle_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...] = ()
    ) -> ShuffleJob:
        """Returns the job of a shuffle; runs the shuffles below it. The arguments are those of ``job``."""
        inputs = self._inputs_of(node)
        job = ShuffleJob(
            inputs, node.shuffle, node.options, self.engine, results, self.progress, behind
        )
        chosen = lighter(job)
        by_values = chosen.shuffle.by_values
        if by_values is None or not counts_by_values(chosen):
            return chosen
        if id(node) not in self._by_values:
            first = ShuffleNode(
                node.children, by_values[0], dataclasses.replace(node.options, num_partitions=None)
            )
            self._by_values[id(node)] = ShuffleNode((first,), by_values[1], node.options)
        return self.shuffle_job(self._by_values[id(node)], results, behind)

    def _inputs_of(self, node: ShuffleNode) -> list[tuple[Input, Side]]:
        return [
            (source, side)
            for child, side in zip(node.children, node.shuffle.sides, strict=True)
            for source in self.inputs(child)
        ]

    def inputs(self, node: Node, later: tuple[Step, ...] = ()) -> list[Input]:
        """Returns the inputs of a tree; ``later`` steps come after its own."""
        if id(node) in self._made:
            return [dataclasses.replace(self._made[id(node)], steps=later)]
        node, steps = without_steps(node)
        steps += later
        if isinstance(node, Files):
            return [FileInput(self._narrowed(node.source, steps), steps)]
        if isinstance(node, Given):
            return [dataclasses.replace(given_input(node), steps=steps)]
        if isinstance(node, UnionNode):
            inputs = [source for child in node.children for source in self.inputs(child, steps)]
            return told_apart(inputs)
        if id(node) not in self._made:
            self._made[id(node)] = self.made(node)
        return [dataclasses.replace(self._made[id(node)], steps=steps)]

    def _narrowed(self, source: _native.Source, steps: tuple[Step, ...]) -> _native.Source:
        """Returns the files with the rows that filters may keep; looks into them once."""
        if not any(step.condition_sql for step in steps):
            return source
        looked = (id(source), *map(id, steps))
        if looked not in self._narrow:
            self._narrow[looked] = (source, steps, narrowed(source, steps))
        return self._narrow[looked][-1]

    def made(self, node: Node) -> MadeInput:
        """Returns the result of a tree as an input."""
        return BlockInput(tuple(self._blocks(self.job(node, "blocks"))))


def _has_parts(sort: ShuffleNode) -> bool:
    """Whether the rows of a sort come of joins or groups, which have no order to keep."""
    below, _ = without_steps(sort.children[0])
    return isinstance(below, ShuffleNode)


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


def given_input(node: Given) -> BlockInput | RangeInput:
    """Returns the input that reads rows which the program gave.

    Raises:
        ClosedError: The engine that kept them was closed.
    """
    try:
        slice_bytes(node.rows.refs[:1])
    except ClosedError:
        raise ClosedError(
            f"the rows of {node.label} were kept by an engine that was closed; give them again"
        ) from None
    return node.rows
