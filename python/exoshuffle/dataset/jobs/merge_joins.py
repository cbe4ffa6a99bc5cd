"""Sort-merge joins: both sides become sorted pieces in the store, and tasks join pieces that meet, two at a time.

Guarantee: parts come in the order of the pieces, so that the result is in the order of the left side. A side that is in
order as it is read is not sorted again; a piece out of order shows that it has to be.

Cost: reads both sides once. The sorts spill rows that exceed memory, and so does the store once more as pieces.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from exoshuffle import _native
from exoshuffle.dataset.inputs.decoding import naming
from exoshuffle.dataset.jobs.following import in_advance
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.jobs.spilling import check_disk
from exoshuffle.dataset.jobs.unshuffled import MAX_SCAN_BYTES, piece_bytes
from exoshuffle.errors import ExoshuffleError, MemoryLimitError
from exoshuffle.futures import Engine, Ref, RefStream, SliceRef, cancel, get, remote
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.at_once import rows_at_once
from exoshuffle.operators.core.merge_join import Meeting, MergeJoin, Piece
from exoshuffle.operators.core.sink import Sink, handed
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.core.streams import as_reader, as_rows, own_errors
from exoshuffle.operators.sql.relational import row_numbers, take
from exoshuffle.operators.steps.step import Step, executor_of, functions_bytes
from exoshuffle.plan.plan import ShufflePlan, enough_bytes
from exoshuffle.plan.workload import Workload
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: Most bytes of left pieces that a task joins: they become one part of the result.
PART_BYTES = 256_000_000
#: Most rows of a piece, so that their numbers stay in the cache. 30 million rows of one byte took 1.4 s, and 2.6 s with
#: 2 million at a time.
MAX_PIECE_ROWS = 400_000
#: Copies of a large row in a task beside its pieces. It is copied from both sides into a batch of the result, and into
#: what the sink makes of that batch. Without room for them, rows of 100 MB took 634 MB within 600.
ROW_COPIES = 4
#: Copies of a large row beside a task: one of each side that it takes, and as many in a batch of the result. The
#: program keeps that until it gets the next one. Without room for it, a join of rows of 100 MB within 1 GB failed one
#: time in six.
HELD_COPIES = 4
#: Copies of a large row in the task that looks at a piece: the edge, and the edge as it is handed over.
EDGE_COPIES = 2
#: Pieces of narrow rows are smaller, but not smaller than this, because each takes a task.
MIN_PIECE_BYTES = 256_000


@dataclass(frozen=True)
class LookedAt:
    """A piece in the store.

    Attributes:
        block: Its rows.
        edge: The row that neighbours have to know; None for left pieces.
        piece: The facts about it.
    """

    block: Ref | SliceRef
    edge: SliceRef | None
    piece: Piece


class Found(NamedTuple):
    """A meeting of pieces in the store; see ``Meeting``."""

    left: Ref | SliceRef
    right: Ref | SliceRef | None
    edge: SliceRef | None
    keeps_beyond: bool


class Fetched(NamedTuple):
    """A meeting of pieces, with their rows."""

    left: pa.Table
    right: pa.Table | None
    edge: pa.Table | None
    keeps_beyond: bool


@dataclass(frozen=True)
class SortedSide:
    """One side of a merge join.

    Attributes:
        size: Size of its rows.
        as_read: Makes its pieces without a sort; None if the side has to be sorted.
        sort: Makes the job that sorts it.
    """

    size: Workload
    as_read: Job | None
    sort: Callable[[], Job]


@dataclass
class MergeJoinJob:
    """A sort-merge join of two sides.

    Attributes:
        join: The join.
        sides: The left side and the right side.
        engine: The engine that runs it.
    """

    join: MergeJoin
    sides: tuple[SortedSide, SortedSide]
    engine: Engine
    plan: ShufflePlan | None = None

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``.

        Raises:
            DiskFullError: The spill directories have less room than both sides will take there.
        """
        check_disk(self.engine, self.join.name, self.spilled_bytes(sink.all_steps))
        try:
            with PlainErrors():
                lefts, rights = (self._pieces(side) for side in range(2))
        except MemoryLimitError as error:
            if not error.row_bytes:
                raise
            raise naming(error, limit_to_join(self.engine, error.row_bytes)) from None
        meetings = self.join.meetings([one.piece for one in lefts], [one.piece for one in rights])
        memory = self.task_bytes + functions_bytes(sink.all_steps)
        joining = Joining(self.join, sink)
        found = [_found(lefts, rights, meeting) for meeting in meetings]
        holds_many = self._may_hold(memory)
        run = remote(
            joining.many if holds_many else joining.two,
            num_returns=sink.num_returns,
            memory=memory,
            name=self.join.name,
            executor=executor_of("thread", sink.all_steps),
        )
        pieces: Iterable[Sequence[object]] = (
            ((part,) for part in self._parts(found)) if holds_many else found
        )
        for index, arguments in enumerate(pieces):
            yield run.remote(index, *arguments)

    def check_fits(self) -> None:
        """Raises ``MemoryLimitError`` if two pieces with the largest rows of both sides do not fit into memory."""
        row, engine = self._largest_row, self.engine
        if self.task_bytes + HELD_COPIES * row > engine.budget_bytes:
            enough = limit_to_join(engine, row)
            raise MemoryLimitError(
                f"rows of {format_bytes(row)} have no room in a {self.join.name} within a memory limit of "
                f"{format_bytes(engine.memory_limit)}; set memory_limit to {format_bytes(enough)} or more"
            )

    @property
    def piece_bytes(self) -> int:
        """The size of pieces: as in a scan, but less where joining narrow rows takes far more memory than they have."""
        sizes = [side.size for side in self.sides if side.size.num_rows]
        row_bytes = min((size.total_bytes // size.num_rows for size in sizes), default=1)
        fitting = self._num_rows * max(1, row_bytes)
        return min(piece_bytes(self.engine), max(MIN_PIECE_BYTES, fitting))

    @property
    def task_bytes(self) -> int:
        """Working memory of a task: both pieces, the memory for joining their rows, and batches of the result."""
        row_bytes = ROW_COPIES * self._largest_row
        if self._largest_row <= self.piece_bytes:
            return self._matching_bytes + row_bytes
        # A piece ends with such a row: it has no more than its own size of others.
        return max(self._matching_bytes, row_bytes) + self.piece_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of the pieces of both sides, which are all in the store before the first two are joined."""
        return sum(side.size.total_bytes for side in self.sides)

    def tasks_bytes(self, behind: Sequence[Step]) -> int:
        """Returns the working memory of all tasks that run at once, with the steps behind them."""
        tasks = self.engine.num_cpus * (self.task_bytes + functions_bytes(behind))
        return min(self.room_bytes(behind), tasks)

    def spilled_bytes(self, behind: Sequence[Step]) -> int:
        """Returns about how many bytes of pieces have no room beside the tasks; sorts of sides come on top."""
        return max(0, self.held_bytes + self.tasks_bytes(behind) - self.room_bytes(behind))

    def room_bytes(self, behind: Sequence[Step]) -> int:
        """Returns what the budget leaves to pieces and tasks beside worker processes, if steps need these."""
        workers = self.engine.workers_bytes(executor_of("thread", behind))
        return max(1, self.engine.budget_bytes - workers)

    @property
    def _matching_bytes(self) -> int:
        """Working memory of a task where rows are small."""
        rows = 2 * self._num_rows * self.join.row_bytes
        most = self.engine.budget_bytes // (2 * self.engine.num_cpus)
        return min(3 * piece_bytes(self.engine) + rows, most)

    @property
    def _largest_row(self) -> int:
        """Bytes of the largest row of either side."""
        return max(side.size.max_row_bytes for side in self.sides)

    @property
    def _num_rows(self) -> int:
        """The most rows of a piece."""
        return min(MAX_PIECE_ROWS, rows_at_once(2 * self.join.row_bytes))

    def _may_hold(self, memory: int) -> bool:
        """Whether a task may fetch pieces one after the other.

        If not, tasks that hold pieces could wait for each other; pieces that are arguments come all at once.
        """
        held = 2 * self.piece_bytes + 3 * self._largest_row
        return self.engine.num_cpus * (memory + held) <= self.engine.budget_bytes

    def num_parts(self, num_meetings: int) -> int:
        """Returns the number of parts of the result: as few as are not too large, enough for all CPUs, at least 1."""
        by_size = -(-self.sides[0].size.total_bytes // PART_BYTES)
        return max(1, min(num_meetings, max(2 * self.engine.num_cpus, by_size)))

    def _parts(self, found: Sequence[Found]) -> list[Sequence[Found]]:
        """Returns the meetings of each task."""
        num_parts = self.num_parts(len(found))
        ends = [len(found) * number // num_parts for number in range(num_parts + 1)]
        return [found[start:end] for start, end in itertools.pairwise(ends)]

    def _pieces(self, side: int) -> list[LookedAt]:
        """Makes the sorted pieces of a side."""
        as_read = self.sides[side].as_read
        found = None
        if as_read is not None:
            found = self._looked_at(side, as_read, must_follow=True)
        if found is None:
            found = self._looked_at(side, self.sides[side].sort(), must_follow=False)
        return found or []

    def _looked_at(self, side: int, job: Job, *, must_follow: bool) -> list[LookedAt] | None:
        """Returns the pieces that a job makes; with ``must_follow``, None as soon as a piece is out of order."""
        sink = BlocksSink(self.piece_bytes)
        run = remote(
            look_at,
            num_returns=2,
            memory=self._matching_bytes + EDGE_COPIES * self._largest_row,
            name=f"{self.join.name}: look",
            executor="thread",
        )
        streams: list[Ref | RefStream] = []

        def looks() -> Iterator[tuple[Ref | SliceRef, SliceRef, SliceRef]]:
            for stream in in_advance(_noted(job.run(sink), streams), 2):
                for block in stream:
                    piece, edge = run.remote(self.join, side, block)
                    yield block, piece, edge

        found: list[LookedAt] = []
        try:
            for block, looked, edge in in_advance(looks(), self.engine.num_cpus):
                piece: Piece | None = get(looked)
                if piece is None:
                    continue
                found.append(LookedAt(block, edge if side else None, piece))
                if must_follow and not self._follows(found):
                    _cancelled(streams)
                    return None
        except BaseException:
            _cancelled(streams)
            raise
        return found

    def _follows(self, found: Sequence[LookedAt]) -> bool:
        """Whether the last piece is in order, and follows the piece before it."""
        last = [one.piece for one in found[-2:]]
        return last[-1].is_sorted and self.join.follow(last)


def limit_to_join(engine: Engine, row_bytes: int) -> int:
    """Returns a memory limit with which two pieces can be joined that have rows of this size."""
    needed = (ROW_COPIES + HELD_COPIES) * row_bytes
    if row_bytes > MAX_SCAN_BYTES:
        needed += MAX_SCAN_BYTES
    else:
        # Where rows are small, a task takes this part of the budget at most.
        part = 2 * engine.num_cpus
        needed = needed * part // (part - 1)
    return enough_bytes(engine.memory_limit, max(0, needed - engine.budget_bytes))


def look_at(join: MergeJoin, side: int, block: Buffer) -> tuple[Piece | None, pa.Table | None]:
    """Task: returns the facts about a piece, None without rows; and the row that neighbours have to know."""
    with own_errors():
        table = _table(block)
        if not table.num_rows:
            return None, None
        # A copy, because a slice would keep the whole piece, and be pickled with it.
        edge = take(join.edge_of(table), row_numbers(1)) if side else None
        return join.look(side, table), edge


@dataclass(frozen=True)
class Joining:
    """The tasks that join pieces.

    Attributes:
        join: The join.
        sink: Takes the rows.
    """

    join: MergeJoin
    sink: Sink

    def many(self, index: int, part: Sequence[Found]) -> object:
        """Task: fetches and joins pieces that meet, one meeting after the other."""
        return handed(self.sink, self._joined(index, _fetched(part)))

    def two(
        self,
        index: int,
        left: Buffer,
        right: Buffer | None,
        edge: pa.Table | None,
        keeps_beyond: bool,
    ) -> object:
        """Task: joins two pieces that are its arguments."""
        rights = None if right is None else _table(right)
        meeting = Fetched(_table(left), rights, edge, keeps_beyond)
        return handed(self.sink, self._joined(index, iter([meeting])))

    def _joined(self, index: int, meetings: Iterator[Fetched]) -> Iterator[object]:
        import pyarrow as pa

        def batches() -> Iterator[pa.RecordBatch]:
            for left, right, edge, keeps_beyond in meetings:
                yield from self.join.run(left, right, edge, keeps_beyond=keeps_beyond)

        with own_errors():
            made = pa.RecordBatchReader.from_batches(self.join.output_schema, batches())
            yield from self.sink(index, as_rows(made))


def _fetched(part: Sequence[Found]) -> Iterator[Fetched]:
    """Yields the meetings of a task with their rows; fetches a piece once that neighbours share, as most of them do."""
    last: dict[Ref | SliceRef, pa.Table] = {}
    for left, right, edge, keeps_beyond in part:
        wanted = [ref for ref in (left, right) if ref is not None]
        last = {ref: last[ref] if ref in last else _table(get(ref)) for ref in wanted}
        rights = None if right is None else last[right]
        yield Fetched(last[left], rights, None if edge is None else get(edge), keeps_beyond)


def _table(block: Buffer) -> pa.Table:
    return as_reader(_native.Rows.from_ipc(block)).read_all()


def _found(lefts: Sequence[LookedAt], rights: Sequence[LookedAt], meeting: Meeting) -> Found:
    right = None if meeting.right is None else rights[meeting.right].block
    edge = None if meeting.edge is None else rights[meeting.edge].edge
    return Found(lefts[meeting.left].block, right, edge, meeting.keeps_beyond)


def _noted(
    streams: Iterator[Ref | RefStream], noted: list[Ref | RefStream]
) -> Iterator[Ref | RefStream]:
    for stream in streams:
        noted.append(stream)
        yield stream


def _cancelled(streams: Sequence[Ref | RefStream]) -> None:
    """Cancels streams whose results nobody takes, and waits for their ends."""
    for stream in streams:
        cancel(stream)
    for stream in streams:
        with contextlib.suppress(ExoshuffleError):
            list(stream)
