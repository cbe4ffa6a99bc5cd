"""Looks at some rows of files: how many groups there may be, and what conditions leave, so how much memory is taken."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle import _native
from exoshuffle.dataset.jobs.leaves import Leaf
from exoshuffle.errors import TaskError
from exoshuffle.futures import get, remote
from exoshuffle.operators.core.shuffle import Aggregation
from exoshuffle.operators.one_query.columns import Unfit
from exoshuffle.operators.one_query.relation import Relation
from exoshuffle.operators.one_query.task import FileStreams, count

#: So much of a file is looked at for keys that repeat.
SEEN_BYTES = 2_000_000
#: A condition is tried on so many pieces of that size, which lie apart: values may go up through the files.
SEEN_PIECES = 3
#: The least that is worth trying: each thread of DuckDB begins with some megabytes.
MIN_DUCKDB_BYTES = 48_000_000


def seen_groups(leaf: Leaf, num_cpus: int, relation: Relation, aggregation: Aggregation) -> float:
    """Returns about how many groups there are at the most, by those of some rows that are side by side.

    Args:
        leaf: The files, which the relation calls input 0; it has no others.
        num_cpus: The CPUs that it was written for.
        relation: The rows that are grouped.
        aggregation: How they are grouped.

    Raises:
        Unfit: Some rows cannot be computed.
    """
    pieces = leaf.source.pieces(SEEN_BYTES)
    keys = ", ".join(relation.column(key) for key in aggregation.keys)
    return len(pieces) * _counted(
        f"count(DISTINCT hash({keys}))", leaf, num_cpus, relation, [pieces[len(pieces) // 2]]
    )


def seen_share(leaf: Leaf, num_cpus: int, relation: Relation) -> float:
    """Returns about which share of the rows of files conditions leave, by some rows; more than 0.

    Args:
        leaf: The files, which the relation calls input 0; it has no others.
        num_cpus: The CPUs that it was written for.
        relation: The rows that are left.

    Raises:
        Unfit: Some rows cannot be computed.
    """
    pieces = leaf.source.pieces(SEEN_BYTES)
    num_seen = min(SEEN_PIECES, len(pieces))
    seen = [pieces[(2 * i + 1) * len(pieces) // (2 * num_seen)] for i in range(num_seen)]
    num_rows = max(1.0, leaf.num_rows * num_seen / len(pieces))
    return min(1.0, max(1, _counted("count(*)", leaf, num_cpus, relation, seen)) / num_rows)


def _counted(
    sql: str, leaf: Leaf, num_cpus: int, relation: Relation, pieces: Sequence[_native.Split]
) -> int:
    """Returns a number that a query makes of the rows of some pieces."""
    # The text has a name for each stream.
    nothing: list[tuple[_native.Split, ...]] = [()] * (leaf.num_streams(num_cpus) - 1)
    seen = FileStreams(leaf.reader, (tuple(pieces), *nothing))
    memory = MIN_DUCKDB_BYTES + leaf.reading_bytes
    run = remote(count, memory=memory, name="look", executor="thread")
    try:
        return int(get(run.remote(f"SELECT {sql} FROM ({relation.sql})", seen, MIN_DUCKDB_BYTES)))  # noqa: S608  ours
    except TaskError as error:
        raise Unfit("some rows cannot be computed") from error
