"""The protocol of what makes jobs: those that are chosen by what lies below them ask it for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle import _native
    from exoshuffle.dataset.inputs.inputs import Input
    from exoshuffle.dataset.jobs.job import Job
    from exoshuffle.dataset.jobs.shuffle import ShuffleJob
    from exoshuffle.dataset.tree.nodes import Node, ShuffleNode
    from exoshuffle.futures import Engine, Ref
    from exoshuffle.observe.progress import Progress
    from exoshuffle.operators.core.shuffle import Side
    from exoshuffle.operators.steps.step import Step
    from exoshuffle.plan.workload import ResultPlace


class Making(Protocol):
    """The maker of a tree's jobs: an ``Execution``."""

    @property
    def engine(self) -> Engine:
        """The engine that runs them."""
        ...

    @property
    def progress(self) -> Progress | None:
        """Told of the plan of every shuffle."""
        ...

    def job(self, node: Node, results: ResultPlace, behind: tuple[Step, ...] = ()) -> Job:
        """Returns the job of a tree; runs the shuffles below the last one."""

    def inputs(self, node: Node) -> list[Input]:
        """Returns the inputs that have the rows of a node; makes these in the store unless they are scanned."""

    def is_open(self, files: _native.Source, schema: pa.Schema) -> bool:
        """Returns whether DuckDB reads these columns of files itself."""
        ...

    def inputs_of(self, node: ShuffleNode) -> list[tuple[Input, Side]]:
        """Returns the inputs of a shuffle, each with the side that reads it."""

    def num_readers(self, node: Node) -> int:
        """Returns how many nodes of the tree read this one; its result is made once for all of them."""

    def unmeasured(self, node: ShuffleNode) -> ShuffleJob:
        """Returns the job of a shuffle with no options, not measured; runs the shuffles below it."""

    def blocks(self, job: Job) -> Sequence[Ref]:
        """Puts the result of a job into the store."""

    def keep(self, node: Node, blocks: Sequence[Ref]) -> None:
        """Lets all who read a node read these blocks."""
