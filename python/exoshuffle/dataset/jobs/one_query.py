"""The job of groups, or of sorted joins or groups, that one query of DuckDB computes with all that is below it.

Why: step by step, each task filters, computes, joins and groups a part of the rows. Each of these takes a copy and a
query of DuckDB. A query for all of them copies nothing between them.

Guarantee: the rows and types are those of a shuffle. The rows come from our readers, which check pages and sizes. The
query works within the memory that its task declares. If it finds none, or fails for any reason, the rows are read again
and shuffled, and nothing has been handed over before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from exoshuffle.dataset.jobs.following import await_first
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.leaves import Leaf
from exoshuffle.dataset.jobs.looking import MIN_DUCKDB_BYTES, seen_groups
from exoshuffle.dataset.jobs.query_writing import Making, Writing
from exoshuffle.dataset.tree.below import without_steps
from exoshuffle.dataset.tree.nodes import Node, ShuffleNode, ShuffleOptions
from exoshuffle.errors import MemoryLimitError, SchemaError, TaskError
from exoshuffle.futures import (
    Engine,
    Ref,
    Refs,
    RefStream,
    remote,
)
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.core.shuffle import Aggregation
from exoshuffle.operators.core.sink import Sink
from exoshuffle.operators.one_query.columns import NoRoom, Unfit, row_bytes
from exoshuffle.operators.one_query.ordering import OrderedRows
from exoshuffle.operators.one_query.relation import (
    GROUP_ROWS,
    Relation,
    group_bytes,
)
from exoshuffle.operators.one_query.task import (
    FileStreams,
    OneQuery,
    OpenFiles,
    QueryError,
    StoredRows,
    run_query,
)
from exoshuffle.operators.sort.shuffle import sort_keys
from exoshuffle.operators.steps.step import Step
from exoshuffle.plan.memory import USABLE_PERCENT
from exoshuffle.plan.plan import ShufflePlan

#: Files and blocks of fewer bytes are no work: opening another database takes 15 ms.
MIN_BYTES = 2_000_000
#: Rows without duplicates come in the order of the input where they are few, and of their keys where a query is worth
#: it. A million different texts of 4 million rows took 3.5 s of CPU as a shuffle, and take 2.8.
MIN_UNORDERED_ROWS = 1_000_000
#: DuckDB may have this share of the task's memory. The rest is for the result as Arrow data, which is no larger
#: than its groups. With 75, Q9 of TPC-H at scale 3 did not fit within 1 GB, where the query takes 360 MB.
DUCKDB_PERCENT = 80
#: Each thread of DuckDB may have so much, so that its own part of a hash table is not all that it has room for.
THREAD_BYTES = 16_000_000
#: A sort of DuckDB holds its rows, and keys beside them.
SORTED_COPIES = 2
#: Rows of blocks are tried up to this share of the budget: the task holds all of them. With 4, groups of 256 MB within
#: 800 MB were shuffled, in 1.0 s of CPU. They take 0.35.
BLOCKS_SHARE = 2


@dataclass
class OneQueryJob:
    """The query, or what is done if it fails.

    Attributes:
        operator: The operator at its end, for people.
        relation: The rows before the aggregation.
        aggregation: The aggregates that are computed of them.
        leaves: The inputs that the query reads, by the numbers that its text has for them.
        made: The nodes whose results it reads from the store.
        kept: The definitions of rows that it keeps for several of its parts.
        orders_joins: Whether DuckDB orders its joins, if it reads all files itself.
        engine: The engine that runs it.
        otherwise: Makes the job of the same rows without the query.
        progress: Told of its size.
    """

    operator: str
    relation: Relation
    aggregation: Aggregation
    leaves: Sequence[Leaf]
    made: Sequence[Node]
    kept: Sequence[str]
    orders_joins: bool
    engine: Engine
    otherwise: Callable[[], Job]
    progress: Progress | None = None
    plan: ShufflePlan | None = field(default=None, init=False)

    @property
    def memory_bytes(self) -> int:
        """The working memory of the task: what a plan may fill, less the blocks that it reads."""
        return self.engine.budget_bytes * USABLE_PERCENT // 100 - self._stored_bytes

    @property
    def _stored_bytes(self) -> int:
        return sum(leaf.num_bytes for leaf in self.leaves if leaf.source.is_held)

    @property
    def duckdb_bytes(self) -> int:
        """The part of it that DuckDB may have."""
        cpus = self.engine.num_cpus
        reading = sum(leaf.num_streams(cpus) * leaf.reading_bytes for leaf in self.leaves)
        return (self.memory_bytes - reading) * DUCKDB_PERCENT // 100

    def check_pays(self) -> None:
        """Raises ``Unfit`` if there is not enough work, and ``NoRoom`` if the query would probably find no memory."""
        if sum(leaf.num_bytes for leaf in self.leaves) < MIN_BYTES:
            raise Unfit("it takes little")
        if self._stored_bytes > self.engine.budget_bytes // BLOCKS_SHARE:
            raise Unfit("it reads much from the store")
        room = self.duckdb_bytes - self.relation.hashed_bytes - self._kept_bytes()
        if self.duckdb_bytes < MIN_DUCKDB_BYTES or room <= 0:
            raise NoRoom("it may find no memory")
        if self.aggregation.keeps_rows:
            self._check_rows(room)
        elif self.aggregation.keys and self.relation.num_rows * self._group_bytes > room:
            self._check_groups(room)

    def _kept_bytes(self) -> int:
        """Returns the bytes of the values that it keeps of all rows, whatever conditions leave.

        Raises:
            Unfit: It keeps some, and nobody knows of how many rows.
        """
        of_row = self.aggregation.kept_row_bytes
        num_rows = [leaf.source.known_rows for leaf in self.leaves]
        if of_row and (self.relation.num_joins or None in num_rows):
            raise Unfit("nobody knows how many values it keeps")
        return of_row * sum(filter(None, num_rows))

    def _check_rows(self, room: float) -> None:
        """Raises ``NoRoom`` if sorted rows could have no room, by what conditions and keys let through at the most."""
        num_rows = self.aggregation.most_rows(self.relation.num_rows / self.relation.share)
        sorted_bytes = SORTED_COPIES * num_rows * row_bytes(self.relation.schema)
        if sorted_bytes > self._result_bytes or self.relation.doubtful_bytes + sorted_bytes > room:
            raise NoRoom("its rows may find no memory")

    @property
    def _result_bytes(self) -> int:
        """The memory for the result as Arrow data."""
        return self.memory_bytes * (100 - DUCKDB_PERCENT) // 100

    @property
    def _group_bytes(self) -> int:
        return group_bytes(self.aggregation, self.relation.schema)

    def _check_groups(self, room: float) -> None:
        """Raises ``NoRoom`` if groups probably have no room: by a look at some rows, or behind joins by a guess."""
        num_groups = self.relation.num_rows / GROUP_ROWS
        leaf = self.leaves[0]
        if len(self.leaves) == 1 and leaf.is_there:
            num_groups = seen_groups(leaf, self.engine.num_cpus, self.relation, self.aggregation)
        if num_groups * self._group_bytes > room:
            raise NoRoom("its groups may find no memory")

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """See ``Job``. Waits until the first result is there.

        The task takes one CPU slot, whatever its threads: it must not wait for those that actors hold.
        """
        if self.progress:
            self.progress.begin(sum(leaf.num_bytes for leaf in self.leaves))
        part = self._part(sink)
        if part is None:
            yield from self.otherwise().run(sink)
            return
        if self.progress:
            self.progress.advance(sum(leaf.num_bytes for leaf in self.leaves))
        yield part

    def _part(self, sink: Sink) -> Ref | RefStream | None:
        """Returns the result; None if the query failed, and nothing was handed over."""
        run = remote(
            run_query,
            num_returns=sink.num_returns,
            memory=self.memory_bytes,
            name="query",
            executor="thread",
        )
        blocks = [Refs(leaf.source.refs) for leaf in self.leaves if leaf.source.is_held]
        part = run.remote(self._query(), sink, *blocks)
        try:
            await_first(part)
        except TaskError as error:
            if isinstance(error.__cause__, QueryError | MemoryLimitError):
                return None
            raise
        return part

    def _query(self) -> OneQuery:
        names = {name: self.relation.column(name) for name in self.aggregation.columns}
        sql = self.aggregation.sql(names, self.relation.sql)
        if self.kept:
            sql = f"WITH {', '.join(self.kept)} {sql}"
        return OneQuery(
            sql,
            tuple(map(self._input, self.leaves)),
            self.aggregation,
            max(1, min(self.engine.num_cpus, self.duckdb_bytes // THREAD_BYTES)),
            self.duckdb_bytes,
            self._result_bytes if self.aggregation.keeps_rows else None,
            self.orders_joins,
        )

    def _input(self, leaf: Leaf) -> FileStreams | OpenFiles | StoredRows:
        if leaf.source.source is None:
            return leaf.stored_rows
        if leaf.is_open:
            return OpenFiles(leaf.source.source, leaf.read_schema.serialize().to_pybytes())
        reader = leaf.reader
        splits, count = leaf.splits, leaf.num_streams(self.engine.num_cpus)
        return FileStreams(reader, tuple(tuple(splits[i::count]) for i in range(count)))


def one_query_job(
    node: ShuffleNode,
    behind: tuple[Step, ...],
    making: Making,
    otherwise: Callable[[], Job],
    count: int | None = None,
) -> OneQueryJob | None:
    """Returns the job of a group-by or sort with what is below it; None if tasks have to compute it step by step.

    Args:
        node: The group-by, the sort, or another operator.
        behind: Steps that come after it.
        making: Makes jobs.
        otherwise: Makes the job without the query.
        count: How many of the first rows of a sort are wanted.
    """
    engine, progress = making.engine, making.progress
    aggregation = node.shuffle.inside or _ordered_rows(node, count)
    if aggregation is None or node.options != ShuffleOptions() or len(engine.nodes()) > 1:
        return None
    if any(step.is_function for step in behind):
        return None
    try:
        # Nothing is made in the store for a query that cannot be written.
        trial = Writing(node, making, is_trial=True)
        trial.relation(node.children[0], aggregation.columns)
        if aggregation.keeps_rows and not trial.num_parts:
            return None  # rows that the query only reads keep their order where they are equal
        operator = node.shuffle.name if count is None else "top_k"

        def written(writing: Writing) -> OneQueryJob:
            relation = writing.relation(node.children[0], aggregation.columns)
            read, made, kept = writing.leaves, writing.made, writing.kept
            orders = writing.orders_joins
            job = OneQueryJob(
                operator,
                relation,
                aggregation,
                read,
                made,
                kept,
                orders,
                engine,
                otherwise,
                progress,
            )
            _check_order(node, read)
            job.check_pays()
            return job

        guessing = Writing(node, making)
        try:
            return written(guessing)
        except NoRoom:
            if not guessing.has_conditions:
                return None
        # A shuffle takes far longer than a look: Q12 of TPC-H within 500 MB took 6.9 s of CPU, and takes 1.1.
        seen: dict[int, float] = {}
        try:
            # DuckDB guesses, too, and hashes sides that are large.
            return written(Writing(node, making, orders_joins=False, seen=seen))
        except NoRoom:
            return written(Writing(node, making, seen=seen))
    except (Unfit, MemoryLimitError, SchemaError):
        return None


def _check_order(node: ShuffleNode, leaves: Sequence[Leaf]) -> None:
    """Raises ``Unfit`` where rows without duplicates are made of few, which keep their order."""
    num_rows = sum(leaf.num_rows for leaf in leaves)
    if node.shuffle.unordered is not None and num_rows < MIN_UNORDERED_ROWS:
        raise Unfit("few rows keep their order")


def _ordered_rows(node: ShuffleNode, count: int | None) -> OrderedRows | None:
    """Returns what a query makes of the rows of a sort; None if the operator is none."""
    order = sort_keys(node.shuffle)
    if order is None:
        return None
    below, steps = without_steps(node.children[0])
    groups = below.shuffle.aggregation if isinstance(below, ShuffleNode) else None
    keys = groups.keys if groups else ()
    names = {name: name for name in node.schema.names}
    for step in reversed(steps):
        names = step.names_before(names)
    # A step may leave a key out, or put other values in its place.
    is_distinct = bool(keys) and all(names.get(key) == key for key in keys)
    return OrderedRows(node.schema, order, keys, is_distinct, count)
