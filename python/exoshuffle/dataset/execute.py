"""Turns a tree of operations into a job.

The last shuffle streams into the caller's sink. Those before it leave blocks in the store, which spills blocks that do
not fit. The result of each is measured anew before the next shuffle is planned.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, cast

from exoshuffle import _native
from exoshuffle.dataset.inputs.block_input import BlockInput, UnmadeInput
from exoshuffle.dataset.inputs.file_input import FileInput, told_apart
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.inputs.narrowing import narrowed
from exoshuffle.dataset.inputs.ranges import RangeInput
from exoshuffle.dataset.jobs.combining import counts_by_values, lighter
from exoshuffle.dataset.jobs.first_rows import first_rows_job
from exoshuffle.dataset.jobs.fitting import fitting_job
from exoshuffle.dataset.jobs.following import collected
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.jobs.stages.skipped import SkippedRows
from exoshuffle.dataset.jobs.unshuffled import ScanJob, SteppedJob, piece_bytes
from exoshuffle.dataset.jobs.whole import WholeJob, in_one_piece
from exoshuffle.dataset.tree.below import is_unordered, without_steps
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
from exoshuffle.errors import ClosedError
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

    from exoshuffle.dataset.jobs.one_query import OneQueryJob
    from exoshuffle.dataset.jobs.stages.job import StagedJob
    from exoshuffle.dataset.jobs.windows import WindowJob

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
    #: Rows that functions have skipped.
    skipped: SkippedRows = field(default_factory=SkippedRows, init=False, repr=False)
    #: Results by node: a result is asked for twice, to be measured and to be read, and is made once.
    _made: dict[int, MadeInput] = field(default_factory=dict, init=False, repr=False)
    #: Files with the rows that filters may keep, by the ids of files and steps, which are kept alive.
    _narrow: dict[tuple[int, ...], tuple[_native.Source, tuple[Step, ...], _native.Source]] = field(
        default_factory=dict, init=False, repr=False
    )
    #: Whether DuckDB reads columns of files itself, by the id of the files, which are kept alive.
    _open: dict[tuple[int, frozenset[str]], tuple[_native.Source, bool]] = field(
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
            from exoshuffle.dataset.jobs.join_jobs import merge_join_job

            return merge_join_job(node, self)
        if isinstance(node, WindowNode):
            return self.window_job(node)
        return first_rows_job(node, self, results, behind)

    def query_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...] = ()
    ) -> OneQueryJob | None:
        """Returns the job that runs an operator, and what is below it, by one query; None if there is none."""
        is_sort = sort_keys(node.shuffle) is not None
        if node.shuffle.inside is None and not (is_sort and is_unordered(node.children[0])):
            return None
        from exoshuffle.dataset.jobs.one_query import one_query_job

        otherwise = functools.partial(self._stepwise_job, node, results, behind)
        return one_query_job(node, behind, self, otherwise)

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
        return job or self._shuffled_job(node, results, behind)

    def _shuffled_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...]
    ) -> ShuffleJob:
        if node.join is None:
            return self.shuffle_job(node, results, behind)
        from exoshuffle.dataset.jobs.join_jobs import shuffled_join

        return shuffled_join(node, self, lambda: self.shuffle_job(node, results, behind))

    def whole_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...] = ()
    ) -> WholeJob | None:
        """Returns the job that runs an operator in one piece; None if it has to be shuffled.

        Raises:
            OptionsError: One piece was asked for, and this operator does not run in one.
        """

        def shuffled(shuffle: Shuffle, inputs: Sequence[tuple[Input, Side]]) -> Job | None:
            return fitting_job(dataclasses.replace(job, inputs=inputs, shuffle=shuffle))

        job = self.unmeasured(node, results, behind)
        again = functools.partial(self.shuffle_job, node, results, behind)
        return in_one_piece(job, node.options, shuffled, again)

    def unmeasured(
        self, node: ShuffleNode, results: ResultPlace = "blocks", behind: tuple[Step, ...] = ()
    ) -> ShuffleJob:
        """Returns the job of a shuffle with no options, not measured; runs the shuffles below it."""
        return ShuffleJob(
            self.inputs_of(node),
            node.shuffle,
            ShuffleOptions(),
            self.engine,
            results,
            self.progress,
            behind,
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
        return StagedJob(source, fused(parts), self.engine, self.skipped)

    def _join_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...]
    ) -> Job | None:
        """Returns the job of a join that needs no shuffle; None if it needs one, or there is no join."""
        if node.join is None:
            return None
        from exoshuffle.dataset.jobs.join_jobs import unshuffled_join

        return unshuffled_join(node, self, results, behind)

    def blocks(self, job: Job) -> list[Ref]:
        """Puts the result of a job into the store."""
        # The sink makes a stream of blocks of each partition.
        streams = job.run(BlocksSink(piece_bytes(self.engine)))
        return collected(cast("Iterator[RefStream]", streams), self.engine.num_cpus)

    def keep(self, node: Node, blocks: Sequence[Ref]) -> None:
        """Lets all who read a node read these blocks."""
        self._made[id(node)] = BlockInput(tuple(blocks))

    def shuffle_job(
        self, node: ShuffleNode, results: ResultPlace, behind: tuple[Step, ...] = ()
    ) -> ShuffleJob:
        """Returns the job of a shuffle; runs the shuffles below it. The arguments are those of ``job``."""
        inputs = self.inputs_of(node)
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

    def inputs_of(self, node: ShuffleNode) -> list[tuple[Input, Side]]:
        """Returns the inputs of a shuffle, each with the side that reads it."""
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

    def is_open(self, files: _native.Source, schema: pa.Schema) -> bool:
        """Returns whether DuckDB reads these columns of files itself; looks through them once.

        Queries of one tree read the same columns several times: Q21 of TPC-H looked 13 times.
        """
        from exoshuffle.operators.one_query.files import can_open

        looked = (id(files), frozenset(schema.names))
        if looked not in self._open:
            self._open[looked] = (files, can_open(files, schema, self.engine))
        return self._open[looked][-1]

    def made(self, node: Node) -> MadeInput:
        """Returns the result of a tree as an input."""
        return BlockInput(tuple(self.blocks(self.job(node, "blocks"))))


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
