"""Looks at some rows of files for keys that repeat: how many groups there may be, and so how much memory they take."""

from __future__ import annotations

from exoshuffle import _native
from exoshuffle.dataset.jobs.leaves import Leaf
from exoshuffle.errors import TaskError
from exoshuffle.futures import get, remote
from exoshuffle.operators.core.shuffle import Aggregation
from exoshuffle.operators.one_query.columns import Unfit
from exoshuffle.operators.one_query.relation import Relation
from exoshuffle.operators.one_query.task import FileStreams, OneQuery, count_groups

#: So much of a file is looked at for keys that repeat.
SEEN_BYTES = 2_000_000
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
    # The text has a name for each stream.
    nothing: list[tuple[_native.Split, ...]] = [()] * (leaf.num_streams(num_cpus) - 1)
    seen = FileStreams(leaf.reader, ((pieces[len(pieces) // 2],), *nothing))
    query = OneQuery("", (seen,), aggregation, 1, MIN_DUCKDB_BYTES)
    keys = [relation.column(key) for key in aggregation.keys]
    memory = MIN_DUCKDB_BYTES + leaf.reading_bytes
    groups: int
    run = remote(count_groups, memory=memory, name="look", executor="thread")
    try:
        groups = get(run.remote(query, relation.sql, keys))
    except TaskError as error:
        raise Unfit("some rows cannot be computed") from error
    return groups * len(pieces)
