"""The orders of an epoch: uniformly random, by windows, or as in the files; each begins at any row.

Guarantee: an order depends only on the files, the seed of the epoch and the window. Random orders go by a number of
each row that follows from its place in the files (``crates/kernels/src/permutation.rs``). So no number of partitions,
splits, CPUs or nodes changes them. Parts before the first wanted row are not made, where files tell their numbers of
rows. Elsewhere they are made, and their rows left out.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.jobs.following import bounded, in_advance
from exoshuffle.dataset.jobs.in_order import batches_of, lent, streams_in
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.unshuffled import ScanJob, SteppedJob
from exoshuffle.dataset.jobs.windows import WindowJob, small_window
from exoshuffle.dataset.tree import sampling
from exoshuffle.dataset.tree.needed import pruned
from exoshuffle.dataset.tree.nodes import MapNode, Node, ShuffleOptions, WindowNode, is_read
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Engine, Ref, RefStream, current_engine
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.readers import FileItem, splits_of
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.steps.sample import numbers
from exoshuffle.strategies.library import Auto
from exoshuffle.training.file_rows import FileRows, decoded_last, file_rows_of, may_skip_images
from exoshuffle.training.numbering import Numbering
from exoshuffle.training.pace import Onward, Pace, Pacing

if TYPE_CHECKING:
    import pyarrow as pa

#: A row: its file, and its number there.
Place = tuple[str, int]


class Begun(Protocol):
    """An epoch that has begun."""

    @property
    def num_parts(self) -> int:
        """How many parts it has, of all that are made."""
        ...

    @property
    def num_skipped(self) -> int:
        """How many of the first rows are not wanted."""
        ...

    def started(self, num_ahead: int) -> Begun:
        """Returns it with its first parts submitted; it stays so many parts ahead of the program."""
        ...

    def batches(self, pace: Pace) -> Iterator[pa.RecordBatch]:
        """Yields its rows; tells the pace of each part that is taken."""
        ...


class BegunParts(NamedTuple):
    """An epoch of one job that has begun; see ``Begun``.

    Attributes:
        parts: Its parts; taking them submits the work.
        num_parts: How many they are.
        num_skipped: Rows of the first parts that are not wanted.
    """

    parts: Iterator[Ref | RefStream]
    num_parts: int
    num_skipped: int

    def started(self, num_ahead: int) -> BegunParts:
        """See ``Begun``."""
        parts = in_advance(self.parts, num_ahead)
        first = next(parts, None)
        return self._replace(parts=itertools.chain(() if first is None else (first,), parts))

    def batches(self, pace: Pace) -> Iterator[pa.RecordBatch]:
        """See ``Begun``."""
        return batches_of(lent(streams_in(_at_pace(self.parts, pace))))


def _at_pace(parts: Iterator[Ref | RefStream], pace: Pace) -> Iterator[Ref | RefStream]:
    """Yields the parts; tells the pace of each."""
    for part in parts:
        pace.took()
        yield part
        del part


class Order(ABC):
    """The order of the rows of an epoch."""

    @property
    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """The trees of the rows."""

    @property
    @abstractmethod
    def tells_rows(self) -> bool:
        """Whether files tell which rows there are."""

    @abstractmethod
    def begin(self, seed: int, row: int, pace: Pacing, engine: Engine) -> Begun:
        """Begins an epoch at a row, at the pace of the epoch before."""

    @abstractmethod
    def rows(self, seed: int, start: int, stop: int) -> list[Place]:
        """Returns some rows of an epoch; only where ``tells_rows``."""


@dataclass(frozen=True)
class FileOrder(Order):
    """The order of the rows of one dataset.

    Attributes:
        node: The tree of the rows.
        file_rows: The rows of its files; None where they do not tell.
    """

    node: Node
    file_rows: Sequence[FileRows] | None

    @property
    def nodes(self) -> Sequence[Node]:
        """See ``Order``."""
        return (self.node,)

    @property
    def tells_rows(self) -> bool:
        """See ``Order``."""
        return self.file_rows is not None


@dataclass(frozen=True)
class ByNumbers(FileOrder):
    """Rows go by random numbers of their own: every order is as likely as any other, or small windows stay together.

    Attributes:
        window: How many rows of a file stay together; None for none.
    """

    window: int | None = None

    def begin(self, seed: int, row: int, pace: Pacing, engine: Engine) -> Begun:
        """See ``Order``. Cost: on a resume also that of ``Numbering``."""
        start = _Start(Numbering(self.file_rows or (), seed, self.window), row)
        strategy = Auto(*(Onward(each, pace, start.partition) for each in Auto().alternatives))
        options = ShuffleOptions(strategy)

        def ordered(node: Node) -> Node:
            return sampling.in_random_order(node, seed, options, self.window)

        job = _job(_in_order(self.node, ordered), engine)
        parts = _parts(job)
        assert job.plan is not None  # it is a shuffle
        return BegunParts(parts, job.plan.num_partitions - start.first, row - start.rows_before)

    def rows(self, seed: int, start: int, stop: int) -> list[Place]:
        """See ``Order``. Cost: that of ``Numbering``."""
        return Numbering(self.file_rows or (), seed, self.window).rows(start, stop)


@dataclass(frozen=True)
class Windows(FileOrder):
    """Windows of neighbouring rows in random order, each in random order; see ``Dataset.random_shuffle``.

    Attributes:
        size: Size of a window, as text.
    """

    size: str = ""

    def begin(self, seed: int, row: int, pace: Pacing, engine: Engine) -> Begun:
        """See ``Order``."""
        job, windows = self._jobs(seed, engine)
        items = [window.item for window in windows.windows]
        windows.first_window, before = _first(items, row if self.file_rows is not None else 0)
        return _paced(job, len(windows.parts), row - before, pace, engine)

    def rows(self, seed: int, start: int, stop: int) -> list[Place]:
        """See ``Order``. Cost: that of listing the windows, and of sorting those that the rows are in."""
        _, windows = self._jobs(seed, current_engine())
        found: list[Place] = []
        at = 0
        for window in windows.windows:
            split = window.item
            count = int(split.rows or 0)
            if at < stop and start < at + count:
                drawn = numbers(seed, *window.place, count).to_pylist()
                order = sorted(range(count), key=drawn.__getitem__)
                inside = order[max(0, start - at) : stop - at]
                found += [(split.file, split.first_row + row) for row in inside]
            at += count
        return found

    def _jobs(self, seed: int, engine: Engine) -> tuple[Job, WindowJob]:
        """Returns the job of an epoch, and that of its windows, behind which images may be decoded."""
        tree = _in_order(self.node, lambda node: WindowNode(node, seed, self.size))
        job = _job(tree, engine)
        return job, cast("WindowJob", job.job if isinstance(job, SteppedJob) else job)


@dataclass(frozen=True)
class AsInFiles(FileOrder):
    """The order of the files."""

    def begin(self, seed: int, row: int, pace: Pacing, engine: Engine) -> Begun:
        """See ``Order``."""
        del seed
        job = cast("ScanJob", _job(self.node, engine))
        items = cast("list[FileItem]", list(itertools.chain.from_iterable(job.items)))
        job.first_item, before = _first(items, row if self.file_rows is not None else 0)
        return _paced(job, len(items) - job.first_item, row - before, pace, engine)

    def rows(self, seed: int, start: int, stop: int) -> list[Place]:
        """See ``Order``."""
        del seed
        found: list[Place] = []
        at = 0
        for rows in self.file_rows or ():
            first, last = max(start - at, 0), min(stop - at, rows.num_rows)
            found += [(rows.file, rows.first_row + row) for row in range(first, last)]
            at += rows.num_rows
        return found


def order_of(node: Node, shuffle: bool | str) -> FileOrder:
    """Returns the order of a dataset's epochs.

    Raises:
        OptionsError: No file tells which rows these are, so that their order would depend on where they are made.
    """
    file_rows = file_rows_of(node)
    if may_skip_images(node):
        raise OptionsError(
            'DataLoader got images with on_error="skip", and how many rows these are is known when all are decoded. '
            "Read the files without it, less those that are no images, or write the images to files and read these"
        )
    if not is_read(node):
        raise OptionsError(
            "DataLoader got rows that are not read from files, whose order depends on the memory limit and CPUs; "
            "write them to files, and read these"
        )
    if shuffle is False:
        return AsInFiles(node, file_rows)
    if _makes_rows(node):
        raise OptionsError(
            f"DataLoader(shuffle={shuffle!r}) got rows that a function, explode or unpivot made, which are in no file; "
            "call it with each batch, or write files"
        )
    if shuffle is True:
        return ByNumbers(node, file_rows)
    rows = small_window(node, shuffle)
    return Windows(node, file_rows, shuffle) if rows is None else ByNumbers(node, file_rows, rows)


def num_rows_of_files(order: FileOrder) -> int | None:
    """Returns the number of rows of an epoch; None where files do not tell."""
    rows = order.file_rows
    return None if rows is None else sum(each.num_rows for each in rows)


def _makes_rows(node: Node) -> bool:
    here = isinstance(node, MapNode) and node.step.makes_rows
    return here or any(map(_makes_rows, node.children))


class _Start:
    """Finds where to go on in an order by numbers, once the number of partitions is known.

    Args:
        numbering: The numbers of the rows.
        row: The row to go on at.
    """

    def __init__(self, numbering: Numbering, row: int) -> None:
        self._numbering = numbering
        self._row = row
        #: The first partition that is made, and the number of rows before it.
        self.first, self.rows_before = 0, 0

    def partition(self, num_partitions: int) -> int:
        """Returns the first partition that is made of so many."""
        if self._row and self._numbering.file_rows:
            found = self._numbering.first_partition(self._row, num_partitions)
            self.first, self.rows_before = found
        return self.first


def _job(node: Node, engine: Engine) -> Job:
    return Execution(engine).job(pruned(node), "batches")


def _in_order(node: Node, ordered: Callable[[Node], Node]) -> Node:
    """Returns the rows in an order; images are decoded behind it."""
    below, steps = decoded_last(node)
    tree = ordered(below)
    for step in steps:
        tree = MapNode(tree, step)
    return tree


def _parts(job: Job) -> Iterator[Ref | RefStream]:
    sink = BlocksSink()
    return bounded(job.run(sink), sink)


def _first(items: Sequence[FileItem], row: int) -> tuple[int, int]:
    """Returns the number of the item that a row is in, and the number of rows before that item."""
    before = 0
    for number, item in enumerate(items):
        count = sum(int(split.rows or 0) for split in splits_of(item))
        if row < before + count:
            return number, before
        before += count
    return (len(items), before) if row else (0, 0)


def _paced(job: Job, num_parts: int, num_skipped: int, pace: Pacing, engine: Engine) -> Begun:
    """Begins a job without a shuffle, when the epoch before has as many parts left as are made ahead anyway."""
    ahead = min(engine.num_cpus, pace.num_parts)
    pace.wait(100 - 100 * ahead / pace.num_parts)
    return BegunParts(_parts(job), num_parts, num_skipped)
