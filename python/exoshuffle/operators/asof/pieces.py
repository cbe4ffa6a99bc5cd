"""Finds which pieces of two sorted sides meet in an as-of join, from the keys of their first and last rows.

Each left row needs one right piece. For ``backward`` and ``nearest`` this is the last piece whose first key is not
greater. For ``forward``, it is the first piece whose last key is not smaller. The edge of the neighbour shows which
rows of a left piece need another right piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.operators.arrow_values import truth
from exoshuffle.operators.asof.matching import ranks, same_as_next
from exoshuffle.operators.core.merge_join import Meeting

if TYPE_CHECKING:
    import pyarrow as pa


def meetings(
    lefts: Sequence[pa.Table], rights: Sequence[pa.Table], direction: str
) -> list[Meeting]:
    """Returns the meetings of pieces, in the order of the left rows.

    Args:
        lefts: The keys of the first and last row of each left piece, in order.
        rights: Likewise for each right piece.
        direction: See ``AsofOptions``.
    """
    if not rights:
        return [Meeting(left) for left in range(len(lefts))]
    if not lefts:
        return []
    last = len(rights) - 1
    if direction == "forward":
        reach = _reach([ends.slice(1) for ends in rights], lefts, counts_ties=False)
        return [
            Meeting(left, right, right - 1 if right else None, right == last)
            for left, (first, end) in enumerate(reach)
            for right in range(min(first, last), min(end, last) + 1)
        ]
    reach = _reach([ends.slice(0, 1) for ends in rights], lefts, counts_ties=True)
    edges = _edges(rights) if direction == "nearest" else list(range(len(rights)))
    return [
        Meeting(left, right, edges[right + 1] if right < last else None, right == 0)
        for left, (first, end) in enumerate(reach)
        for right in range(max(first - 1, 0), max(end - 1, 0) + 1)
    ]


def run_end(keys: pa.Table) -> int:
    """Returns the number of the last row that has the keys of the first one."""
    same = same_as_next(keys)
    different = same.index(truth(False)).as_py()
    return int(different) if different >= 0 else keys.num_rows - 1


def _edges(rights: Sequence[pa.Table]) -> list[int]:
    """Returns for each right piece the number of the piece that has the last row with the keys of its first row."""
    import pyarrow as pa

    # The rows are: first 0, last 0, first 1, last 1 …
    same = same_as_next(pa.concat_tables(rights)).to_pylist()
    edges = list(range(len(rights)))
    for piece in range(len(rights) - 2, -1, -1):
        if same[2 * piece] and same[2 * piece + 1]:
            edges[piece] = edges[piece + 1]
    return edges


def _reach(
    bounds: list[pa.Table], lefts: Sequence[pa.Table], *, counts_ties: bool
) -> Iterator[tuple[int, int]]:
    """Returns how many bounds of right pieces come before the first and before the last row of each left piece."""
    import pyarrow as pa

    found = ranks(pa.concat_tables(lefts), pa.concat_tables(bounds), counts_ties=counts_ties)
    each = iter(found.to_pylist())
    return zip(each, each, strict=True)
