"""Looks at some rows of an input: how many groups there may be, and what conditions leave, so how much memory is taken.

The rows are in some pieces of files, or in some blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from exoshuffle import _native
from exoshuffle.dataset.jobs.leaves import Leaf
from exoshuffle.errors import TaskError
from exoshuffle.futures import Ref, Refs, get, remote
from exoshuffle.operators.core.shuffle import Aggregation
from exoshuffle.operators.one_query.columns import Unfit
from exoshuffle.operators.one_query.relation import Relation
from exoshuffle.operators.one_query.task import FileStreams, count

_Piece: TypeAlias = "_native.Split | Ref"
_Any = TypeVar("_Any")
#: So much of a file is looked at for keys that repeat.
SEEN_BYTES = 2_000_000
#: Keys and conditions are tried on so many pieces of that size, which lie apart: values may go up through the files.
SEEN_PIECES = 3
#: There may be so many times the groups that random ones would make: common groups hide rare ones.
GROUPS_MARGIN = 4
#: The least that is worth trying: each thread of DuckDB begins with some megabytes.
MIN_DUCKDB_BYTES = 48_000_000


def seen_groups(leaf: Leaf, num_cpus: int, relation: Relation, aggregation: Aggregation) -> float:
    """Returns about how many groups there are at the most, by those of some pieces.

    Where a piece finds groups of other pieces again, so do all pieces. 10 million rows had 10,000 groups, and each
    piece had most of them. By one piece 3.8 million were guessed, and the rows were shuffled, in 2.6 times the time.

    Args:
        leaf: The files or blocks, which the relation calls input 0; it has no others.
        num_cpus: The CPUs that it was written for.
        relation: The rows that are grouped.
        aggregation: How they are grouped.

    Raises:
        Unfit: Some rows cannot be computed.
    """
    pieces = _pieces(leaf)
    keys = ", ".join(relation.column(key) for key in aggregation.keys)

    def counted(some: Sequence[_Piece]) -> int:
        return _counted(f"count(DISTINCT hash({keys}))", leaf, num_cpus, relation, some)

    of_one = counted([pieces[len(pieces) // 2]])
    seen = _spread(pieces)
    if len(seen) < SEEN_PIECES or not of_one:
        return len(pieces) * of_one
    found = counted(seen)
    most = len(pieces) * max(of_one, found / SEEN_PIECES)
    return min(most, GROUPS_MARGIN * all_groups(of_one, found))


def all_groups(of_one: int, of_three: int) -> float:
    """Returns how many groups there would be in endless pieces, by the groups of one piece and of three.

    If rows have random groups, each piece has the same share of new ones: 1, q and q² times those of the first.
    """
    share = (math.sqrt(4 * of_three / of_one - 3) - 1) / 2
    return of_one / (1 - share) if share < 1 else math.inf


def seen_share(leaf: Leaf, num_cpus: int, relation: Relation) -> float:
    """Returns about which share of the rows of files conditions leave, by some rows; more than 0.

    Args:
        leaf: The files, which the relation calls input 0; it has no others.
        num_cpus: The CPUs that it was written for.
        relation: The rows that are left.

    Raises:
        Unfit: Some rows cannot be computed.
    """
    pieces = _pieces(leaf)
    seen = _spread(pieces)
    num_rows = max(1.0, leaf.num_rows * len(seen) / len(pieces))
    return min(1.0, max(1, _counted("count(*)", leaf, num_cpus, relation, seen)) / num_rows)


def _pieces(leaf: Leaf) -> Sequence[_Piece]:
    """Returns the parts of an input that can be read alone."""
    return leaf.source.refs if leaf.source.is_held else leaf.source.pieces(SEEN_BYTES)


def _spread(pieces: Sequence[_Any]) -> list[_Any]:
    """Returns some pieces that lie apart; one of them is in the middle."""
    num_seen = min(SEEN_PIECES, len(pieces))
    return [pieces[(2 * i + 1) * len(pieces) // (2 * num_seen)] for i in range(num_seen)]


def _counted(
    sql: str, leaf: Leaf, num_cpus: int, relation: Relation, pieces: Sequence[_Piece]
) -> int:
    """Returns a number that a query makes of the rows of some pieces."""
    blocks = [piece for piece in pieces if isinstance(piece, Ref)]
    splits = tuple(piece for piece in pieces if not isinstance(piece, Ref))
    # The text has a name for each stream.
    nothing: list[tuple[_native.Split, ...]] = [()] * (leaf.num_streams(num_cpus) - 1)
    seen = leaf.stored_rows if blocks else FileStreams(leaf.reader, (splits, *nothing))
    memory = MIN_DUCKDB_BYTES + leaf.reading_bytes
    run = remote(count, memory=memory, name="look", executor="thread")
    text = f"SELECT {sql} FROM ({relation.sql})"  # noqa: S608  ours
    try:
        return int(get(run.remote(text, seen, MIN_DUCKDB_BYTES, Refs(blocks))))
    except TaskError as error:
        raise Unfit("some rows cannot be computed") from error
